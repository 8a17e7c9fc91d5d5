//! Domains in the child of a `fork`. For all else see `domain/fork.rs`.
//!
//! Nobody can tell whose a guard is, so the child cannot forget those of threads that it does not have: one that it has may
//! lend references. It keeps all that were open. If these are the forking thread's they end there; others never do.
//!
//! Not by the counts as the child finds them. Other threads count while the kernel copies the memory, page by page, and it is
//! copied in no order: the child may have somebody's leaving without his entering, which would make up for an open section. So
//! [`prepare`] sums, before the fork, in the thread that forks: all its sections are in what it finds open (by cases (1) and (3)
//! of [`crate::readers::srcu`], without fences, as they are its own). The child goes on from there.
//!
//! The list is locked from `prepare` on, so that the child finds it whole.

use core::cell::UnsafeCell;
use core::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::shared::Shared;
use crate::sync::ForkSafe;
use crate::sys::fork::{ForkHook, Part, register_for_fork};
use crate::sys::init_array;
use crate::sys::thread::with_all_blocked;

/// The domains that have been used, and not freed.
static LIST: ForkSafe<Mutex<List>> = ForkSafe::new(Mutex::new(List { first: ptr::null() }));

/// The lock, while the process forks.
static HELD: Held = Held(UnsafeCell::new(None));

#[derive(Debug)]
struct List {
    first: *const Shared,
}

// SAFETY: the pointers are used under the lock only.
unsafe impl Send for List {}

struct Held(UnsafeCell<Option<MutexGuard<'static, List>>>);

// SAFETY: touched by who holds the lock only, from `prepare` on.
unsafe impl Sync for Held {}

fn list() -> MutexGuard<'static, List> {
    // No foreign code runs under the lock.
    LIST.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes forks known to the domain.
pub(super) fn enlist(shared: &Shared) {
    // If it has not been called. Without memory, the next domain tries again.
    register_for_fork(&FORK);
    let mut list = list();
    shared.fork.next.set(list.first);
    // SAFETY: listed, so not freed.
    if let Some(next) = unsafe { list.first.as_ref() } {
        next.fork.previous.set(shared);
    }
    list.first = shared;
}

/// The domain is about to be freed.
pub(super) fn unlist(shared: &Shared) {
    let mut list = list();
    let (next, previous) = (shared.fork.next.get(), shared.fork.previous.get());
    // SAFETY: listed, so not freed.
    unsafe {
        if let Some(next) = next.as_ref() {
            next.fork.previous.set(previous);
        }
        match previous.as_ref() {
            Some(previous) => previous.fork.next.set(next),
            None => list.first = next,
        }
    }
}

/// The domains of the list.
fn domains(list: &List) -> impl Iterator<Item = &Shared> {
    // SAFETY: listed, so not freed while the list is locked.
    core::iter::successors(unsafe { list.first.as_ref() }, |shared| unsafe {
        shared.fork.next.get().as_ref()
    })
}

static FORK: ForkHook = ForkHook { part: Part::Srcu, prepare, parent: in_parent, child: in_child };

init_array!(register_for_fork(&FORK));

/// The calling thread is about to fork.
fn prepare() {
    let list = list();
    // A section of a signal handler between two sums would stay open in the child.
    with_all_blocked(|| {
        domains(&list).for_each(|shared| shared.fork.sections.set(shared.phases().sections()))
    });
    // SAFETY: under the lock.
    unsafe { *HELD.0.get() = Some(list) };
}

/// It has forked.
fn in_parent() {
    // SAFETY: under the lock, which `prepare` took.
    let held = unsafe { (*HELD.0.get()).take() };
    drop(held);
}

/// The child.
///
/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    // SAFETY: as above. The lock is written over: it may have waiters that do not exist.
    let Some(held) = (unsafe { (*HELD.0.get()).take() }) else { return };
    // As in `prepare`.
    with_all_blocked(|| {
        for shared in domains(&held) {
            // SAFETY: the caller's contract.
            unsafe { shared.reset_in_child(shared.fork.sections.get()) };
        }
    });
    let first = held.first;
    core::mem::forget(held);
    // SAFETY: the only thread, and nobody has a reference to the list.
    unsafe { LIST.overwrite(Mutex::new(List { first })) };
}
