//! What an interrupt, a cache line and a wake-up cost.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread::{self, Thread};

use anyhow::bail;
use stillpoint::rcu;

use super::model::Counts;
use harness::crew;
use harness::pin;
use harness::probe::{self, BATCHES, median};
use harness::report::Grid;
use harness::units::duration;

/// Costs that are given, in nanoseconds, in place of measured ones.
#[derive(Debug, clap::Args)]
pub(super) struct Given {
    /// A fence that interrupts no CPU [default: measured].
    #[arg(long, value_name = "NS")]
    fence: Option<f64>,
    /// The first interrupt of a fence [default: measured].
    #[arg(long, value_name = "NS")]
    first_interrupt: Option<f64>,
    /// Each further one. The default is the slope of the posted figures: see docs/scale.md.
    #[arg(long, value_name = "NS", default_value_t = 150.0)]
    interrupt: f64,
    /// A cache line that another CPU has written to [default: measured].
    #[arg(long, value_name = "NS")]
    miss: Option<f64>,
}

/// The costs in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    fence: f64,
    first_interrupt: f64,
    interrupt: f64,
    group: f64,
    line: f64,
    pub(super) miss: f64,
    wakeup: f64,
}

/// Readers of the scan that is measured.
const READERS: usize = 100_000;

impl Constants {
    /// Measures what is not given.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread cannot be started or bound, or if there is one CPU only.
    pub(super) fn measure(given: &Given) -> anyhow::Result<Self> {
        let cpus = pin::allowed()?;
        // CPUs with neighbouring numbers may be hardware threads of one core.
        let [first, .., other] = cpus[..] else { bail!("this takes two CPUs") };
        pin::to(first)?;
        let [alone, beside] = probe::heavy(Some(other))?;
        let fence = given.fence.unwrap_or(alone);
        let first_interrupt = given.first_interrupt.unwrap_or((beside - alone).max(0.0));
        let (measured, wakeup) = (miss(other)?, wakeup(other)?);
        let miss = given.miss.unwrap_or(measured);
        // Last: the readers stay.
        let nothing = grace_period();
        let each = |more: f64, number: usize| (more / number as f64).max(0.0);
        rcu::lab::add_readers(READERS, false);
        let idle = grace_period();
        let group = each(idle - nothing, READERS / 64);
        rcu::lab::add_readers(READERS, true);
        let line = each(grace_period() - idle - (idle - nothing), READERS);
        Ok(Self { fence, first_interrupt, interrupt: given.interrupt, group, line, miss, wakeup })
    }

    /// Returns the time that a scan takes for the readers of so many idle threads.
    pub(super) fn idle_scan(&self) -> (usize, f64) {
        (READERS, (READERS / 64) as f64 * self.group)
    }

    /// Returns the parts of the cost of `counts`.
    fn parts(&self, counts: &Counts) -> [(&'static str, f64); 5] {
        let further = (counts.interrupts - 1.0).max(0.0) * self.interrupt;
        let interrupts = counts.interrupts.min(1.0) * self.first_interrupt + further;
        [
            ("fences", counts.fences * (self.fence + interrupts)),
            ("groups of readers", counts.groups * self.group),
            ("cache lines", counts.lines * self.line),
            ("cache misses", counts.misses * self.miss),
            ("wake-ups", counts.wakeups * self.wakeup),
        ]
    }

    /// Returns the cost of `counts`.
    pub(super) fn cost(&self, counts: &Counts) -> f64 {
        self.parts(counts).iter().map(|part| part.1).sum()
    }

    /// Returns the name of the largest part of the cost.
    pub(super) fn largest(&self, counts: &Counts) -> &'static str {
        self.parts(counts).into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |part| part.0)
    }

    /// Returns the constants as a table.
    pub(super) fn grid(&self) -> Grid {
        let rows = [
            ("a fence that interrupts no CPU", self.fence),
            ("its first interrupt", self.first_interrupt),
            ("each further interrupt", self.interrupt),
            ("the bits of 64 readers", self.group),
            ("a cache line", self.line),
            ("a cache line that another CPU has written to", self.miss),
            ("a wake-up", self.wakeup),
        ];
        let rows = rows.map(|(name, cost)| vec![name.to_owned(), duration(cost)]);
        Grid::new("Constants", &["", "cost"], rows.into())
    }
}

/// Returns the time of a grace period without threads that run.
fn grace_period() -> f64 {
    median(8, rcu::synchronize)
}

/// Returns the time of a miss: two threads on two CPUs write a line in turn.
fn miss(other: usize) -> anyhow::Result<f64> {
    const ROUNDS: u64 = 1000;
    let word = AtomicU64::new(0);
    let answer = || {
        pin::to(other)?;
        for turn in 0..ROUNDS * BATCHES as u64 {
            while word.load(Acquire) != 2 * turn + 1 {
                spin_loop();
            }
            word.store(2 * turn + 2, Release);
        }
        anyhow::Ok(())
    };
    in_turn(answer, |_| {
        let mut turn = 0;
        median(ROUNDS as u32, || {
            word.store(2 * turn + 1, Release);
            turn += 1;
            while word.load(Acquire) != 2 * turn {
                spin_loop();
            }
        }) / 2.0
    })
}

/// Returns the time of a wake-up: two threads on two CPUs wake each other in turn.
fn wakeup(other: usize) -> anyhow::Result<f64> {
    const ROUNDS: u32 = 50;
    let (asked, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let caller = thread::current();
    let wait_for = |word: &AtomicU64, value| {
        while word.load(Acquire) < value {
            thread::park();
        }
    };
    let answer = || {
        pin::to(other)?;
        for turn in 1..=u64::from(ROUNDS) * BATCHES as u64 {
            wait_for(&asked, turn);
            answered.store(turn, Release);
            caller.unpark();
        }
        anyhow::Ok(())
    };
    in_turn(answer, |other| {
        let mut turn = 0;
        median(ROUNDS, || {
            turn += 1;
            asked.store(turn, Release);
            other.unpark();
            wait_for(&answered, turn);
        }) / 2.0
    })
}

/// Runs `answer` in a thread on another CPU beside `ask`.
fn in_turn(
    answer: impl FnOnce() -> anyhow::Result<()> + Send,
    ask: impl FnOnce(&Thread) -> f64,
) -> anyhow::Result<f64> {
    thread::scope(|scope| {
        let other = crew::spawn(scope, answer)?;
        let cost = ask(other.thread());
        crew::join(other)??;
        Ok(cost)
    })
}
