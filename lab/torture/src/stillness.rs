//! Detects lost wake-ups, however busy the machine is: threads that wait for what no thread will do.
//!
//! Where no thread has a timer, and none gets signals, a wait ends only by what another thread does. So if all
//! threads sleep, and none of them has run since the last look, the wake-up of those that wait is lost. Beside other
//! load, threads are ready to run instead, and do not count as asleep. On an idle machine a lost wake-up shows after
//! 100 ms, or that much after the longest timer.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::thread::{Pid, gettid};

/// The time between two looks, and how long they must show the same: longer than most timers of the library.
const PERIOD: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_millis(100);

/// What the threads did at the last look.
#[derive(Debug)]
pub(super) struct Stillness {
    /// The threads, and how often each has gone to sleep; empty if one was running, or ready to.
    threads: Vec<(u64, u64)>,
    looks: u32,
    /// Looks that must show the same.
    needed: u32,
    next: Instant,
}

/// Returns the number of the calling thread.
pub(super) fn this_thread() -> u64 {
    Pid::as_raw(Some(gettid())) as u64
}

impl Stillness {
    /// For threads that may sleep for up to `longest` until a timer wakes them.
    pub(super) fn beside_timers(longest: Duration) -> Self {
        let needed = (longest + LONG).div_duration_f64(PERIOD) as u32;
        Self { threads: Vec::new(), looks: 0, needed, next: Instant::now() + PERIOD }
    }

    /// Returns `true` if no thread of the process has run for a while, and none is ready to, but for the caller and
    /// those that are `excused`: these wait for the others.
    pub(super) fn check(&mut self, excused: impl Fn(u64) -> bool) -> bool {
        if Instant::now() < self.next {
            return false;
        }
        // From now on: if this thread was not run, no looks are made up for.
        self.next = Instant::now() + PERIOD;
        let own = this_thread();
        let threads = sleeping(|thread| thread == own || excused(thread)).unwrap_or_default();
        self.looks = if !threads.is_empty() && threads == self.threads { self.looks + 1 } else { 0 };
        self.threads = threads;
        self.looks >= self.needed
    }
}

/// Returns the threads, and how often each has gone to sleep, or `None` if one does not sleep.
fn sleeping(excused: impl Fn(u64) -> bool) -> Option<Vec<(u64, u64)>> {
    let mut threads = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let path = thread.ok()?.path();
        let number = path.file_name()?.to_str()?.parse().ok()?;
        if excused(number) {
            continue;
        }
        threads.push((number, sleeps(&path)?));
    }
    threads.sort_unstable();
    Some(threads)
}

/// Returns how often a thread has gone to sleep, if it sleeps now.
fn sleeps(thread: &Path) -> Option<u64> {
    let status = fs::read_to_string(thread.join("status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    field("State:")?.starts_with('S').then_some(())?;
    let switches = |name| field(name)?.parse::<u64>().ok();
    Some(switches("voluntary_ctxt_switches:")? + switches("nonvoluntary_ctxt_switches:")?)
}
