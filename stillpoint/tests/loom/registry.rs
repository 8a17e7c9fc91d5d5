//! Models of the registry: a reader belongs to one thread at a time, and is initialized before a scan finds it.

use stillpoint::readers::sections::reader::Reader;
use stillpoint::readers::sections::registry::Registry;
use support::model::*;

/// A registry, and a cell for each reader that only its owner touches.
struct State {
    registry: Registry<()>,
    owned: [UnsafeCell<bool>; 4],
}

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
