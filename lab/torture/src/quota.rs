//! A CPU quota for some threads: a cgroup, of version 1 or 2, that threads join one by one.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

/// Microseconds of a period, and the quota of all threads together in each.
const PERIOD: u32 = 20_000;
const TIME: u32 = 6_000;

/// A cgroup of this process, removed when dropped.
#[derive(Debug)]
pub(super) struct Quota {
    group: PathBuf,
    /// Threads join by writing to this file.
    threads: PathBuf,
}

impl Quota {
    /// Makes a cgroup. Returns an error if no hierarchy has CPU quotas, or if this process may not change it.
    pub(super) fn new() -> anyhow::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let controls_cpu = |list: &str| list.split(',').any(|name| name == "cpu");
        // Of a mount: device, place, type, options.
        let place = |kind: &str| {
            mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find_map(|mount| {
                let fits = mount.get(2) == Some(&kind) && (kind == "cgroup2" || controls_cpu(mount[3]));
                fits.then(|| PathBuf::from(mount[1]))
            })
        };
        // Of a hierarchy: number, controllers, path; version 2 has no controllers.
        let path = |fits: &dyn Fn(&str) -> bool| {
            own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                fits(parts.next()?).then(|| parts.next().unwrap_or("/").trim_start_matches('/').to_owned())
            })
        };
        let name = format!("stillpoint-{}", std::process::id());
        if let (Some(place), Some(path)) = (place("cgroup"), path(&controls_cpu)) {
            let group = place.join(path).join(name);
            return Self { threads: group.join("tasks"), group }.set_up(&[
                ("cpu.cfs_period_us", PERIOD.to_string()),
                ("cpu.cfs_quota_us", TIME.to_string()),
            ]);
        }
        let (Some(place), Some(path)) = (place("cgroup2"), path(&str::is_empty)) else {
            bail!("no cgroups with CPU quotas are mounted");
        };
        let parent = place.join(path);
        let group = parent.join(name);
        Self { threads: group.join("cgroup.threads"), group }.set_up(&[
            ("cgroup.type", "threaded".to_owned()),
            ("../cgroup.subtree_control", "+cpu".to_owned()),
            ("cpu.max", format!("{TIME} {PERIOD}")),
        ])
    }

    fn set_up(self, settings: &[(&str, String)]) -> anyhow::Result<Self> {
        fs::create_dir(&self.group).with_context(|| format!("cannot make {}", self.group.display()))?;
        for (file, value) in settings {
            let file = self.group.join(file);
            fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(self)
    }

    /// Makes the calling thread share the quota.
    pub(super) fn join(&self) -> anyhow::Result<()> {
        fs::write(&self.threads, "0").with_context(|| format!("cannot write {}", self.threads.display()))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        if let Err(why) = fs::remove_dir(&self.group) {
            eprintln!("cannot remove {}: {why}", self.group.display());
        }
    }
}
