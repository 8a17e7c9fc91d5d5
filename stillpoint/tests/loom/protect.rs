//! Models of hazard pointers: first readers of single values beside a writer that frees what no slot protects, then
//! domains, whose owners and workers free, and keep what is protected.
//!
//! A freed value is 0, and its memory stays.

use std::ptr::null_mut;

use crate::callbacks::domain::Domain;
use stillpoint::grace_period::engine::Engine;
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::sections::protocol::ReaderProtocol;
use stillpoint::readers::sections::reader::ExitPath;
use stillpoint::readers::sections::scan::ThreadReaders;
use stillpoint::reclaim::callback::{Callback, Data, Panicked};
use stillpoint::reclaim::domain::RawDomain as _;
use stillpoint::reclaim::queue::Queue;
use stillpoint::slots::protected::LastCollection;
use stillpoint::slots::record::Records;
use stillpoint::slots::slot::Slot;
use support::model::*;

/// The slots of all threads. They are never freed.
fn records() -> &'static Records {
    Box::leak(Box::new(Records::new(u64::MAX)))
}

/// Returns the slot of a new hazard pointer.
fn slot(records: &'static Records) -> &'static Slot {
    let slot = records.of(records.claim().unwrap()).find_free().unwrap();
    slot.reserve();
    slot
}

/// Grace periods, hazard pointers, and two published values.
struct State {
    engine: Engine<ThreadReaders<()>>,
    records: &'static Records,
    published: [PublishedPtr<Value>; 2],
}

impl State {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::new(ReaderProtocol::Hazards), || "State"),
            records: records(),
            published: [7, 8].map(|value| PublishedPtr::new(boxed(value))),
        })
    }

    /// Protects a published value, and reads it.
    fn read(&self, slot: &Slot, number: usize) {
        look_later(protect(slot, &self.published[number]));
    }

    /// Unpublishes the first value, and frees it unless a hazard pointer protects it.
    fn replace(&self) {
        let old = self.published[0].swap(boxed(9));
        self.engine.synchronize(None);
        let protected = LastCollection::new(self.records).protected(self.engine.completed());
        if !protected.contains(old.addr()) {
            free(old);
        }
    }
}

/// Protects a published value, and returns it.
fn protect(slot: &Slot, published: &PublishedPtr<Value>) -> *mut Value {
    let load = || {
        // The interrupt may land between the store and the load.
        poll();
        published.load().cast()
    };
    slot.protect(0, load).cast()
}

/// A reader protects a value by a hazard pointer, while another thread replaces it so many times. No thread reads in
/// sections.
fn protect_beside(replacements: usize) {
    check(0, 3, move || {
        let state = State::new();
        let slot = slot(state.records);
        let replace = |state: &State| (0..replacements).for_each(|_| state.replace());
        race_reader(&state, replace, move |state| {
            state.read(slot, 0);
            slot.clear();
        });
    });
}

/// Refutes: hazard-not-stored, fence-only-with-readers, Slot::clear:Release, Slot::address:Acquire
#[test]
fn protected_value_is_not_freed() {
    protect_beside(1);
}

/// What the reader loads last may not be what its slot protects.
/// Refutes: protection-not-checked
#[test]
fn pointer_that_changed_meanwhile_is_protected_again() {
    protect_beside(2);
}

/// Refutes: Slot::set:Release
#[test]
fn pointer_that_protects_another_value_is_done_with_the_first() {
    check(0, 2, || {
        let state = State::new();
        let slot = slot(state.records);
        race_reader(&state, State::replace, move |state| {
            state.read(slot, 0);
            state.read(slot, 1);
        });
    });
}

/// A hazard pointer is dropped in one thread, and the owner of its record makes another one of its slot.
/// Refutes: Slot::give_back:Release
#[test]
fn slot_that_is_given_back_publishes_its_earlier_pointer() {
    check(0, 2, || {
        let state = State::new();
        let slot = slot(state.records);
        race_readers(&state, State::replace, 2, move |state, index| {
            if index == 0 {
                state.read(slot, 0);
                slot.give_back();
            } else if slot.is_free() {
                slot.reserve();
                state.read(slot, 1);
            }
        });
    });
}

/// The reader executes no second load after its store, and leaves the section before it reads.
#[test]
fn value_kept_in_a_section_is_not_freed_after_it() {
    check(0, 2, || {
        let state = State::new();
        let (slot, reader) = (slot(state.records), state.engine.readers().registry().claim().unwrap());
        race_reader(&state, State::replace, move |state| {
            assert!(reader.try_enter(state.engine.readers().counter()));
            poll();
            let value = state.published[0].load();
            poll();
            slot.set(value.cast());
            if reader.leave() == ExitPath::Slow {
                state.engine.readers().exit_slow(reader);
            }
            look_later(value);
            slot.clear();
        });
    });
}

impl Domain {
    /// Returns the queue of a new thread.
    fn queue(&self) -> &'static Queue {
        self.register().queue
    }

    /// Retires a value. The owner of the queue may free it if `local`, or else only the worker.
    fn retire(&self, queue: &Queue, value: *mut Value, local: bool) {
        /// # Safety
        ///
        /// `data` points to a value.
        unsafe fn run(data: Data) -> Option<fn() -> Panicked> {
            // SAFETY: the caller's contract.
            free(unsafe { data.assume_init() }.cast());
            None
        }
        // SAFETY: `run` gets a value. The queue is this thread's.
        _ = unsafe { queue.push(Callback::from_parts(run, Data::new(value.cast()), local, true)) };
    }

    /// The barrier of a domain with hazard pointers (`reclaim::poller::passes`): the first pass may only keep what
    /// the second one frees.
    fn barrier_twice(&self) {
        for _ in 0..2 {
            self.barrier().unwrap();
        }
    }
}

/// Returns `true` if the value is freed; the caller has waited for that.
fn is_freed(value: *mut Value) -> bool {
    // SAFETY: the memory of values is never freed.
    unsafe { &*value }.with(|value| unsafe { *value == 0 })
}

/// Refutes: kept-not-expedited, protected-value-freed, protection-not-looked-up-again
#[test]
fn protected_value_is_kept_until_it_is_reset() {
    check(0, 0, || {
        let records = records();
        let domain = Domain::with_hazards(records);
        let (queue, slot, value) = (domain.queue(), slot(records), boxed(7));
        domain.run(|domain| {
            slot.set(value.cast());
            domain.retire(queue, value, false);
            domain.barrier_twice();
            assert!(!is_freed(value));
            slot.clear();
            domain.barrier_twice();
            assert!(is_freed(value));
        });
    });
}

/// The first value is freed when nothing is protected. The second one is protected, then retired.
/// Refutes: protected-in-an-earlier-grace-period
#[test]
fn what_is_protected_is_collected_again_after_each_grace_period() {
    check(0, 0, || {
        let records = records();
        let domain = Domain::with_hazards(records);
        let (queues, slot) = ([domain.queue(), domain.queue()], slot(records));
        let values = [boxed(7), boxed(8)];
        domain.run(|domain| {
            domain.retire(queues[0], values[0], false);
            domain.barrier_twice();
            slot.set(values[1].cast());
            domain.retire(queues[1], values[1], false);
            domain.barrier_twice();
            assert_eq!(values.map(is_freed), [true, false]);
        });
    });
}

/// No thread retires anything afterwards.
/// Refutes: kept-without-notify
#[test]
fn owner_that_keeps_a_value_has_the_worker_look_again() {
    check(0, 1, || {
        let records = records();
        let domain = Domain::with_hazards(records);
        let (own, slot, value) = (domain.register(), slot(records), boxed(7));
        domain.run(|domain| {
            slot.set(value.cast());
            domain.retire(own.queue, value, true);
            domain.reclaim_some(own);
            domain.engine().synchronize(None);
            domain.reclaim_some(own);
            assert_eq!(domain.hazards().unwrap().kept().tail(), 1);
            let is_parked = domain.0.parked.lock().unwrap().is_some();
            assert!(is_parked || !domain.0.workers.lock().unwrap().is_empty());
            assert!(!is_freed(value));
        });
    });
}

/// Reads a value beside the worker that frees it.
#[test]
fn value_is_freed_by_the_worker_when_its_reader_is_done() {
    check(0, 1, || {
        let records = records();
        let domain = Domain::with_hazards(records);
        let (queue, slot, old) = (domain.queue(), slot(records), domain.0.state.published.load());
        let retire = |domain: &Domain| {
            domain.0.state.published.swap(null_mut());
            domain.retire(queue, old, false);
            domain.barrier().unwrap();
        };
        domain.race_owners(retire, move |domain| {
            let value = protect(slot, &domain.0.state.published);
            if !value.is_null() {
                look_later(value);
            }
            slot.clear();
        });
        domain.barrier_twice();
        domain.join();
        assert!(is_freed(old));
    });
}
