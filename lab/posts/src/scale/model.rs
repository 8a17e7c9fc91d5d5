//! How many system calls, interrupts, cache lines and wake-ups an operation takes.
//!
//! # Assumptions
//!
//! - Each CPU but the caller's runs a thread of the process, if there are as many threads. The rest sleep.
//! - A process-wide fence interrupts each CPU that runs another thread of the process, and waits for all of them. The
//!   first interrupt costs a round trip; each further one what it takes to send it and to see its answer.
//! - A thread that runs reads, so its reader is in its cache. The reader of a thread that sleeps is in the caller's,
//!   or close. Threads that have called `hint_idle` before they sleep are skipped.
//! - Loads of lines that are in no other cache are independent, and overlap. Misses do not.
//! - The memory bandwidth, the distance between NUMA nodes, and the scheduler are left out.

/// A machine, and the threads of a process on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) cpus: usize,
    pub(super) threads: usize,
}

impl Machine {
    /// Returns the number of other threads that run.
    pub(super) fn running(&self) -> f64 {
        self.threads.min(self.cpus - 1) as f64
    }

    /// Returns the number of threads that sleep.
    fn sleeping(&self) -> f64 {
        self.threads as f64 - self.running()
    }
}

/// What an operation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Process-wide fences, one after the other.
    pub(super) fences: f64,
    /// Interrupts in each of them.
    pub(super) interrupts: f64,
    /// Words of 64 readers.
    pub(super) groups: f64,
    /// Cache lines that no other CPU has written to since.
    pub(super) lines: f64,
    /// Cache lines that another CPU has written to.
    pub(super) misses: f64,
    pub(super) wakeups: f64,
}

/// A way to do an operation.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) is_ours: bool,
    pub(super) counts: fn(&Machine) -> Counts,
}

/// What the library and others do in different ways.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) title: &'static str,
    /// It also depends on the number of threads for each CPU.
    pub(super) by_threads: bool,
    pub(super) variants: [&'static Variant; 3],
}

const fn ours(name: &'static str, counts: fn(&Machine) -> Counts) -> Variant {
    Variant { name, is_ours: true, counts }
}

const fn theirs(name: &'static str, counts: fn(&Machine) -> Counts) -> Variant {
    Variant { name, is_ours: false, counts }
}

/// One call of `membarrier`.
fn fence(machine: &Machine) -> Counts {
    Counts { fences: 1.0, interrupts: machine.running(), ..Counts::default() }
}

/// A caller on each CPU: the kernel runs one call after the other. The mean caller waits for half of them.
fn fences_in_turn(machine: &Machine) -> Counts {
    let callers = machine.running() + 1.0;
    Counts { fences: (callers + 1.0) / 2.0, ..fence(machine) }
}

/// A thread on each CPU waits for a grace period of the same domain: for the rest of a fence, and for the next one.
fn fences_shared(machine: &Machine) -> Counts {
    Counts { fences: 1.5, wakeups: 1.0, ..fence(machine) }
}

/// A fence, the groups, and the readers of running threads: those that sleep are idle.
pub(super) fn grace_period_of_idle(machine: &Machine) -> Counts {
    let groups = (machine.threads as f64 / 64.0).ceil();
    Counts { groups, misses: machine.running(), ..fence(machine) }
}

/// The same if no thread has called `hint_idle`.
fn grace_period(machine: &Machine) -> Counts {
    Counts { lines: machine.sleeping(), ..grace_period_of_idle(machine) }
}

/// liburcu's, with readers that are ordered by `membarrier`: two fences, and two passes over all registered threads.
/// What running threads write is missed in each.
fn liburcu(machine: &Machine) -> Counts {
    Counts { fences: 2.0, lines: 2.0 * machine.sleeping(), misses: 2.0 * machine.running(), ..fence(machine) }
}

/// A line for each CPU.
fn sum_by_cpu(machine: &Machine) -> Counts {
    let running = machine.running();
    Counts { lines: machine.cpus as f64 - running, misses: running, ..Counts::default() }
}

/// The same in a virtual machine that may get 1024 CPUs.
fn sum_by_possible_cpu(machine: &Machine) -> Counts {
    Counts { lines: 1024.0 - machine.running(), ..sum_by_cpu(machine) }
}

/// A counter for each thread.
fn sum_by_thread(machine: &Machine) -> Counts {
    Counts { lines: machine.sleeping(), misses: machine.running(), ..Counts::default() }
}

/// To a thread that spins: the word of the lock, and the line that the waiter spins on.
fn handover(_: &Machine) -> Counts {
    Counts { misses: 2.0, ..Counts::default() }
}

/// To a thread that is parked.
fn handover_to_parked(machine: &Machine) -> Counts {
    Counts { wakeups: 1.0, ..handover(machine) }
}

/// Each CPU spins on the word of the lock, and loads it after each release.
fn handover_by_word(machine: &Machine) -> Counts {
    Counts { misses: machine.running() + 1.0, ..Counts::default() }
}

/// All operations.
pub(super) static OPERATIONS: [Operation; 4] = [
    Operation {
        title: "A process-wide fence",
        by_threads: true,
        variants: [
            &ours("alone", fence),
            &ours("a caller per CPU", fences_in_turn),
            &ours("those of grace periods", fences_shared),
        ],
    },
    Operation {
        title: "A grace period",
        by_threads: true,
        variants: [
            &ours("stillpoint", grace_period),
            &ours("after hint_idle", grace_period_of_idle),
            &theirs("liburcu", liburcu),
        ],
    },
    Operation {
        title: "The sum of a counter",
        by_threads: false,
        variants: [
            &ours("stillpoint", sum_by_cpu),
            &ours("1024 CPUs possible", sum_by_possible_cpu),
            &theirs("one per thread", sum_by_thread),
        ],
    },
    Operation {
        title: "A lock passed on",
        by_threads: false,
        variants: [
            &ours("to a spinning thread", handover),
            &ours("to a parked thread", handover_to_parked),
            &theirs("spinning on a word", handover_by_word),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_idle_threads_are_groups_only() {
        let idle = grace_period_of_idle(&Machine { cpus: 8, threads: 100_000 });
        assert_eq!(
            idle,
            Counts { fences: 1.0, interrupts: 7.0, groups: 1563.0, misses: 7.0, ..Counts::default() }
        );
        let others = grace_period(&Machine { cpus: 8, threads: 100_000 });
        assert_eq!(others.lines, 99_993.0);
    }

    #[test]
    fn single_caller_interrupts_the_running_threads_only() {
        let counts = |cpus, threads| fence(&Machine { cpus, threads }).interrupts;
        assert_eq!([counts(16, 1), counts(16, 100), counts(2, 2)], [1.0, 15.0, 1.0]);
    }
}
