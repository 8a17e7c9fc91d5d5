//! Models of the reader-writer lock of one word: exclusion, sleeping readers and writers, front writers that give up.
//! A timed sleep is over at once.

use stillpoint::lock::model::Policy;
use stillpoint::lock::pthread::{Shared, WordRwLock};
use support::model::*;

/// The queue of writers knows no time.
struct Untimed;

impl Policy for Untimed {
    const RESERVATION: bool = false;
    const BYPASS: bool = false;
}

/// A lock, and the number of writes so far, which it protects.
struct Guarded {
    lock: WordRwLock<Untimed>,
    writes: UnsafeCell<usize>,
}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self { lock: WordRwLock::new(), writes: UnsafeCell::new(0) })
    }

    fn read(&self) -> usize {
        if !self.lock.try_lock_shared_once(false) {
            assert_eq!(self.lock.lock_shared(false, None), Shared::Acquired);
        }
        let writes = self.writes.with(|writes| unsafe { *writes });
        if !self.lock.try_unlock_once(|| ()) {
            self.lock.unlock_shared();
        }
        writes
    }

    fn write(&self) {
        assert!(self.lock.lock_exclusive(None));
        self.writes.with_mut(|writes| unsafe { *writes += 1 });
        if !self.lock.try_unlock_once(|| ()) {
            self.unlock_exclusive();
        }
    }

    fn unlock_exclusive(&self) {
        // SAFETY: the calling thread holds it.
        unsafe { self.lock.unlock_exclusive() };
    }
}

/// Refutes: readers-not-woken, front-writer-not-woken, WordRwLock::try_lock_shared:Acquire,
/// WordRwLock::wait_for_admission:Acquire, WordRwLock::unlock_shared:Release, WordRwLock::try_take:Acquire,
/// WordRwLock::unlock_exclusive:Release, WordRwLock::try_lock_shared_once:Acquire,
/// WordRwLock::try_unlock_once:Release
#[test]
fn readers_and_writer_exclude_each_other() {
    check(0, 3, || {
        let shared = Guarded::new();
        let ((), writes) = race(&shared, Guarded::write, Guarded::read);
        assert!(writes <= 1);
        assert_eq!(shared.read(), 1);
    });
}

/// Refutes: front-writer-not-woken-by-writer
#[test]
fn writers_exclude_each_other() {
    check(0, 3, || {
        let shared = Guarded::new();
        race(&shared, Guarded::write, Guarded::write);
        assert_eq!(shared.read(), 2);
    });
}

/// A reader that lets writers pass waits for one that gives up, while another reader holds the lock.
///
/// Refutes: readers-not-woken-by-timeout
#[test]
fn reader_enters_when_the_front_writer_gives_up() {
    check(0, 3, || {
        let shared = Guarded::new();
        assert_eq!(shared.lock.try_lock_shared(true), Shared::Acquired);
        let read = |shared: &Guarded| {
            assert_eq!(shared.lock.lock_shared(true, None), Shared::Acquired);
            shared.lock.unlock_shared();
        };
        race(&shared, read, |shared| assert!(!shared.lock.lock_exclusive(Some(0))));
        shared.lock.unlock_shared();
        assert!(shared.lock.try_lock_exclusive());
    });
}

/// A waiting reader whose time is over is not counted any more.
#[test]
fn reader_withdraws_or_is_admitted() {
    check(0, 3, || {
        let shared = Guarded::new();
        assert!(shared.lock.try_lock_exclusive());
        race(&shared, Guarded::unlock_exclusive, |shared| {
            if shared.lock.lock_shared(false, Some(0)) == Shared::Acquired {
                shared.lock.unlock_shared();
            }
        });
        assert!(shared.lock.try_lock_exclusive());
    });
}
