//! Models of word mode.

use super::*;

/// Word mode ends by reads, and a write returns to it. The first slow read opens the gate.
struct Word;

impl Policy for Word {
    const RESERVATION: bool = false;
    const BYPASS: bool = false;
    const WORD_READS: u32 = u32::MAX;
    const RETURNS: u32 = 1;
    const SAMPLE: u32 = 1;
    const OPEN_AFTER: Option<u32> = Some(1);
}

/// As [`Word`], but any read ends word mode.
struct Spreads;

impl Policy for Spreads {
    const RESERVATION: bool = false;
    const BYPASS: bool = false;
    const WORD_READS: u32 = 0;
    const RETURNS: u32 = 1;
    const SAMPLE: u32 = 1;
    const OPEN_AFTER: Option<u32> = Some(1);
}

/// Refutes: RawRw::try_solo:Acquire, RawRw::unlock_exclusive_by:Release, RawRw::unlock_shared_slow:Release,
/// RawRw::lock_shared:Acquire#2
#[test]
fn solo_writer_excludes_readers_in_the_word() {
    check(0, 3, || {
        let guarded = Guarded::<Word>::word();
        race_reader(&guarded, Guarded::write, read_twice);
        assert_eq!(guarded.read(), 1);
    });
}

/// The second reader finds the first in the word.
/// Refutes: RawRw::lock_shared_slow:Acquire
#[test]
fn overlapping_readers_in_the_word_see_the_write() {
    check(0, 2, || {
        let guarded = Guarded::<Word>::word();
        race_readers(&guarded, Guarded::write, 2, |guarded, _| guarded.try_read());
        guarded.check_free();
    });
}

/// Refutes: word-mode-ends-unseen
#[test]
fn readers_that_a_solo_writer_admits_hold_the_lock() {
    check(0, 2, || {
        let guarded = Guarded::<Word>::word();
        guarded.begin_write();
        race_readers(&guarded, Guarded::end_write, 2, |guarded, _| assert_eq!(guarded.read(), 1));
        guarded.check_free();
    });
}

#[test]
fn writers_in_word_mode_exclude_each_other() {
    check(0, 2, || {
        let guarded = Guarded::<Word>::word();
        race_readers(&guarded, Guarded::write, 1, |guarded, _| guarded.write());
        assert_eq!(guarded.read(), 2);
        guarded.check_free();
    });
}

/// Refutes: word-mode-left-unseen, RawRw::leave_word:Release
#[test]
fn reader_is_counted_where_writers_look_after_word_mode() {
    check(0, 3, || {
        let guarded = Guarded::<StaysShut>::word();
        let upgradable = |guarded: &Guarded<_>| {
            assert!(guarded.lock.lock_upgradable(Timeout::Never));
            guarded.end_upgradable();
        };
        race_reader(&guarded, upgradable, read_twice);
        guarded.check_free();
    });
}

/// The solo writer ends word mode if it admits the reader, and the upgradable reader otherwise.
/// Refutes: RawRw::leave_word:Acquire, RawRw::leave_word:Acquire#2
#[test]
fn upgradable_reader_sees_the_write_of_a_solo_writer() {
    check(0, 2, || {
        let guarded = Guarded::<Word>::word();
        race_readers(&guarded, Guarded::write, 2, |guarded, index| match index {
            0 => _ = guarded.read(),
            _ => {
                assert!(guarded.lock.lock_upgradable(Timeout::Never));
                guarded.writes();
                guarded.end_upgradable();
            }
        });
    });
}

/// Refutes: RawRw::try_hold:Acquire
#[test]
fn upgrade_waits_for_a_reader_in_the_word() {
    check(1, 3, || {
        let guarded = Guarded::<Word>::word();
        let upgrade = |guarded: &Guarded<_>| {
            assert!(guarded.lock.lock_upgradable(Timeout::Never));
            // SAFETY: the lock is held for an upgradable read.
            assert!(unsafe { guarded.lock.upgrade(Timeout::Never) });
            guarded.change();
            guarded.end_write();
        };
        race_reader(&guarded, upgrade, Guarded::read);
        guarded.check_free();
    });
}

#[test]
fn downgraded_solo_writer_takes_turns_with_a_writer() {
    check(0, 2, || {
        let guarded = Guarded::<Word>::word();
        guarded.begin_write();
        let downgrade = |guarded: &Guarded<_>| {
            // SAFETY: the lock is held for writing.
            unsafe { guarded.lock.downgrade_to_upgradable() };
            assert_eq!(guarded.writes(), 1);
            guarded.end_upgradable();
        };
        race_reader(&guarded, downgrade, Guarded::write);
        guarded.check_free();
    });
}

/// The reader opens the gate, and the writer returns to word mode.
/// Refutes: fast-path-in-word-mode
#[test]
fn reader_that_opened_the_gate_leaves_no_fast_path() {
    check(0, 3, || {
        let guarded = Guarded::<Word>::shut();
        race_reader(&guarded, Guarded::write, read_twice);
        guarded.read();
        guarded.check_free();
    });
}

#[test]
fn reader_ends_word_mode_beside_two_writes() {
    check(1, 2, || {
        let guarded = Guarded::<Spreads>::word();
        race_reader(&guarded, Guarded::write_twice, read_twice);
        assert_eq!(guarded.read(), 2);
        guarded.check_free();
    });
}

#[test]
fn readers_end_word_mode_beside_a_writer() {
    check(0, 1, || {
        let guarded = Guarded::<Spreads>::word();
        race_readers(&guarded, Guarded::write, 2, |guarded, _| _ = guarded.read());
        guarded.check_free();
    });
}

#[test]
fn reader_ends_word_mode_beside_an_upgrade() {
    check(1, 2, || {
        let guarded = Guarded::<Spreads>::word();
        let upgrade = |guarded: &Guarded<_>| {
            assert!(guarded.lock.lock_upgradable(Timeout::Never));
            // SAFETY: held.
            assert!(unsafe { guarded.lock.upgrade(Timeout::Never) });
            guarded.change();
            // SAFETY: held for writing.
            unsafe { guarded.lock.downgrade() };
            guarded.end_read();
        };
        race_reader(&guarded, upgrade, read_twice);
        guarded.check_free();
    });
}
