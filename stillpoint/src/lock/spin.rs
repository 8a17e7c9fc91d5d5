//! What a thread does before it sleeps or gives up: it spins, then yields its CPU.

use super::patience;
use super::policy::{SHORT_PAUSES, SPIN_NS};
use super::waiter::Waiter;
use crate::sync::{
    has_normal_policy, is_bound, now, process_cpus, spin_iterations, spin_loop, step, yield_now,
};

/// The yields of a wait.
#[derive(Debug)]
pub struct Yields {
    left: u32,
    /// The time at which the wait ends.
    until: Option<u64>,
    /// Whether the thread can yield its CPU, once it has asked.
    can_yield: Option<bool>,
}

impl Yields {
    /// `most` yields, before the clock shows `until`.
    pub fn new(most: u32, until: Option<u64>) -> Self {
        Self { left: most, until, can_yield: None }
    }

    /// Yields the CPU to other threads, if that takes a short time. Returns `true` if so.
    pub fn yield_cpu(&mut self, waiter: &Waiter) -> bool {
        let start = now();
        if self.left == 0 || self.until.is_some_and(|until| start >= until) {
            return false;
        }
        // A wait with a limit yields also if the thread is bound to one CPU: the wait is bounded anyway, and fails if
        // the holder does not run before its end.
        let may_yield = || has_normal_policy() && (self.until.is_some() || !is_bound());
        let was_notified = waiter.has_slept_lately(start);
        let yields =
            !(was_notified && patience::is_paused()) && *self.can_yield.get_or_insert_with(may_yield);
        if yields {
            yield_now();
        }
        // Also if it cannot yield, so as not to find that out at each wait.
        let end = now();
        waiter.has_yielded(end);
        if yields && was_notified {
            patience::has_yielded(start, end);
        }
        yields
    }

    /// As [`yield_cpu`](Self::yield_cpu), for one of the yields that are left.
    pub fn next(&mut self, waiter: &Waiter) -> bool {
        let yields = self.yield_cpu(waiter);
        if yields {
            step!("yield-not-counted", self.left -= 1);
        }
        yields
    }
}

/// What is left of [`SPIN_NS`].
#[derive(Debug)]
pub struct Spin {
    /// Iterations of [`spin_loop`].
    left: u32,
    /// Pauses so far, and the iterations of the next one and of the longest.
    pauses: u32,
    next: u32,
    longest: u32,
}

impl Spin {
    /// Spins with pauses of one iteration; not at all if there is one CPU, where the holder does not run meanwhile.
    pub fn new() -> Self {
        let ns = if process_cpus() == 1 { 0 } else { SPIN_NS };
        Self { left: spin_iterations(ns), pauses: 0, next: 1, longest: 1 }
    }

    /// Spins with pauses that double, after the first few, up to `longest_ns` nanoseconds.
    pub fn with_backoff(longest_ns: u32) -> Self {
        Self { longest: spin_iterations(longest_ns).max(1), ..Self::new() }
    }

    /// Pauses once. Returns `false`, without a pause, if the time is over.
    pub fn pause(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left = self.left.saturating_sub(self.next);
        (0..self.next).for_each(|_| spin_loop());
        self.pauses += 1;
        if self.pauses >= SHORT_PAUSES {
            self.next = (self.next * 2).min(self.longest);
        }
        true
    }
}

#[cfg(all(
    test,
    target_os = "linux",
    target_pointer_width = "64",
    not(any(loom, miri, stillpoint_portable))
))]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::lock::waiter::with;

    #[test]
    fn notified_thread_does_not_yield_beside_other_programs() {
        fn yields() -> bool {
            with(|waiter| Yields::new(1, Some(u64::MAX)).next(waiter))
        }
        let check = || {
            // Whatever other threads do meanwhile.
            let later = now() + 10_000_000_000;
            patience::has_yielded(later - 10_000_000, later);
            assert!(yields(), "it was not notified");
            with(|waiter| waiter.contends_not_before(u64::MAX));
            assert!(!yields());
            // The time is over.
            patience::has_yielded(0, 10_000_000);
            assert!(yields());
        };
        std::thread::spawn(check).join().expect("the thread");
    }

    #[test]
    fn thread_bound_to_one_cpu_yields_in_waits_with_a_limit_only() {
        fn yields(until: Option<u64>) -> bool {
            with(|waiter| Yields::new(1, until).next(waiter))
        }
        let check = || {
            let all = sched_getaffinity(None).expect("the affinity");
            assert_eq!(yields(None), all.count() > 1);
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).expect("a CPU"));
            sched_setaffinity(None, &one).expect("an allowed CPU");
            assert!(!yields(None) && yields(Some(u64::MAX)) && !yields(Some(now())));
        };
        std::thread::spawn(check).join().expect("the thread");
    }
}
