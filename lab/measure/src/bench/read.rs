//! `bench read`: the cost of a read-side critical section in which a reader follows a pointer.
//!
//! Every system runs the same loop over one shared pointer that is not replaced: enter a section, load the pointer, add
//! the number behind it, leave. With nesting 2 a second section is entered inside the first, and `pair_ns` is the time
//! of both.
//!
//! A cache (`arc-swap-cache`, `hazarc-cache`) belongs to one thread, and keeps the value that it last read alive until
//! the thread reads again: so a thread that no longer reads holds memory for ever.

use crate::peers::std::{BareLoad, InMutex, InRwLock};
use crate::peers::stillpoint::RcuReaders;
use crate::peers::{
    self, Published, ReadSide as _, arc_swap, crossbeam, haphazard, hazarc, kovan, sdd, seize,
    time_nested_reads, time_reads,
};
use harness::timed_loop::Threads;
use harness::{Budget, Config, Metric, Plan, Recorder, Report, Skipped, systems};

/// Time of an iteration of the loop in each thread.
const PAIR: Metric = Metric::nanoseconds("pair_ns");

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut single = systems![time_reads:
        RcuReaders,
        BareLoad,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
        Published<crossbeam::Epoch>,
        Published<seize::Seize>,
        sdd::Owned,
        kovan::Pinned,
        haphazard::Hazard,
        arc_swap::Load,
        arc_swap::Cached,
        hazarc::Load,
        hazarc::Cached,
        InRwLock,
        InMutex,
    ];
    let mut nested = systems![time_nested_reads:
        RcuReaders,
        BareLoad,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
        Published<crossbeam::Epoch>,
        Published<seize::Seize>,
        sdd::Owned,
        kovan::Pinned,
        arc_swap::Load,
        hazarc::Load,
    ];
    let mut skipped = peers::missing(&[peers::LIBURCU]);
    skipped.extend(
        [
            (
                InRwLock::NAME,
                "with nesting 2: a second read() in a thread deadlocks as soon as a writer waits",
            ),
            (InMutex::NAME, "with nesting 2: a second lock() in a thread deadlocks"),
            (haphazard::Hazard::NAME, "with nesting 2: it has no sections"),
            (arc_swap::Cached::NAME, "with nesting 2: it has no sections"),
            (hazarc::Cached::NAME, "with nesting 2: it has no sections"),
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
