//! `bench urcu`: a program that was compiled for liburcu, on liburcu and on the libraries that take its place.
//!
//! The program is `peers/urcu_program.c`, built once with inlined readers and once with readers that call functions.
//! Each measurement is a process of its own; the loader's path selects the library. `STILLPOINT_URCU` names the folder
//! of `ci/urcu.sh install`.
//!
//! `section_ns` is a read-side critical section with a load. `sync_*` is `synchronize_rcu()` beside a busy reader,
//! `call_sync_*` the same right after a `call_rcu()`, and `callback_*` the time from `call_rcu()` to the callback.
//! `callbacks_per_s` counts callbacks queued without a pause, until all have run. `membarriers` and `futexes` are
//! system calls a grace period beside four readers that sleep 1 ms in each section, as strace(1) counts them.
//! `stalled_bytes` is the growth of the resident memory for each callback of 24 bytes while a reader stalls.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{self, Command};
use std::time::Duration;
use std::{env, str};

use anyhow::Context as _;

use crate::peers;
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, Skipped, System};

const SECTION: Metric = Metric::nanoseconds("section_ns");
static SYNC: [Metric; 2] = [Metric::nanoseconds("sync_p50_ns"), Metric::nanoseconds("sync_p99_ns")];
static CALL_SYNC: [Metric; 2] =
    [Metric::nanoseconds("call_sync_p50_ns"), Metric::nanoseconds("call_sync_p99_ns")];
static CALLBACK: [Metric; 2] =
    [Metric::nanoseconds("callback_p50_ns"), Metric::nanoseconds("callback_p99_ns")];
const CALLBACKS: Metric = Metric { name: "callbacks_per_s", unit: "1/s", better: Better::Higher };
static SYSTEM_CALLS: [Metric; 2] =
    [Metric::count("membarriers", Better::Lower), Metric::count("futexes", Better::Lower)];
const STALLED: Metric = Metric::bytes("stalled_bytes");

/// Grace periods in which system calls are counted: the difference of two runs leaves out how the program begins.
const GRACE_PERIODS: [u32; 2] = [50, 250];

/// How the program's readers are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    Functions,
    Inlined,
}

impl Readers {
    const ALL: [Self; 2] = [Self::Functions, Self::Inlined];

    fn name(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Inlined => "inlined",
        }
    }

    /// The program, as the build script compiled it.
    fn program(self) -> &'static [u8] {
        match self {
            Self::Functions => include_bytes!(concat!(env!("OUT_DIR"), "/urcu-functions")),
            Self::Inlined => include_bytes!(concat!(env!("OUT_DIR"), "/urcu-inlined")),
        }
    }
}

/// What the program measures: its first argument, the number of callers, and how its readers are compiled.
#[derive(Clone, Copy, Debug)]
struct Task(&'static str, u32, Readers);

impl Task {
    fn config(self) -> Config {
        Config::new([("readers", self.2.name().into()), ("callers", self.1.into())])
    }
}

/// The programs in a folder of their own, which is removed at the end.
#[derive(Debug)]
struct Programs(PathBuf);

impl Programs {
    fn write() -> anyhow::Result<Self> {
        let folder = env::temp_dir().join(format!("stillpoint-urcu-{}", process::id()));
        fs::create_dir_all(&folder)?;
        let programs = Self(folder);
        for readers in Readers::ALL {
            let path = programs.path(readers);
            fs::write(&path, readers.program())?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(programs)
    }

    fn path(&self, readers: Readers) -> PathBuf {
        self.0.join(readers.name())
    }

    /// Runs a task for `slice`, and returns the values that it prints.
    fn measure<const N: usize>(
        &self,
        task: Task,
        library: &Library,
        slice: Duration,
    ) -> anyhow::Result<[f64; N]> {
        let Task(what, callers, readers) = task;
        let mut command = Command::new(self.path(readers));
        command.args([what, &slice.as_millis().max(1).to_string(), &callers.to_string()]);
        let output = library.apply(&mut command).output()?;
        anyhow::ensure!(output.status.success(), "{what} on {}: {}", library.name(), output.status);
        let values: Result<Vec<f64>, _> =
            str::from_utf8(&output.stdout)?.split_whitespace().map(str::parse).collect();
        values?.try_into().ok().with_context(|| format!("{what} printed another number of values"))
    }

    /// Counts the calls of `membarrier` and `futex` in a run with this number of grace periods.
    fn count(&self, grace_periods: u32, readers: Readers, library: &Library) -> anyhow::Result<[f64; 2]> {
        let mut command = Command::new("strace");
        let counts = self.0.join("strace");
        command.args(["-f", "-c", "-e", "trace=membarrier,futex", "-o"]).arg(&counts);
        command.args(library.environment().into_iter().flat_map(|variable| ["-E".into(), variable]));
        command.arg(self.path(readers)).args(["calls", "1", &grace_periods.to_string()]);
        let output = command.output().context("strace cannot be run (Debian: apt-get install strace)")?;
        anyhow::ensure!(output.status.success(), "strace: {}", String::from_utf8_lossy(&output.stderr));
        let counts = fs::read_to_string(counts)?;
        let calls = |name| {
            let line = counts.lines().find(|line| line.split_whitespace().last() == Some(name));
            line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok()).unwrap_or(0.0)
        };
        Ok([calls("membarrier"), calls("futex")])
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The library that the program is loaded with.
#[derive(Clone, Debug)]
enum Library {
    Installed,
    InFolder(PathBuf),
}

impl Library {
    fn name(&self) -> &'static str {
        match self {
            Self::Installed => peers::LIBURCU,
            Self::InFolder(_) => "stillpoint",
        }
    }

    /// The variable of the environment that selects it.
    fn environment(&self) -> Option<OsString> {
        let Self::InFolder(folder) = self else { return None };
        let mut variable = OsString::from("LD_LIBRARY_PATH=");
        variable.push(folder);
        Some(variable)
    }

    fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match self {
            Self::Installed => command.env_remove("LD_LIBRARY_PATH"),
            Self::InFolder(folder) => command.env("LD_LIBRARY_PATH", folder),
        }
    }
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::new("urcu");
    let (programs, mut skipped) = (Programs::write()?, Vec::new());
    let mut libraries = vec![Library::Installed];
    match env::var_os("STILLPOINT_URCU") {
        Some(folder) => {
            let folder = PathBuf::from(folder);
            anyhow::ensure!(
                folder.join("liburcu-memb.so.8").exists(),
                "STILLPOINT_URCU={} is not a folder of `ci/urcu.sh install`",
                folder.display()
            );
            libraries.insert(0, Library::InFolder(folder));
        }
        None => skipped.push(Skipped {
            system: "stillpoint".into(),
            why: "STILLPOINT_URCU does not name a folder of `ci/urcu.sh install`".to_owned(),
        }),
    }
    let mut systems: Vec<_> =
        libraries.into_iter().map(|library| System { name: library.name(), measure: library }).collect();

    let alone = |what| Task(what, 1, Readers::Functions);
    let sections = Readers::ALL.map(|readers| Task("read", 1, readers));
    measure(budget.share(0.1), &mut recorder, &programs, &sections, &mut systems, [&SECTION])?;
    let callers = [1, 32].map(|callers| Task("sync", callers, Readers::Functions));
    measure(budget.share(0.2), &mut recorder, &programs, &callers, &mut systems, SYNC.each_ref())?;
    let call_sync = [alone("call-sync")];
    measure(budget.share(0.2), &mut recorder, &programs, &call_sync, &mut systems, CALL_SYNC.each_ref())?;
    let callback = [alone("callback")];
    measure(budget.share(0.2), &mut recorder, &programs, &callback, &mut systems, CALLBACK.each_ref())?;
    measure(budget.share(0.1), &mut recorder, &programs, &[alone("flood")], &mut systems, [&CALLBACKS])?;
    measure(budget.share(0.1), &mut recorder, &programs, &[alone("stalled")], &mut systems, [&STALLED])?;

    if Command::new("strace").arg("-V").output().is_ok() {
        Plan::new(budget.share(0.1), 1000, &Readers::ALL, &mut systems, SYSTEM_CALLS.each_ref()).run(
            &mut recorder,
            |readers, _| Some(Task("calls", 1, *readers).config()),
            |&readers, system, _| {
                let [few, many] = GRACE_PERIODS;
                let before = programs.count(few, readers, &system.measure)?;
                let after = programs.count(many, readers, &system.measure)?;
                Ok([0, 1].map(|call| (after[call] - before[call]) / f64::from(many - few)))
            },
        )?;
    } else {
        skipped.push(Skipped {
            system: "strace".into(),
            why: "system calls are not counted (Debian: apt-get install strace)".to_owned(),
        });
    }
    Ok(Report::new(&recorder, skipped))
}

/// Measures each library in each task.
fn measure<const N: usize>(
    budget: Budget,
    recorder: &mut Recorder,
    programs: &Programs,
    tasks: &[Task],
    systems: &mut [System<Library>],
    metrics: [&'static Metric; N],
) -> anyhow::Result<()> {
    // The programs are started while this process is bound, and so are bound themselves.
    Plan::new(budget, 300, tasks, systems, metrics).in_profiles()?.run(
        recorder,
        |task, _| Some(task.config()),
        |&task, system, slice| programs.measure(task, &system.measure, slice),
    )
}
