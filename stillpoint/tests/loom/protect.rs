//! Models of hazard pointers: readers that protect values beside a writer that retires them, and threads that free.
//!
//! A freed value is 0, and its memory stays.

use std::ptr::null_mut;

use crate::own::{Readers, Value, boxed, read};
use loom::sync::{Arc, Mutex};
use loom::thread;
use stillpoint::grace_period::engine::{Denied, Engine, GpCookie};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::sections::reader::{ExitPath, Reader};
use stillpoint::readers::sections::scan::{ReaderProtocol, ThreadReaders};
use stillpoint::reclaim::callback::{Callback, Data, Panicked};
use stillpoint::reclaim::domain::{Core, RawDomain};
use stillpoint::reclaim::hazards::Hazards;
use stillpoint::reclaim::queue::Queue;
use stillpoint::slots::protected::LastCollection;
use stillpoint::slots::record::Records;
use stillpoint::slots::slot::Slot;
use stillpoint::sync::model::{poll, reader as interruptible};
use support::model::check;

/// The slots of all threads. They are never freed.
fn records() -> &'static Records {
    Box::leak(Box::new(Records::new()))
}

/// Returns the slot of a new hazard pointer.
fn slot(records: &'static Records) -> &'static Slot {
    let slot = records.of(records.claim().unwrap()).find_free().unwrap();
    slot.reserve();
    slot
}

fn free(value: *mut Value) {
    // SAFETY: the memory of values is never freed.
    unsafe { &*value }.with_mut(|value| unsafe { *value = 0 });
}

/// Grace periods, hazard pointers, and two published values.
struct State {
    engine: Engine<ThreadReaders<()>>,
    records: &'static Records,
    published: [PublishedPtr<Value>; 2],
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for State {}
// SAFETY: as above.
unsafe impl Send for State {}

impl State {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::new(ReaderProtocol::Hazards), || "State"),
            records: records(),
            published: [7, 8].map(|value| PublishedPtr::new(boxed(value))),
        })
    }

    /// Protects a published value, and returns it.
    fn protect(&self, slot: &Slot, number: usize) -> *mut Value {
        let load = || {
            // The interrupt may land between the store and the load.
            poll();
            self.published[number].load().cast()
        };
        slot.protect(0, load).cast()
    }

    /// Unpublishes a value, and frees it unless a hazard pointer protects it. Returns `true` if it is freed.
    fn replace(&self, number: usize) -> bool {
        let old = self.published[number].swap(boxed(9));
        self.engine.synchronize(None);
        let protected = LastCollection::new(self.records).protected(self.engine.completed());
        let is_freed = !protected.contains(old.addr());
        if is_freed {
            free(old);
        }
        is_freed
    }
}

/// Runs `body` as reader number `index`.
fn spawn(state: &Arc<State>, index: usize, body: impl FnOnce(&State) + 'static) -> thread::JoinHandle<()> {
    let state = state.clone();
    thread::spawn(move || interruptible(index, || body(&state)))
}

/// A reader protects a value by a hazard pointer, beside so many replacements of it. No thread reads in sections.
fn protect_beside(replacements: usize) {
    check(0, 3, move || {
        let state = State::new();
        let slot = slot(state.records);
        let t = spawn(&state, 0, move |state| {
            read(state.protect(slot, 0));
            slot.clear();
        });
        for _ in 0..replacements {
            state.replace(0);
        }
        t.join().unwrap();
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
        let t = spawn(&state, 0, move |state| {
            read(state.protect(slot, 0));
            read(state.protect(slot, 1));
        });
        state.replace(0);
        t.join().unwrap();
    });
}

/// A hazard pointer is dropped in one thread, and the owner of its record makes another one of its slot.
/// Refutes: Slot::give_back:Release
#[test]
fn slot_that_is_given_back_publishes_its_earlier_pointer() {
    check(0, 2, || {
        let state = State::new();
        let slot = slot(state.records);
        let t = spawn(&state, 0, move |state| {
            read(state.protect(slot, 0));
            slot.give_back();
        });
        let u = spawn(&state, 1, move |state| {
            if slot.is_free() {
                slot.reserve();
                read(state.protect(slot, 1));
            }
        });
        state.replace(0);
        t.join().unwrap();
        u.join().unwrap();
    });
}

/// The reader executes no second load after its store, and leaves the section before it reads.
#[test]
fn value_kept_in_a_section_is_not_freed_after_it() {
    check(0, 2, || {
        let state = State::new();
        let (slot, reader) = (slot(state.records), state.engine.readers().registry().claim().unwrap());
        let t = spawn(&state, 0, move |state| {
            assert!(reader.try_enter(state.engine.readers().counter()));
            poll();
            let value = state.published[0].load();
            poll();
            slot.set(value.cast());
            if reader.leave() == ExitPath::Slow {
                state.engine.readers().exit_slow(reader);
            }
            read(value);
            slot.clear();
        });
        state.replace(0);
        t.join().unwrap();
    });
}

/// A domain with a worker and hazard pointers. Callbacks free values.
#[derive(Clone)]
struct Domain(Arc<Shared>);

struct Shared {
    core: Core<Readers>,
    hazards: Hazards,
    records: &'static Records,
    workers: Mutex<Vec<thread::JoinHandle<()>>>,
    parked: Mutex<Option<u64>>,
}

impl RawDomain for Domain {
    type Readers = Readers;

    fn core(&self) -> &Core<Readers> {
        &self.0.core
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        let registry = self.0.core.engine.readers().registry();
        (0..registry.len()).map(|index| registry.attached(index)).chain(self.0.hazards.kept())
    }

    fn hazards(&self) -> Option<&Hazards> {
        Some(&self.0.hazards)
    }

    fn current_reader(&self) -> Option<&'static Reader> {
        None
    }

    fn in_read_section(&self) -> bool {
        false
    }

    fn register_for_fork(&self) {}

    fn defer(&self, _callback: Callback, _lazy: bool) {
        unreachable!("the models push themselves");
    }

    fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
        self.0.core.engine.wait_for(None, cookie);
        Ok(())
    }

    fn submit(&self, task: fn(&Self)) -> bool {
        let domain = self.clone();
        let worker = thread::spawn(move || task(&domain));
        self.0.workers.lock().unwrap().push(worker);
        true
    }

    fn park(&self, due: u64, _task: fn(&Self)) -> bool {
        *self.0.parked.lock().unwrap() = Some(due);
        true
    }

    fn unpark(&self, due: u64) {
        self.0.parked.lock().unwrap().take_if(|parked| *parked == due);
    }

    fn is_parked(&self, due: u64) -> bool {
        *self.0.parked.lock().unwrap() == Some(due)
    }
}

impl Domain {
    fn new() -> Self {
        let records = records();
        Self(Arc::new(Shared {
            core: Core::new(Readers::new(ReaderProtocol::Hazards), || "model"),
            hazards: Hazards::new(records),
            records,
            workers: Mutex::new(Vec::new()),
            parked: Mutex::new(None),
        }))
    }

    /// Returns the queue of a new thread.
    fn queue(&self) -> &'static Queue {
        let registry = self.0.core.engine.readers().registry();
        registry.attached_to(registry.claim().unwrap())
    }

    /// Retires a value, which `local`: the owner may free.
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
        _ = unsafe { queue.push(Callback::freeing(run, value.cast(), local), false) };
    }

    /// The barrier of a domain with hazard pointers.
    fn barrier(&self) {
        for _ in 0..2 {
            self.0.core.callbacks.barrier(self).unwrap();
        }
    }

    fn join(&self) {
        loop {
            let Some(worker) = self.0.workers.lock().unwrap().pop() else { break };
            worker.join().unwrap();
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
        let domain = Domain::new();
        let (queue, slot, value) = (domain.queue(), slot(domain.0.records), boxed(7));
        interruptible(0, || {
            slot.set(value.cast());
            domain.retire(queue, value, false);
            domain.barrier();
            assert!(!is_freed(value));
            slot.clear();
            domain.barrier();
            assert!(is_freed(value));
        });
        domain.join();
    });
}

/// The first value is freed when nothing is protected. The second one is protected, then retired.
/// Refutes: protected-in-an-earlier-grace-period
#[test]
fn what_is_protected_is_collected_again_after_each_grace_period() {
    check(0, 0, || {
        let domain = Domain::new();
        let (queues, slot) = ([domain.queue(), domain.queue()], slot(domain.0.records));
        let values = [boxed(7), boxed(8)];
        interruptible(0, || {
            domain.retire(queues[0], values[0], false);
            domain.barrier();
            slot.set(values[1].cast());
            domain.retire(queues[1], values[1], false);
            domain.barrier();
            assert_eq!(values.map(is_freed), [true, false]);
        });
        domain.join();
    });
}

/// No thread retires anything afterwards.
/// Refutes: kept-without-notify
#[test]
fn owner_that_keeps_a_value_has_the_worker_look_again() {
    check(0, 1, || {
        let domain = Domain::new();
        let (queue, slot, value) = (domain.queue(), slot(domain.0.records), boxed(7));
        interruptible(0, || {
            slot.set(value.cast());
            domain.retire(queue, value, true);
            let callbacks = &domain.0.core.callbacks;
            callbacks.reclaim_some(queue, &domain);
            domain.0.core.engine.synchronize(None);
            callbacks.reclaim_some(queue, &domain);
            assert_eq!(domain.0.hazards.kept().unwrap().tail(), 1);
            let is_parked = domain.0.parked.lock().unwrap().is_some();
            assert!(is_parked || !domain.0.workers.lock().unwrap().is_empty());
            assert!(!is_freed(value));
        });
        domain.join();
    });
}

/// Reads a value beside the worker that frees it.
#[test]
fn value_is_freed_by_the_worker_when_its_reader_is_done() {
    check(0, 1, || {
        let domain = Domain::new();
        let published = Arc::new(PublishedPtr::new(boxed(7)));
        let (queue, slot) = (domain.queue(), slot(domain.0.records));
        let source = published.clone();
        let t = thread::spawn(move || {
            interruptible(1, || {
                let load = || {
                    poll();
                    source.load().cast()
                };
                let value: *mut Value = slot.protect(0, load).cast();
                if !value.is_null() {
                    read(value);
                }
                slot.clear();
            });
        });
        let old = published.swap(null_mut());
        interruptible(0, || {
            domain.retire(queue, old, false);
            domain.0.core.callbacks.barrier(&domain).unwrap();
        });
        t.join().unwrap();
        domain.barrier();
        domain.join();
        assert!(is_freed(old));
    });
}
