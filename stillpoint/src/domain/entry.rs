//! Domains whose threads run what is deferred when they begin a section ([`StaticDomain::COLLECTS_ON_ENTRY`]).
//!
//! As in crossbeam-epoch, neither deferring nor ending a section runs code of the program: the thread may hold a lock
//! then that this code takes. So what an owner does after a push elsewhere is put off until its next outermost section
//! begins. The owner is *diverted* ([`crate::readers::sections::registration`]), so that the fast path of other entries costs
//! nothing.
//!
//! | moment | elsewhere | here |
//! |---|---|---|
//! | push | runs some of its own, grace period, throttled | reports, is diverted |
//! | end of the section | what was put off | the grace period of [`flush`], nothing else |
//! | begin of the section | | runs some of its own, grace period, throttled; after a [`flush`], runs all that is ready |
//!
//! The worker runs what threads leave.

use super::due::Work;
use super::static_domain::StaticDomain;
use super::thread::{queue_of, registered_reader, while_it_stays};
use crate::readers::sections::reader::Reader;
use crate::reclaim::queue::{PushAction, STEP};
use crate::reclaim::running;

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
    let Work { count, flush, all } = D::with_thread_state(|local| {
        local.registration.take_diverted();
        local.due.take()
    });
    // None: the thread's destructors have run, and the reader is another thread's.
    let Some(reader) = reader else { return };
    while_it_stays::<D, _>(|| {
        let queue = queue_of::<D>(reader);
        let callbacks = &D::shared().core.callbacks;
        if all {
            callbacks.run_all_ready(Some(queue), &D::INSTANCE);
        }
        if !flush {
            callbacks.reclaim_up_to(count, queue, &D::INSTANCE);
        } else {
            // `flush` runs some itself.
            callbacks.reclaim_up_to(count.saturating_sub(STEP), queue, &D::INSTANCE);
            callbacks.act(PushAction::Flush, queue, &D::INSTANCE);
        }
    });
}

/// At the end of the outermost section of `reader`, the calling thread's: the grace period of a [`flush`]. Runs nothing.
pub(crate) fn after_section<D: StaticDomain>(reader: &'static Reader) {
    // The next entry reduces the backlog.
    _ = reader.take_reclaim();
    if !reader.take_collect() {
        return;
    }
    while_it_stays::<D, _>(|| {
        if D::shared().core.callbacks.collect(Some(queue_of::<D>(reader)), &D::INSTANCE) {
            D::with_thread_state(|local| {
                local.due.run_all();
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
        let callbacks = &D::shared().core.callbacks;
        callbacks.run_all_ready(Some(queue), &D::INSTANCE);
        callbacks.report_pushed(queue, &D::INSTANCE);
    });
    if reader.in_read_section() {
        reader.collect_on_exit();
    }
}
