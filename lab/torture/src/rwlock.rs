//! `torture rwlock`: threads take one reader-writer lock in all ways at once.
//!
//! Checked: what the lock guards does not change during a read, no other thread changes it during a write, each wait
//! ends, and no write is lost. In some intervals one reader and one writer have a CPU each, and show a missing fence.
//! Several times per second all threads stop; then no later release makes up for a lost wake-up.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::Duration;

use stillpoint::lock::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

use super::canary;
use super::common::{Common, Kind, THREADS, check, fail, require, sleep};
use super::far::Far;
use super::faults::have_cpu;
use super::intervals::{quiet_interval, repeat};
use harness::pin;

pub(super) const NAME: &str = "rwlock";

/// Time until all threads stop; with one reader and one writer, and otherwise.
const TIGHT: Duration = Duration::from_millis(300);
const INTERVAL: Duration = Duration::from_millis(100);
/// Reads and writes per second that a conclusive run needs.
const LEAST: u64 = 1000;

/// What the lock guards: both are equal whenever no thread writes. Atomic, as readers that are not excluded load it
/// too.
#[derive(Debug, Default)]
struct Guarded {
    first: AtomicU64,
    second: AtomicU64,
}

static LOCK: RwLock<Guarded> = RwLock::new(Guarded { first: AtomicU64::new(0), second: AtomicU64::new(0) });

/// What was done.
#[derive(Debug, Default)]
struct Count {
    reads: u64,
    writes: u64,
    timed_out: u64,
}

impl Guarded {
    /// Reads for a while. Ends the process if another thread writes.
    fn read(&self) {
        let before = self.first.load(Relaxed);
        pause();
        let (first, second) = (self.first.load(Relaxed), self.second.load(Relaxed));
        if (first, second) != (before, before) {
            fail(NAME, Kind::Exclusion, &format!("a read began at {before} and saw {first} and {second}"));
        }
    }

    /// Writes. Ends the process if another thread does.
    fn write(&self) {
        let before = self.first.load(Relaxed);
        // Plain stores: no read-modify-write that would order what the lock does not.
        self.first.store(before + 1, Relaxed);
        pause();
        let second = self.second.load(Relaxed);
        if second != before {
            fail(NAME, Kind::Exclusion, &format!("a write began at {before} and saw {second}"));
        }
        self.second.store(before + 1, Relaxed);
    }
}

/// Stays inside for a while, which is mostly short.
fn pause() {
    match fastrand::u16(..) {
        0..32768 => {}
        32768..65000 => (0..fastrand::u32(..200)).for_each(|_| hint::spin_loop()),
        65000..65500 => thread::yield_now(),
        65500.. => sleep(Duration::from_micros(fastrand::u64(..500))),
    }
}

/// Runs the torture. Returns what passed.
pub(super) fn run(args: &Common) -> anyhow::Result<String> {
    canary::start(|| ())?;
    let (cpus, far, mut all) = (pin::allowed()?, Far::new(), Count::default());
    let intervals = repeat(args.seconds, |number| {
        // Few threads first, then any number; hardly any writes, up to mostly writes.
        let threads = if number % 2 == 0 { 2 + number / 2 % 3 } else { THREADS };
        let writes = [1, 64, 8, 128][number / 2 % 4];
        let stop = AtomicBool::new(false);
        let counts = if number % 4 == 0 && cpus.len() > 1 {
            let tight = Tight { far: &far, reads: AtomicU64::new(0), next: AtomicU64::new(0) };
            quiet_interval(NAME, 2, TIGHT, &stop, |thread| tight.run(thread == 0, cpus[thread], &stop))?
        } else {
            quiet_interval(NAME, threads, INTERVAL, &stop, |_| {
                let mut count = Count::default();
                while !stop.load(Relaxed) {
                    operate(&mut count, writes);
                }
                count
            })?
        };
        for count in counts {
            all.reads += count.reads;
            all.writes += count.writes;
            all.timed_out += count.timed_out;
        }
        Ok(())
    })?;
    let done = LOCK.read().second.load(Relaxed);
    check(done == all.writes, Kind::Lost, || format!("{} writes, but the work of {done}", all.writes))?;
    require(NAME, "reads and writes", all.reads + all.writes, LEAST, args.seconds);
    let Count { reads, writes, timed_out } = all;
    Ok(format!("{reads} reads and {writes} writes in {intervals} intervals, {timed_out} timed out"))
}

/// A reader and a writer of an interval.
struct Tight<'a> {
    far: &'a Far,
    reads: AtomicU64,
    /// The number of reads after which the writer writes.
    next: AtomicU64,
}

impl Tight<'_> {
    fn run(&self, reads: bool, cpu: usize, stop: &AtomicBool) -> Count {
        have_cpu(cpu);
        let mut count = Count::default();
        while !stop.load(Relaxed) {
            if reads {
                self.read(&mut count);
            } else {
                self.write(&mut count, stop);
            }
        }
        count
    }

    /// Reads: for a short time, and when the writer is about to write, for a long one, after stores that fill the
    /// store buffer, so that the read is counted late.
    fn read(&self, count: &mut Count) {
        let is_long = count.reads >= self.next.load(Relaxed);
        if is_long {
            self.far.store(fastrand::u8(8..48));
        }
        let guard = LOCK.read();
        let before = guard.first.load(Relaxed);
        for _ in 0..if is_long { fastrand::u16(..512) } else { 1 } {
            let now = guard.first.load(Relaxed);
            if now != before {
                fail(NAME, Kind::Exclusion, &format!("a read began at {before} and saw {now}"));
            }
        }
        drop(guard);
        count.reads += 1;
        self.reads.store(count.reads, Relaxed);
    }

    /// Writes once after so many reads that the lock is ready for many.
    fn write(&self, count: &mut Count, stop: &AtomicBool) {
        let next = self.reads.load(Relaxed) + [1_200, 2_000, 5_000][fastrand::usize(..3)];
        self.next.store(next, Relaxed);
        while self.reads.load(Relaxed) < next {
            if stop.load(Relaxed) {
                return;
            }
            hint::spin_loop();
        }
        // At any moment of a read.
        (0..fastrand::u16(..512)).for_each(|_| hint::spin_loop());
        let guard = LOCK.write();
        guard.write();
        count.writes += 1;
    }
}

/// Takes the lock in some way, once.
fn operate(count: &mut Count, writes: u8) {
    let timeout = Duration::from_micros(fastrand::u64(..300));
    let way = fastrand::u8(..16);
    if fastrand::u8(..) >= writes {
        let guard = match way {
            0 => LOCK.try_read(),
            1 => LOCK.try_read_for(timeout),
            2 => Some(RwLockUpgradableReadGuard::downgrade(LOCK.upgradable_read())),
            _ => Some(LOCK.read()),
        };
        let Some(guard) = guard else { return count.timed_out += 1 };
        guard.read();
        count.reads += 1;
        if way == 3 {
            RwLockReadGuard::unlock_fair(guard);
        }
        return;
    }
    let guard = match way {
        0 => LOCK.try_write(),
        1 => LOCK.try_write_for(timeout),
        2 | 3 => {
            let guard = LOCK.upgradable_read();
            guard.read();
            count.reads += 1;
            if way == 2 {
                Some(RwLockUpgradableReadGuard::upgrade(guard))
            } else {
                RwLockUpgradableReadGuard::try_upgrade_for(guard, timeout).ok()
            }
        }
        _ => Some(LOCK.write()),
    };
    let Some(guard) = guard else { return count.timed_out += 1 };
    guard.write();
    count.writes += 1;
    match way {
        4 => RwLockWriteGuard::unlock_fair(guard),
        5 => {
            let guard = RwLockWriteGuard::downgrade(guard);
            guard.read();
            count.reads += 1;
        }
        6 => {
            let guard = RwLockWriteGuard::downgrade_to_upgradable(guard);
            guard.read();
            count.reads += 1;
        }
        _ => {}
    }
}
