//! What the models of grace periods share: a domain with a published value.

use loom::sync::Arc;
use stillpoint::grace_period::engine::{Engine, ReaderSet};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::sections::protocol::ReaderProtocol;
use stillpoint::readers::sections::reader::{ExitPath, Reader};
use stillpoint::readers::sections::scan::ThreadReaders;
use stillpoint::sync::{AtomicU64, Ordering::Relaxed};

use crate::model::{Value, boxed, check, free, look_later, race_reader};

/// A domain with a published value: 7 at first, 8 from each updater.
pub struct Domain<R = ThreadReaders<()>> {
    pub engine: Engine<R>,
    pub published: PublishedPtr<Value>,
    /// Set when a thread has come to the point that another one waits for.
    pub ready: AtomicU64,
}

impl<R: ReaderSet> Domain<R> {
    pub fn of(readers: R) -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(readers, || "Domain"),
            published: PublishedPtr::new(boxed(7)),
            ready: AtomicU64::new(0),
        })
    }

    pub fn readers(&self) -> &R {
        self.engine.readers()
    }

    /// Reads the published value, inside a section.
    pub fn look(&self) {
        look_later(self.published.load());
    }

    /// Publishes another value and frees the old one after a grace period.
    pub fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        free(old);
    }

    pub fn assert_costs(&self, heavy_fences: u64, wakeups: u64) {
        let counters = self.readers().counters();
        assert!(counters.heavy_fences.load(Relaxed) <= heavy_fences, "{counters:?}");
        assert!(counters.wakeups.load(Relaxed) <= wakeups, "{counters:?}");
    }
}

impl Domain {
    pub fn new() -> Arc<Self> {
        Self::of(ThreadReaders::new(ReaderProtocol::Sections))
    }

    pub fn register(&self) -> &'static Reader {
        self.readers().registry().claim().unwrap()
    }

    pub fn release(&self, reader: &'static Reader) {
        self.readers().registry().release(reader);
    }

    pub fn enter(&self, reader: &Reader) {
        assert!(reader.try_enter(self.readers().counter()));
    }

    /// Returns a registered reader that is inside a section.
    pub fn entered(&self) -> &'static Reader {
        let reader = self.register();
        self.enter(reader);
        reader
    }

    pub fn exit_slow(&self, reader: &Reader, exit: ExitPath) {
        if exit == ExitPath::Slow {
            self.readers().exit_slow(reader);
        }
    }

    pub fn repin(&self, reader: &Reader) {
        self.exit_slow(reader, reader.repin(self.readers().counter()));
    }

    pub fn leave(&self, reader: &Reader) {
        self.exit_slow(reader, reader.leave());
    }

    /// Reads the published value in one section, which may be a nested one.
    pub fn read(&self, reader: &Reader) {
        if !reader.try_enter(self.readers().counter()) {
            reader.nest();
        }
        self.look();
        self.leave(reader);
    }
}

/// Explores an update beside a reader, which gets what `set_up` returns.
pub fn update_beside<R: ReaderSet + 'static, T: 'static>(
    budget: u32,
    preemptions: usize,
    new: fn() -> Arc<Domain<R>>,
    set_up: fn(&Domain<R>) -> T,
    reader: fn(&Domain<R>, T),
) {
    check(budget, preemptions, move || {
        let domain = new();
        let begun = set_up(&domain);
        race_reader(&domain, Domain::update, move |domain| reader(domain, begun));
    });
}
