//! What the models of callbacks share: readers with queues, a published value, and callbacks that count and free.

use std::mem::MaybeUninit;
use std::ops::Deref;

use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::sections::protocol::ReaderProtocol;
use stillpoint::readers::sections::reader::{ExitPath, Reader};
use stillpoint::readers::sections::registry::Registry;
use stillpoint::readers::sections::scan::ThreadReaders;
use stillpoint::reclaim::callback::{Callback, Data, Panicked};
use stillpoint::reclaim::domain::Core;
use stillpoint::reclaim::queue::{PushAction, Queue};
use support::model::*;

/// A reader and its queue.
#[derive(Clone, Copy)]
pub struct Own {
    pub reader: &'static Reader,
    pub queue: &'static Queue,
}

impl Own {
    pub fn of(registry: &Registry<Queue>, reader: &'static Reader) -> Self {
        Self { reader, queue: registry.attached_to(reader) }
    }

    /// Pushes a callback, which counts and frees `value`.
    pub fn push(self, count: &'static Count, local: bool, value: *const Value) -> PushAction {
        let item = Box::leak(Box::new(Item { count, number: self.queue.tail(), value }));
        let data = MaybeUninit::new((&raw mut *item).cast());
        // SAFETY: `run` gets an `Item`; the reader is this thread's.
        unsafe { self.queue.push(Callback::from_parts(run, data, local, false)) }
    }
}

impl Deref for Own {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        self.reader
    }
}

/// How many callbacks of a queue have run.
pub struct Count(UnsafeCell<u64>);

// SAFETY: loom checks every access of the cell.
unsafe impl Sync for Count {}

impl Count {
    pub fn new() -> &'static Self {
        Box::leak(Box::new(Self(UnsafeCell::new(0))))
    }

    /// The caller must have waited for the callbacks.
    pub fn get(&self) -> u64 {
        self.0.with(|count| unsafe { *count })
    }
}

/// What a callback does.
struct Item {
    count: &'static Count,
    number: u64,
    value: *const Value,
}

/// # Safety
///
/// `data` points to an `Item`.
unsafe fn run(data: Data) -> Option<fn() -> Panicked> {
    // SAFETY: the caller's contract; items and values are never freed.
    let item = unsafe { &*data.assume_init().cast::<Item>() };
    item.count.0.with_mut(|count| unsafe {
        assert_eq!(*count, item.number, "callbacks run in order, each once");
        *count += 1;
    });
    if !item.value.is_null() {
        free(item.value);
    }
    None
}

pub fn run_callback(callback: Callback) {
    // SAFETY: a grace period has ended, or the model fails.
    let _ = unsafe { callback.run() };
}

pub type Readers = ThreadReaders<Queue>;

/// A domain with a published value.
pub struct State {
    pub core: Core<Readers>,
    pub published: PublishedPtr<Value>,
}

impl State {
    pub fn new(protocol: ReaderProtocol) -> Self {
        Self { core: Core::new(Readers::new(protocol), || "model"), published: PublishedPtr::new(boxed(7)) }
    }

    pub fn register(&self) -> Own {
        let registry = self.core.engine.readers().registry();
        Own::of(registry, registry.claim().unwrap())
    }

    pub fn enter(&self, reader: Own) {
        assert!(reader.try_enter(self.core.engine.readers().counter()));
    }

    pub fn leave(&self, reader: Own) {
        if reader.leave() == ExitPath::Slow {
            self.core.engine.readers().exit_slow(&reader);
        }
    }

    /// One section that reads the published value.
    pub fn read(&self, reader: Own) {
        self.enter(reader);
        look_later(self.published.load());
        self.leave(reader);
    }
}
