//! How long a thread spins for a notification before it sleeps.
//!
//! The wake-up of a thread that sleeps costs its notifier a system call, and the thread a switch or the time in which
//! an idle CPU starts again. Two threads that hand over items one by one pay that for each item. So a thread first
//! spins for about as long as a wake-up takes: at worst it pays twice (Karlin et al., "Empirical Studies of
//! Competitive Spinning", SOSP 1991). That depends on how many threads want a CPU:
//!
//! - Up to as many threads as there are CPUs have waited for condition variables: a thread that spins keeps none of
//!   them from running, and the wake-up would be that of an idle CPU. It spins for [`ALONE_NS`].
//! - More threads have: the wake-up is a switch, and the CPU is of use to others. It spins for [`SHARED_NS`].
//!
//! A thread that has spun without success does not spin in its next waits: in one, then in three, up to a bound. With
//! one CPU, no thread spins.
//!
//! # CPUs that others use
//!
//! Two threads that spin for each other are both runnable all the time. If another program has one of their CPUs, one
//! of them loses its CPU again and again, and the other one spins in vain. If they sleep instead, the scheduler has
//! both on the free CPU, where they fill and drain a queue in turns: several times faster. So a thread that wakes one
//! that sleeps looks how often it has lost its CPU, while runnable, since it last did so. If that was [`OFTEN`]
//! within [`WINDOW`], threads do not spin for the time [`PAUSE`].
//!
//! Nor do threads then yield for a mutex that they contend for soon after a notification. Each yield leaves the CPU
//! to the other program for a time slice. If several threads were notified, and all have to arrive before the next
//! notification, they wait for the slowest. So that time begins also if a yield of such a thread has taken as long as
//! a time slice: one of these is lost each time. Without other programs yields are short, and many threads that yield
//! until the mutex is free are faster than if they sleep.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::sync::{now, process_cpus};
#[cfg(not(loom))]
use crate::sys::thread;

/// Nanoseconds for which a thread spins if each thread may have a CPU, and in how many waits at most it then does
/// not.
const ALONE_NS: u32 = 12_000;
const ALONE_PAUSE: u32 = 7;
/// The same if there are more threads.
const SHARED_NS: u32 = 2_000;
const SHARED_PAUSE: u32 = 63;

/// How many times a thread has lost its CPU, and within how many nanoseconds, when the CPUs count as used by others;
/// and for how long they do.
const OFTEN: u64 = 8;
const WINDOW: u64 = 10_000_000;
const PAUSE: u64 = 50_000_000;

/// Nanoseconds of a yield, at least, after which they do so too: a time slice, and longer than many threads take that
/// only yield to each other.
const LONG_YIELD: u64 = 2_000_000;

/// Until when no thread spins; 0 if threads do.
static PAUSED_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Threads that have waited for condition variables.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// What a thread knows of its last waits.
#[derive(Debug)]
pub struct Patience {
    /// Whether the thread is one of [`THREADS`]; `None` once it has exited: nothing would subtract it then.
    is_counted: Cell<Option<bool>>,
    /// The waits that are left in which it does not spin, and how many there were after the last spin.
    left: Cell<u32>,
    pause: Cell<u32>,
    /// How often the thread had lost its CPU when its window began, and when that was.
    window: Cell<(u64, u64)>,
}

impl Patience {
    pub const fn new() -> Self {
        Self {
            is_counted: Cell::new(Some(false)),
            left: Cell::new(0),
            pause: Cell::new(0),
            window: Cell::new((0, 0)),
        }
    }

    /// The calling thread begins a wait. Calls `spin` with a time in nanoseconds if it is to spin; `spin` returns
    /// `true` if it had success.
    pub fn spin(&self, spin: impl FnOnce(u32) -> bool) {
        if self.is_counted.get() == Some(false) {
            self.is_counted.set(Some(true));
            // Relaxed, here and below: an estimate.
            THREADS.fetch_add(1, Relaxed);
        }
        match process_cpus() {
            1 => {}
            cpus if THREADS.load(Relaxed) <= cpus => {
                if !is_paused() {
                    self.spin_for(ALONE_NS, ALONE_PAUSE, spin);
                }
            }
            _ => self.spin_for(SHARED_NS, SHARED_PAUSE, spin),
        }
    }

    fn spin_for(&self, ns: u32, longest_pause: u32, spin: impl FnOnce(u32) -> bool) {
        let left = self.left.get();
        if left != 0 {
            self.left.set(left - 1);
            return;
        }
        let pause = if spin(ns) { 0 } else { (2 * self.pause.get() + 1).min(longest_pause) };
        self.pause.set(pause);
        self.left.set(pause);
    }

    /// The thread has woken some that slept.
    #[cfg(not(loom))]
    pub fn woke_sleepers(&self) {
        if THREADS.load(Relaxed) > process_cpus() || PAUSED_UNTIL.load(Relaxed) != 0 {
            return;
        }
        let now = now();
        if self.has_lost_cpu_often(thread::preemptions(), now) {
            PAUSED_UNTIL.store(now + PAUSE, Relaxed);
        }
    }

    /// The thread has lost its CPU for `lost` times. Returns `true` if that was often in this window.
    #[cfg(not(loom))]
    fn has_lost_cpu_often(&self, lost: u64, now: u64) -> bool {
        let (before, begin) = self.window.get();
        let is_over = now.saturating_sub(begin) > WINDOW;
        if is_over {
            self.window.set((lost, now));
        }
        !is_over && lost.saturating_sub(before) >= OFTEN
    }

    /// The thread exits.
    pub fn exit(&self) {
        if self.is_counted.replace(None) == Some(true) {
            THREADS.fetch_sub(1, Relaxed);
        }
    }

    /// The thread is the only one of the child of a fork.
    #[cfg(not(loom))]
    pub fn in_child(&self) {
        THREADS.store((self.is_counted.get() == Some(true)).into(), Relaxed);
        // The kernel counts anew.
        self.window.set((0, 0));
    }
}

/// A thread that was notified shortly before has yielded its CPU between these times.
pub fn has_yielded(start: u64, end: u64) {
    // Models have no other programs.
    if cfg!(not(loom)) && end.saturating_sub(start) >= LONG_YIELD {
        PAUSED_UNTIL.store(end + PAUSE, Relaxed);
    }
}

/// Returns `true` if the CPUs count as used by others.
pub fn is_paused() -> bool {
    let until = PAUSED_UNTIL.load(Relaxed);
    if until == 0 {
        return false;
    }
    let is_paused = now() < until;
    if !is_paused {
        PAUSED_UNTIL.store(0, Relaxed);
    }
    is_paused
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn thread_that_has_exited_is_not_counted() {
        // A thread without a node is not counted.
        let _alone = crate::lock::nodes::exclude_other_tests();
        let wait = || {
            let (mutex, condvar) = (crate::lock::Mutex::new(()), crate::lock::Condvar::new());
            condvar.wait_for(&mut mutex.lock(), core::time::Duration::from_millis(10));
            assert_ne!(THREADS.load(Relaxed), 0);
        };
        (0..8).map(|_| std::thread::spawn(wait)).for_each(|thread| thread.join().expect("it does not panic"));
        // The threads of other tests exit, too.
        while THREADS.load(Relaxed) != 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn thread_that_waits_after_its_exit_is_not_counted() {
        let patience = Patience::new();
        patience.exit();
        patience.spin(|_| true);
        assert_eq!(patience.is_counted.get(), None);
    }

    #[test]
    fn losses_of_the_cpu_count_only_within_a_window() {
        let patience = Patience::new();
        let mut now = WINDOW;
        let mut is_often = |lost, after| {
            now += after;
            patience.has_lost_cpu_often(lost, now)
        };
        // The first window begins with the first look.
        assert!(!is_often(100, WINDOW));
        assert!(!is_often(99 + OFTEN, WINDOW / 2));
        assert!(is_often(100 + OFTEN, WINDOW / 2));
        assert!(!is_often(200 + OFTEN, 1));
        assert!(!is_often(199 + 2 * OFTEN, 1));
        assert!(is_often(200 + 2 * OFTEN, 1));
        // As in the child of a fork, or with a clock of another namespace.
        assert!(!patience.has_lost_cpu_often(0, now) && !patience.has_lost_cpu_often(OFTEN, 0));
    }

    #[test]
    fn thread_spins_less_often_until_a_spin_has_success() {
        let patience = Patience::new();
        let spins = |success: bool| {
            let mut waits = 1;
            loop {
                let mut spun = false;
                patience.spin_for(1, 7, |_| {
                    spun = true;
                    success
                });
                if spun {
                    return waits;
                }
                waits += 1;
            }
        };
        assert_eq!([(); 5].map(|()| spins(false)), [1, 2, 4, 8, 8]);
        assert_eq!([(); 3].map(|()| spins(true)), [8, 1, 1]);
        assert_eq!([(); 2].map(|()| spins(false)), [1, 2]);
    }
}
