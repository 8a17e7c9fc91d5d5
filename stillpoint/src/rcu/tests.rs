//! Signal handlers that read at each instruction of [`hint_idle`](super::hint_idle), of the sections around it, and
//! of those of threads whose destructors have run.

use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use std::{ptr, thread};

use super::{DeferOptions, Guard};
use crate::Domain as _;
use crate::domain::static_domain::StaticDomain as _;
use crate::domain::thread::leave_if_ended;
use crate::readers::sections::reader::Reader;
use crate::readers::sections::registration::unregistered;
use support::traps::{begin, interrupted};

crate::domain! { struct Own; }

/// A region is interrupted after each instruction. In a build without optimizations, which has ten times as many,
/// this would take minutes: there it is each 73rd.
const STRIDE: usize = if cfg!(debug_assertions) { 73 } else { 1 };
/// Only so many instructions of a region are interrupted.
const LIMIT: usize = if cfg!(debug_assertions) { 4000 } else { 400 };

/// The states that may not be, as bits: a handler cannot panic.
static WRONG: AtomicU32 = AtomicU32::new(0);
/// Destructors that have kept a guard.
static KEPT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Destructors keep a guard: on a tested thread, once it is prepared.
    static KEEPS_GUARDS: Cell<bool> = const { Cell::new(false) };
    /// A guard that a destructor keeps, or that a region ends.
    static GUARD: Cell<Option<Guard<Own>>> = const { Cell::new(None) };
    /// The copy by which C and C++ enter.
    #[allow(clippy::missing_const_for_thread_local, reason = "constants of Rust 1.85 contain no references to atomics")]
    static COPY: Cell<&'static Reader> = Cell::new(unregistered());
}

/// Checks that a thread inside a section has an active reader, that one that enters by the fast path has one too,
/// which stays if the thread has ended.
fn check() {
    let wrong = Own::with_thread_state(|local| {
        let registration = &local.registration;
        let paths = [registration.fast(), registration.fenced(), COPY.get()];
        let is_fast = paths.iter().any(|&reader| !ptr::eq(reader, unregistered()));
        let reader = registration.reader();
        let is_active = reader.is_some_and(|reader| Own::shared().readers().registry().is_active(reader));
        let is_inside = reader.is_some_and(Reader::in_read_section);
        let stays = registration.stays(true);
        registration.stays(stays);
        [is_inside && !is_active, is_fast && !is_active, is_fast && registration.has_ended() && !stays]
    });
    for (bit, _) in wrong.iter().enumerate().filter(|&(_, &is_wrong)| is_wrong) {
        WRONG.fetch_or(1 << bit, Relaxed);
    }
}

fn read() {
    let _guard = Own::enter();
    check();
}

fn read_once() {
    read();
    check();
}

fn read_twice() {
    read();
    read();
    check();
}

fn read_nested() {
    let mut outer = Own::enter();
    outer.repin();
    let inner = Own::enter();
    check();
    drop(outer);
    check();
    drop(inner);
    check();
}

struct KeepsAGuard(#[expect(dead_code, reason = "only so that it has an address")] u64);

impl Drop for KeepsAGuard {
    fn drop(&mut self) {
        if !KEEPS_GUARDS.get() {
            return;
        }
        GUARD.set(Some(Own::enter()));
        KEPT.fetch_add(1, Relaxed);
        check();
    }
}

fn local() -> DeferOptions {
    DeferOptions::new().run_on_retiring_thread()
}

fn retire_much() {
    Own.retire_with(Box::new(0_u64), local().heap_bytes(1 << 16));
}

/// Retires values whose destructors may run, on this thread, when a section ends in which more has been retired.
fn retire_some() {
    for _ in 0..5 {
        Own.retire_with(Box::new(0_u64), local());
    }
    Own.retire_with(Box::new(KeepsAGuard(0)), local().heap_bytes(1));
    retire_much();
    Own.synchronize();
}

/// Interrupts `region`, after `prepare`, by `handler`: once at each instruction. Returns `false` if there are more
/// than [`LIMIT`].
fn check_all(prepare: fn(), region: fn(), handler: fn()) -> bool {
    for at in (0..LIMIT).step_by(STRIDE) {
        let is_interrupted = move || {
            Own::register();
            COPY.with(|copy| {
                // SAFETY: both are thread-local, and without destructors.
                Own::with_thread_state(|local| unsafe { local.registration.copy_fast_to(copy.into()) });
            });
            prepare();
            KEEPS_GUARDS.set(true);
            let is_interrupted = interrupted(at, 0, handler, region);
            check();
            drop(GUARD.take());
            check();
            assert!(!Own::in_read_section());
            // The next section belongs to an active thread, and the one after it enters by the fast path.
            read_twice();
            let is_fast = Own::with_thread_state(|local| {
                local.registration.reader().is_some_and(|reader| ptr::eq(reader, local.registration.fast()))
            });
            assert_eq!(is_fast, crate::fence::fast_path_suffices());
            KEEPS_GUARDS.set(false);
            // The next thread gets the queue.
            while Own.flush() {}
            is_interrupted
        };
        let is_interrupted = thread::spawn(is_interrupted).join().expect("no panic");
        assert_eq!(WRONG.load(Relaxed), 0, "at instruction {at}");
        if !is_interrupted {
            assert_ne!(at, 0);
            return true;
        }
    }
    false
}

/// Refutes: bit-cleared-before-fast, copy-kept-when-idle, fast-while-going-idle, idle-ends-before-bit
#[test]
fn handlers_may_read_at_each_instruction_of_a_hint() {
    let _one = begin();
    for handler in [read_once, read_twice, read_nested] {
        assert!(check_all(|| (), Own::hint_idle, handler));
        assert!(check_all(Own::hint_idle, Own::hint_idle, handler));
        // The first section afterwards.
        assert!(check_all(Own::hint_idle, read, handler));
    }
}

#[test]
fn handlers_may_read_where_destructors_keep_guards() {
    static BUSY: Barrier = Barrier::new(3);
    let _one = begin();
    // The worker is busy with a callback of a thread that keeps its queue, so that others run their own destructors.
    let busy = thread::spawn(|| {
        Own.call(|| {
            BUSY.wait();
            BUSY.wait();
        });
        BUSY.wait();
        BUSY.wait();
    });
    BUSY.wait();
    // The end of the first section after a hint, of which the destructors are a part.
    let prepare = || {
        retire_some();
        Own::hint_idle();
        GUARD.set(Some(Own::enter()));
        retire_much();
    };
    check_all(prepare, || drop(GUARD.take()), read_once);
    BUSY.wait();
    busy.join().expect("no panic");
    assert_ne!(KEPT.load(Relaxed), 0);
}

/// As the destructors of a thread do. Later sections register the thread again, and release the reader.
fn end() {
    Own::with_thread_state(|local| local.registration.end());
    leave_if_ended::<Own>();
}

/// Interrupts `region` of a thread, after `prepare`, by a section: once at each instruction, or twice, the second
/// time `again` instructions later.
fn check_ended_again(again: usize, prepare: fn(), region: fn()) {
    for at in (0..).step_by(STRIDE) {
        let is_interrupted = move || {
            Own::register();
            prepare();
            let is_interrupted = interrupted(at, again, read_once, region);
            check();
            let is_released = Own::with_thread_state(|local| {
                local.registration.reader().is_none() && local.queue.get().is_none()
            });
            assert!(is_released, "at instruction {at}, and {again} later");
            is_interrupted
        };
        let is_interrupted = thread::spawn(is_interrupted).join().expect("no panic");
        assert_eq!(WRONG.load(Relaxed), 0, "at instruction {at}, and {again} later");
        if !is_interrupted {
            break;
        }
    }
    // A thread has two for a moment, if a handler registers it too.
    let readers = Own::shared().readers().registry().len();
    assert!(readers <= 4, "{readers} readers: one was lost for each thread");
}

fn check_ended(prepare: fn(), region: fn()) {
    let _one = begin();
    check_ended_again(0, prepare, region);
}

/// Refutes: released-while-it-enters
#[test]
fn handlers_may_read_while_an_ended_thread_enters() {
    check_ended(end, read);
}

/// Refutes: released-while-it-registers, registered-twice
#[test]
fn handlers_may_read_while_an_ended_thread_registers() {
    check_ended(end, Own::register);
}

/// Refutes: released-while-it-ends
#[test]
fn handlers_may_read_while_a_thread_ends() {
    check_ended(|| (), end);
}

/// Refutes: ended-after-fast
#[test]
fn handlers_may_read_while_an_idle_thread_ends() {
    check_ended(Own::hint_idle, end);
}

/// Refutes: reader-left-by-a-handler
#[test]
fn handlers_may_read_while_an_ended_thread_drops_its_last_guard() {
    let _one = begin();
    let prepare = || {
        GUARD.set(Some(Own::enter()));
        end();
    };
    for again in (0..60).step_by(STRIDE.max(8)) {
        check_ended_again(again, prepare, || drop(GUARD.take()));
    }
}

/// It is the only reader: without the section, there would be no other to look at.
#[test]
fn tried_grace_period_waits_for_a_guard_that_the_thread_has_leaked() {
    crate::domain! { struct Own; }
    let tries = || {
        core::mem::forget(Own::enter());
        crate::reclaim::domain::try_synchronize(&Own)
    };
    assert!(!std::thread::spawn(tries).join().expect("no panic"));
}
