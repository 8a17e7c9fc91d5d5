//! Models of the reader-writer lock: exclusion through the open and the shut gate, sleeping writers and readers, the
//! admission of readers, upgrades. A timed sleep is over at once.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use stillpoint::lock::model::{Policy, RawRw, Timeout};
use stillpoint::sync::model::{reader as interruptible, run_on};
use support::model::{check, race_reader, race_readers};

mod word;

/// The first slow read opens the gate. The queue of writers knows no time.
struct OpensAtOnce;

impl Policy for OpensAtOnce {
    const RESERVATION: bool = false;
    const BYPASS: bool = false;
    const WORD_READS: u32 = 0;
    const RETURNS: u32 = 0;
    const SAMPLE: u32 = 1;
    const OPEN_AFTER: Option<u32> = Some(1);
}

/// A gate that is shut stays shut.
struct StaysShut;

impl Policy for StaysShut {
    const RESERVATION: bool = false;
    const BYPASS: bool = false;
    const RETURNS: u32 = 0;
    const SAMPLE: u32 = 0;
}

/// A lock, and the number of writes so far, which it protects.
struct Guarded<P> {
    lock: RawRw<P>,
    writes: UnsafeCell<usize>,
}

impl<P: Policy> Guarded<P> {
    fn with(lock: RawRw<P>) -> Arc<Self> {
        Arc::new(Self { lock, writes: UnsafeCell::new(0) })
    }

    fn open() -> Arc<Self> {
        Self::with(RawRw::opened())
    }

    fn shut() -> Arc<Self> {
        Self::with(RawRw::shut())
    }

    fn word() -> Arc<Self> {
        Self::with(RawRw::word())
    }

    /// No thread holds the lock, and the lock knows.
    fn check_free(&self) {
        assert!(!self.lock.is_locked());
        self.write();
    }

    fn writes(&self) -> usize {
        self.writes.with(|writes| unsafe { *writes })
    }

    /// The section of a writer.
    fn change(&self) {
        self.writes.with_mut(|writes| unsafe { *writes += 1 });
    }

    fn begin_read(&self) {
        assert!(self.lock.lock_shared::<false>(Timeout::Never));
    }

    /// Begins and ends a read, if the lock is free for it.
    fn try_read(&self) {
        if self.lock.lock_shared::<false>(Timeout::Immediate) {
            self.end_read();
        }
    }

    fn end_read(&self) -> usize {
        let writes = self.writes();
        self.lock.unlock_shared();
        writes
    }

    fn read(&self) -> usize {
        self.begin_read();
        self.end_read()
    }

    /// A read that begins on CPU 0 and ends on CPU 1.
    fn read_on_two_cpus(&self) {
        run_on(0);
        self.begin_read();
        run_on(1);
        self.end_read();
    }

    fn read_recursively(&self) {
        assert!(self.lock.lock_shared::<true>(Timeout::Never));
        self.end_read();
    }

    fn begin_write(&self) {
        assert!(self.lock.lock_exclusive(Timeout::Never));
        self.change();
    }

    fn end_write(&self) {
        // SAFETY: begun.
        unsafe { self.lock.unlock_exclusive() };
    }

    fn write(&self) {
        self.begin_write();
        self.end_write();
    }

    fn write_twice(&self) {
        self.write();
        self.write();
    }

    fn end_upgradable(&self) {
        // SAFETY: begun.
        unsafe { self.lock.unlock_upgradable() };
    }
}

/// Explores a write beside a reader.
fn write_beside<P: Policy + 'static>(guarded: fn() -> Arc<Guarded<P>>, reader: fn(&Guarded<P>)) {
    check(1, 3, move || {
        let guarded = guarded();
        race_reader(&guarded, Guarded::write, reader);
        assert_eq!(guarded.read(), 1);
    });
}

fn read_twice<P: Policy>(guarded: &Guarded<P>) {
    guarded.read_on_two_cpus();
    guarded.read();
}

#[test]
fn writer_excludes_readers_of_the_open_gate() {
    write_beside(Guarded::<OpensAtOnce>::open, read_twice);
}

/// Refutes: RawRw::load_after_fence:Acquire, RawRw::load_after_fence:Release
#[test]
fn writer_excludes_readers_of_the_shut_gate() {
    write_beside(Guarded::<StaysShut>::shut, read_twice);
}

/// Without an outer read, a recursive one races with the writer for the gate.
#[test]
fn recursive_reader_does_not_enter_a_held_gate() {
    write_beside(Guarded::<OpensAtOnce>::open, Guarded::read_recursively);
}

#[test]
fn short_read_does_not_hide_an_open_one() {
    check(1, 3, || {
        let guarded = Guarded::<OpensAtOnce>::open();
        guarded.begin_read();
        race_reader(&guarded, Guarded::write, |guarded| {
            if guarded.lock.lock_shared::<false>(Timeout::Immediate) {
                run_on(1);
                guarded.lock.unlock_shared();
            }
            guarded.end_read();
        });
    });
}

/// The reader opens the gate between the writes.
#[test]
fn opened_gate_is_shut_with_a_fence() {
    check(1, 2, || {
        let guarded = Guarded::<OpensAtOnce>::shut();
        race_reader(&guarded, Guarded::write_twice, |guarded| {
            guarded.read();
            guarded.read();
        });
    });
}

/// Refutes: RawRw::lock_shared:Acquire
#[test]
fn reader_of_a_gate_that_another_reader_opened_sees_the_write() {
    check(1, 2, || {
        let guarded = Guarded::<OpensAtOnce>::shut();
        race_readers(&guarded, Guarded::write, 2, |guarded, _| guarded.try_read());
    });
}

/// Explores a writer that sleeps for a read.
fn sleeping_writer<P: Policy + 'static>(guarded: fn() -> Arc<Guarded<P>>) {
    check(0, 3, move || {
        let guarded = guarded();
        guarded.begin_read();
        race_reader(&guarded, Guarded::write, |guarded| _ = guarded.end_read());
    });
}

#[test]
fn sleeping_writer_is_woken_through_the_open_gate() {
    sleeping_writer(Guarded::<OpensAtOnce>::open);
}

#[test]
fn sleeping_writer_is_woken_through_the_shut_gate() {
    sleeping_writer(Guarded::<StaysShut>::shut);
}

/// Refutes: shut-without-fence
#[test]
fn last_of_two_leaving_readers_wakes_the_writer() {
    check(0, 2, || {
        let guarded = Guarded::<OpensAtOnce>::open();
        guarded.begin_read();
        guarded.begin_read();
        race_readers(&guarded, Guarded::write, 2, |guarded, index| {
            run_on(index);
            guarded.end_read();
        });
    });
}

#[test]
fn waiting_readers_are_admitted_and_woken() {
    check(0, 2, || {
        let guarded = Guarded::<StaysShut>::shut();
        guarded.begin_write();
        race_readers(&guarded, Guarded::end_write, 2, |guarded, _| assert_eq!(guarded.read(), 1));
    });
}

/// The second write must wait for the reader that the first has admitted.
/// Refutes: admitted-not-counted, asleep-without-fence, readers-ignored, sleeping-readers-not-woken,
/// writer-not-woken, RawRw::admit_readers:Release, RawRw::count_down:Release, RawRw::sleep:Acquire,
/// RawRw::wait_for_admission:Acquire
#[test]
fn admitted_reader_holds_the_lock() {
    check(0, 2, || {
        let guarded = Guarded::<StaysShut>::shut();
        guarded.begin_write();
        let write = |guarded: &Guarded<_>| {
            guarded.end_write();
            guarded.write();
        };
        race_reader(&guarded, write, Guarded::read);
        assert!(!guarded.lock.is_locked());
    });
}

#[test]
fn timed_out_reader_withdraws_or_was_admitted() {
    check(0, 3, || {
        let guarded = Guarded::<StaysShut>::shut();
        guarded.begin_write();
        race_reader(&guarded, Guarded::end_write, |guarded| {
            if guarded.lock.lock_shared::<false>(Timeout::At(0)) {
                assert_eq!(guarded.end_read(), 1);
            }
        });
        assert!(!guarded.lock.is_locked());
        guarded.write();
    });
}

#[test]
fn timed_out_writer_admits_readers() {
    check(0, 2, || {
        let guarded = Guarded::<StaysShut>::shut();
        guarded.begin_read();
        let write = |guarded: &Guarded<_>| {
            if guarded.lock.lock_exclusive(Timeout::At(0)) {
                guarded.change();
                guarded.end_write();
            }
        };
        race_reader(&guarded, write, |guarded| {
            guarded.read();
            guarded.end_read();
        });
        assert!(!guarded.lock.is_locked());
    });
}

#[test]
fn recursive_reader_passes_a_waiting_writer() {
    check(0, 3, || {
        let guarded = Guarded::<StaysShut>::shut();
        guarded.begin_read();
        race_reader(&guarded, Guarded::write, |guarded| {
            run_on(1);
            assert!(guarded.lock.lock_shared::<true>(Timeout::Never));
            run_on(0);
            guarded.end_read();
            guarded.end_read();
        });
    });
}

/// The reader finds that the first writer drains, and passes the second.
/// Refutes: unsampled-reader-enters-unseen, RawRw::lock_shared_slow:Acquire#2
#[test]
fn recursive_reader_that_passes_the_next_writer_sees_the_write() {
    check(1, 2, || {
        let guarded = Guarded::<StaysShut>::shut();
        race_reader(&guarded, Guarded::write_twice, Guarded::read_recursively);
    });
}

#[test]
fn upgradable_reader_coexists_with_readers_until_it_writes() {
    check(1, 2, || {
        let guarded = Guarded::<OpensAtOnce>::open();
        guarded.begin_read();
        assert!(guarded.lock.lock_upgradable(Timeout::Never));
        assert!(!guarded.lock.lock_exclusive(Timeout::Immediate));
        let upgrade = |guarded: &Guarded<_>| {
            assert_eq!(guarded.writes(), 0);
            // SAFETY: the lock is held for an upgradable read.
            assert!(unsafe { guarded.lock.upgrade(Timeout::Never) });
            guarded.change();
            // SAFETY: the lock is held for writing.
            unsafe { guarded.lock.downgrade_to_upgradable() };
            guarded.writes();
            guarded.end_upgradable();
        };
        race_reader(&guarded, upgrade, |guarded| {
            guarded.end_read();
            guarded.read();
        });
    });
}

/// Refutes: downgraded-after-release
#[test]
fn downgraded_writer_keeps_other_writers_out() {
    check(1, 2, || {
        let guarded = Guarded::<StaysShut>::shut();
        guarded.begin_write();
        let downgrade = |guarded: &Guarded<_>| {
            // SAFETY: the lock is held for writing.
            unsafe { guarded.lock.downgrade() };
            guarded.end_read()
        };
        let own = |guarded: &Guarded<_>| interruptible(1, || downgrade(guarded));
        let (writes, ()) = race_reader(&guarded, own, Guarded::write);
        assert_eq!(writes, 1);
    });
}

#[test]
fn writers_exclude_each_other_and_a_reader() {
    check(1, 1, || {
        let guarded = Guarded::<OpensAtOnce>::open();
        race_readers(&guarded, Guarded::write, 2, |guarded, index| match index {
            0 => guarded.write(),
            _ => _ = guarded.read(),
        });
        assert_eq!(guarded.read(), 2);
    });
}
