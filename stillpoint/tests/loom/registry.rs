//! Models of the registry: a reader belongs to one thread at a time, and is initialized before a scan finds it.

use loom::sync::atomic::AtomicUsize;
use stillpoint::readers::sections::reader::Reader;
use stillpoint::readers::sections::registry::Registry;
use support::model::*;

/// A registry, and a cell for each reader that only its owner touches.
struct State {
    registry: Registry<()>,
    owned: [UnsafeCell<bool>; 4],
}

/// What is attached to a reader, and may have work.
#[derive(Default)]
struct Work(AtomicUsize);

impl State {
    fn new() -> Arc<Self> {
        Arc::new(Self { registry: Registry::new(), owned: std::array::from_fn(|_| UnsafeCell::new(false)) })
    }

    fn mark(&self, reader: &Reader, owned: bool) {
        self.owned[reader.index.load(Relaxed) as usize].with_mut(|cell| unsafe {
            assert_ne!(*cell, owned, "a reader with two owners");
            *cell = owned;
        });
    }

    fn claim(&self) -> &'static Reader {
        let reader = self.registry.claim().unwrap();
        self.mark(reader, true);
        reader
    }

    fn release(&self, reader: &'static Reader) {
        self.mark(reader, false);
        self.registry.release(reader);
    }
}

/// Refutes: tag-kept
#[test]
fn reader_belongs_to_one_thread_at_a_time() {
    check(0, 3, || {
        let state = State::new();
        let (a, b) = (state.claim(), state.claim());
        state.release(b);
        state.release(a);
        let claim_two = |state: &State| [state.claim(), state.claim()];
        // The top of the stack comes back with another next: the tag must differ.
        race(&state, claim_two, move |state| state.release(claim_two(state)[0]));
        assert!(state.registry.len() <= 4);
    });
}

/// Refutes: FreeStack::pop:Acquire, FreeStack::pop:FailureAcquire, FreeStack::push:Release
#[test]
fn registry_reuses_a_free_reader_before_growing() {
    check(0, 3, || {
        let state = State::new();
        race_all(&state, |_| (), 2, |state, _| (0..2).for_each(|_| state.release(state.claim())));
        assert!(state.registry.len() <= 2);
    });
}

/// A thread claims a reader, leaves work, and ends, while the worker forgets that the reader was used.
/// Refutes: forgotten-not-checked-again, claim-without-use, Used::claim:Release, Used::release:Release,
/// Used::forget_unless:Acquire, Used::forget_unless:Acquire#2
#[test]
fn reader_with_work_is_not_forgotten() {
    check(0, 3, || {
        let registry: Arc<Registry<Work>> = Arc::new(Registry::new());
        registry.release(registry.claim().unwrap());
        let work = |registry: &Registry<Work>| registry.attached(0).0.load(Relaxed) != 0;
        let forget = move |registry: &Registry<Work>| registry.forget_unless(|_| work(registry));
        race(&registry, forget, |registry| {
            let reader = registry.claim().unwrap();
            registry.attached_to(reader).0.store(1, Relaxed);
            registry.release(reader);
        });
        assert_eq!((registry.len(), registry.next_used(0)), (1, Some(0)));
        registry.attached(0).0.store(0, Relaxed);
        forget(&registry);
        assert_eq!(registry.next_used(0), None);
        let own = registry.claim().unwrap();
        forget(&registry);
        assert_eq!(registry.next_used(0), Some(0));
        registry.release(own);
    });
}

/// Refutes: Registry::chunk:Acquire, Registry::grow:Release
#[test]
fn scan_finds_the_chunk_of_every_reader() {
    check(0, 3, || {
        let state = State::new();
        let scan_and_claim = |state: &State| {
            for index in 0..state.registry.len() {
                assert!(!state.registry.reader(index).in_read_section());
            }
            state.claim();
        };
        race(&state, scan_and_claim, State::claim);
    });
}

/// The thread that takes a free reader makes it active. Nothing that the last owner still does makes it inactive.
/// Refutes: reader-freed-while-active
#[test]
fn reader_of_a_new_owner_stays_active() {
    check(0, 3, || {
        let state = State::new();
        let reader = state.claim();
        let ((), own) = race(&state, |state| state.release(reader), State::claim);
        let registry = &state.registry;
        let groups = registry.groups(0, registry.len());
        let mut active = groups.flat_map(|(first, group)| registry.members(first, group.active()));
        assert!(active.any(|(_, reader)| std::ptr::eq(reader, own)), "a scan skips the new owner");
    });
}
