//! `bench read`: the cost of a read-side critical section in which a reader follows a pointer.
//!
//! Every system runs the same loop over one shared pointer that is not replaced: enter a section, load the pointer,
//! add the number behind it, leave.
//!
//! A cache (`arc-swap-cache`, `hazarc-cache`) belongs to one thread, and keeps the value that it last read alive
//! until the thread reads again: so a thread that no longer reads holds memory for ever.

use super::time_loops;
use crate::peers::hazards::{Haphazard, Kovan, Protect as _, time_one};
use crate::peers::rwlock::StdReaders;
use crate::peers::std::{BareLoad, InMutex};
use crate::peers::stillpoint::RcuReaders;
use crate::peers::{
    self, Published, ReadSide as _, arc_swap, crossbeam, hazarc, left_right, seize, time_reads,
};
use harness::{Budget, Metric, Recorder, Report, systems};

/// Time of an iteration of the loop in each thread.
pub const PAIR: Metric = Metric::nanoseconds("pair_ns");

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::new("read");
    let mut sections = systems![time_reads:
        RcuReaders,
        BareLoad,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
        Published<crossbeam::Epoch>,
        Published<seize::Seize>,
        arc_swap::Load,
        arc_swap::Cached,
        hazarc::Load,
        hazarc::Cached,
        left_right::Handles,
        InMutex,
        StdReaders,
    ];
    // It is "std" among reader-writer locks.
    sections.last_mut().expect("a list").name = "std-rwlock";
    let pointers = systems![time_one: Kovan, Haphazard];
    time_loops(budget, &mut recorder, &PAIR, &[], sections.into_iter().chain(pointers).collect())?;
    Ok(Report::new(&recorder, peers::missing(&[peers::LIBURCU])))
}
