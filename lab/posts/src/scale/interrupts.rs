//! The interrupts of a grace period beside some running threads: `scale --interrupts`.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use stillpoint::{qsbr, rcu};

use super::count::interrupts;
use harness::controls::Controls;
use harness::report::Grid;
use harness::units::digits;
use harness::{crew, pin};

/// A number is the median of so many batches.
const BATCHES: usize = 7;
/// Grace periods in each batch.
const GRACE_PERIODS: u64 = 50;

/// What the threads do that have a CPU each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Enter and leave sections of `rcu`.
    Read,
    /// Compute, after they have read once.
    Compute,
    /// Sleep, after they have read once.
    Sleep,
    /// Read and report in `qsbr`, whose grace periods are counted.
    Report,
}

/// Prints the interrupts of a grace period beside 0 to n threads, where n is the number of further CPUs. On each of the
/// CPUs that are left a thread sleeps that has read.
///
/// # Errors
///
/// Returns an error if a number is not that of the threads that run.
pub(super) fn run() -> anyhow::Result<()> {
    let cpus = pin::allowed()?;
    let (first, others) = cpus.split_first().context("this process may use no CPU")?;
    pin::to(*first)?;
    let mut rows = Vec::new();
    for running in [0, 1, 2, 4, 7, 15].into_iter().filter(|&running| running <= others.len()) {
        let mut row = vec![running.to_string()];
        for work in [Work::Read, Work::Compute, Work::Sleep, Work::Report] {
            let (interrupts, fences) = beside(&others[..running], &others[running..], work)?;
            let expected = match work {
                Work::Read | Work::Compute => running as f64 * fences,
                Work::Sleep | Work::Report => 0.0,
            };
            // The scheduler interrupts idle CPUs too, now and then.
            let differs = work != Work::Sleep && (interrupts - expected).abs() > 0.1 * expected + 0.3;
            ensure!(
                !differs,
                "{work:?}, {running} threads: {interrupts} interrupts, not {expected} (do other programs run?)"
            );
            row.push(digits(interrupts));
            if work == Work::Read {
                row.push(digits(fences));
            }
        }
        rows.push(row);
    }
    let title = format!("Interrupts of a grace period, {} CPUs", cpus.len());
    let head = ["threads", "read", "fences", "compute", "sleep", "qsbr"];
    println!("{}", Grid::new(&title, &head, rows));
    Ok(())
}

/// Returns the interrupts of `busy` CPUs in a grace period, and its fences, beside a thread that does this `work` on each
/// of them, and one that sleeps on each of `idle`.
fn beside(busy: &[usize], idle: &[usize], work: Work) -> anyhow::Result<(f64, f64)> {
    let controls = Controls::default();
    controls.scope(|scope| {
        let all = busy.iter().map(|&cpu| (cpu, work)).chain(idle.iter().map(|&cpu| (cpu, Work::Sleep)));
        for (cpu, work) in all {
            let controls = &controls;
            crew::spawn(scope, move || {
                let bound = pin::to(cpu);
                drop(rcu::enter());
                match work {
                    Work::Read => until_the_end(controls, || drop(rcu::enter())),
                    Work::Compute => until_the_end(controls, spin_loop),
                    Work::Sleep => {
                        controls.ready.arrive();
                        controls.end.wait();
                    }
                    Work::Report => {
                        let mut handle = qsbr::register();
                        until_the_end(controls, || handle.quiescent());
                    }
                }
                bound
            })?;
        }
        controls.ready.wait_for(busy.len() + idle.len());
        // What starting the threads has caused is over when each has run for a while.
        thread::sleep(Duration::from_millis(100));
        let each = |count: u64| count as f64 / GRACE_PERIODS as f64;
        let mut batches = Vec::new();
        for _ in 0..BATCHES {
            let (before, interrupts_before) = (rcu::stats(), interrupts(busy)?);
            for _ in 0..GRACE_PERIODS {
                if work == Work::Report { qsbr::synchronize() } else { rcu::synchronize() }
            }
            let fences = rcu::stats().heavy_fences - before.heavy_fences;
            let interrupts_after = interrupts(busy)?;
            batches.push((each(interrupts_after - interrupts_before), each(fences)));
        }
        batches.sort_by(|(first, _), (second, _)| first.total_cmp(second));
        Ok(batches[BATCHES / 2])
    })
}

/// Calls `f` until the measurement ends.
fn until_the_end(controls: &Controls, mut f: impl FnMut()) {
    controls.ready.arrive();
    while !controls.background_must_stop() {
        (0..100).for_each(|_| f());
    }
}
