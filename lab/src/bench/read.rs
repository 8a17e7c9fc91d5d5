//! `bench read`: the cost of a read-side critical section in which a reader follows a pointer.
//!
//! Every system runs the same loop over one shared pointer that is not replaced: enter a section, load the pointer, add
//! the number behind it, leave. With nesting 2 a second section is entered inside the first, and `pair_ns` is the time
//! of both.

use crate::harness::timed_loop::Threads;
use crate::harness::{Budget, Config, Metric, Plan, Recorder, Report, Skipped, systems};
use crate::peers::std::{BareLoad, InMutex, InRwLock};
use crate::peers::stillpoint::RcuReaders;
use crate::peers::{
    self, Published, ReadSide as _, arc_swap, crossbeam, seize, time_nested_reads, time_reads,
};

/// Time of an iteration of the loop in each thread.
const PAIR: Metric = Metric::nanoseconds("pair_ns");

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut single = systems![time_reads:
        RcuReaders,
        BareLoad,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
        Published<crossbeam::Epoch>,
        Published<seize::Seize>,
        arc_swap::Load,
        InRwLock,
        InMutex,
    ];
    let mut nested = systems![time_nested_reads:
        RcuReaders,
        BareLoad,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
        Published<crossbeam::Epoch>,
        Published<seize::Seize>,
        arc_swap::Load,
    ];
    let mut skipped = peers::missing(&[peers::LIBURCU]);
    skipped.extend(
        [
            (
                InRwLock::NAME,
                "with nesting 2: a second read() in a thread deadlocks as soon as a writer waits",
            ),
            (InMutex::NAME, "with nesting 2: a second lock() in a thread deadlocks"),
        ]
        .map(|(system, why)| Skipped { system: system.into(), why: why.to_owned() }),
    );
    let cells = Threads::pinned()?;
    let mut recorder = Recorder::new("read");
    for (nesting, systems) in [(1, &mut single[..]), (2, &mut nested)] {
        let config = |count: usize| Config::new([("threads", count.into()), ("nesting", nesting.into())]);
        Plan::new(budget.share(0.5), 40, &cells, systems, [&PAIR]).run(
            &mut recorder,
            |threads, _| Some(config(threads.count)),
            |&threads, system, slice| Ok([(system.measure)(threads, slice)?]),
        )?;
    }
    Ok(Report::new(&recorder, skipped))
}
