//! Domains whose threads run what is deferred when they begin a section ([`RawDomain::COLLECTS_ON_ENTRY`](super::raw::RawDomain::COLLECTS_ON_ENTRY)).
//!
//! As in crossbeam-epoch, neither deferring nor ending a section runs code of the program: the thread may hold a lock
//! then that this code takes. So what an owner does after a push elsewhere is put off until its next outermost section
//! begins. The owner is *diverted* ([`crate::readers::registration`]), so that the fast path of other entries costs
//! nothing.
//!
//! | moment | elsewhere | here |
//! |---|---|---|
//! | push | runs some of its own, grace period, throttled | reports, is diverted |
//! | end of the section | what was put off | the grace period of [`flush`], nothing else |
//! | begin of the section | | runs some of its own, grace period, throttled; after a [`flush`], runs all that is ready |
//!
//! The worker runs what threads leave.

use core::cell::Cell;

use super::deferred;
use super::static_domain::{StaticDomain, leave_if_ended, queue_of, registered_reader, while_it_stays};
use crate::readers::reader::Reader;
use crate::reclaim::blocks::BLOCK;
use crate::reclaim::queue::{PushAction, Queue, STEP};
use crate::reclaim::running;

/// The most callbacks that the owner runs when it begins a section, but after a flush.
const MOST: u64 = 8 * BLOCK;

/// What a thread does before its next section.
#[derive(Debug)]
pub struct Due {
    /// Runs as many of its callbacks.
    count: Cell<u64>,
    /// Reduces the backlog.
    flush: Cell<bool>,
    /// Runs all callbacks that are ready, of all queues.
    all: Cell<bool>,
}

impl Due {
    pub const fn new() -> Self {
        Self { count: Cell::new(0), flush: Cell::new(false), all: Cell::new(false) }
    }
}

/// After a push to `queue`, the calling thread's: puts off what the owner must do.
#[cold]
pub(crate) fn after_push<D: StaticDomain>(queue: &'static Queue, action: PushAction) {
    D::with_thread_state(|local| {
        let due = &local.entry;
        due.count.set((due.count.get() + STEP).min(MOST));
        due.flush.set(due.flush.get() || action == PushAction::Flush);
        local.registration.divert();
    });
    if action != PushAction::Flush {
        return;
    }
    let callbacks = &D::shared().core.callbacks;
    callbacks.report_pushed(queue, &D::INSTANCE);
    // A repin is no entry, but leaves the section.
    if callbacks.must_throttle(queue)
        && let Some(reader) = registered_reader::<D>().filter(|reader| reader.in_read_section())
    {
        reader.reclaim_on_exit();
    }
}

/// Before a section that the slow path begins: does what is due, if it is the outermost.
#[inline]
pub(crate) fn before_section<D: StaticDomain>() {
    if D::with_thread_state(|local| local.registration.is_diverted()) {
        do_what_is_due::<D>();
    }
}

#[cold]
fn do_what_is_due<D: StaticDomain>() {
    let reader = registered_reader::<D>();
    // In a callback the next one would run inside it, and so on.
    if reader.is_some_and(Reader::in_read_section) || running::is_any() {
        return;
    }
    let (count, flush, all) = D::with_thread_state(|local| {
        local.registration.take_diverted();
        let due = &local.entry;
        (due.count.take(), due.flush.take(), due.all.take())
    });
    // None: the thread's destructors have run, and the reader is another thread's.
    let Some(reader) = reader else { return };
    while_it_stays::<D, _>(|| {
        let queue = queue_of::<D>(reader);
        if all {
            deferred::run_all_ready(&D::INSTANCE, Some(queue));
        }
        D::shared().core.callbacks.reclaim_up_to(count, queue, &D::INSTANCE);
        if flush {
            deferred::flush(&D::INSTANCE, queue, PushAction::Flush);
        }
    });
    leave_if_ended::<D>();
}

/// At the end of the outermost section of `reader`, the calling thread's: the grace period of a [`flush`]. Runs nothing.
pub(crate) fn after_section<D: StaticDomain>(reader: &'static Reader) {
    // The next entry reduces the backlog.
    _ = reader.take_reclaim();
    if !reader.take_collect() {
        return;
    }
    while_it_stays::<D, _>(|| {
        if deferred::collect(&D::INSTANCE, Some(queue_of::<D>(reader))) {
            D::with_thread_state(|local| {
                local.entry.all.set(true);
                local.registration.divert();
            });
        }
    });
}

/// Inside a section: runs what is ready, of all queues. When the outermost section ends, what is deferred goes through
/// a grace period, if no reader blocks it, and runs when the next one begins.
pub(crate) fn flush<D: StaticDomain>(reader: &'static Reader) {
    while_it_stays::<D, _>(|| {
        let queue = queue_of::<D>(reader);
        deferred::run_all_ready(&D::INSTANCE, Some(queue));
        D::shared().core.callbacks.report_pushed(queue, &D::INSTANCE);
    });
    if reader.in_read_section() {
        reader.collect_on_exit();
    }
}
