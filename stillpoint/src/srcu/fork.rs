//! Domains in the child of a `fork`; what is not about sections is in `domain/fork.rs`.
//!
//! Guards are not tied to threads. So the child cannot tell the sections of threads that it does not have from its own,
//! which may lend references, and keeps all that were open. The forking thread ends its own sections in the child; the
//! others never end.
//!
//! The counts that the child finds do not tell which are open. Other threads count while the kernel copies the memory,
//! page by page and in no order: the child may have the end of a section without its beginning, which would offset an
//! open section. So [`prepare`] sums before the fork, in the forking thread, whose sections are all in that sum (cases
//! (1) and (3) of [`crate::readers::srcu`], without fences, as they are its own). The child continues from these sums.
//!
//! The list is locked from `prepare` on, so that the child finds it consistent.

use core::cell::UnsafeCell;
use core::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::shared::Shared;
use crate::sys::fork::{ForkHook, Part, register_for_fork};
use crate::sys::init_array;
use crate::sys::thread::with_all_blocked;

/// The domains that have been used and not freed.
static LIST: Mutex<List> = Mutex::new(List { first: ptr::null() });

/// The lock of the list while the process forks.
static HELD: Held = Held(UnsafeCell::new(None));

#[derive(Debug)]
struct List {
    first: *const Shared,
}

// SAFETY: the pointers are used under the lock only.
unsafe impl Send for List {}

struct Held(UnsafeCell<Option<MutexGuard<'static, List>>>);

// SAFETY: accessed only by the forking thread while it holds the lock.
unsafe impl Sync for Held {}

fn list() -> MutexGuard<'static, List> {
    // No foreign code runs under the lock.
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the domain to the list.
pub(super) fn enlist(shared: &Shared) {
    // In case this runs before `main`. If there is no memory for the handler, the next domain tries again.
    register_for_fork(&FORK);
    let mut list = list();
    shared.next.set(list.first);
    // SAFETY: listed, so not freed.
    if let Some(next) = unsafe { list.first.as_ref() } {
        next.previous.set(shared);
    }
    list.first = shared;
}

/// Removes the domain, which is about to be freed, from the list.
pub(super) fn unlist(shared: &Shared) {
    let mut list = list();
    let (next, previous) = (shared.next.get(), shared.previous.get());
    // SAFETY: listed, so not freed.
    unsafe {
        if let Some(next) = next.as_ref() {
            next.previous.set(previous);
        }
        match previous.as_ref() {
            Some(previous) => previous.next.set(next),
            None => list.first = next,
        }
    }
}

/// Calls `f` with each domain in the list, while signals are blocked: a section of a signal handler between two sums
/// would stay open in the child.
fn for_each(list: &List, f: impl Fn(&Shared)) {
    with_all_blocked(|| {
        let mut next = list.first;
        // SAFETY: listed, so not freed while the list is locked.
        while let Some(shared) = unsafe { next.as_ref() } {
            f(shared);
            next = shared.next.get();
        }
    });
}

static FORK: ForkHook = ForkHook { part: Part::Srcu, prepare, parent: unlock, child: in_child };

init_array!(register_for_fork(&FORK));

/// Before the fork.
fn prepare() {
    let list = list();
    for_each(&list, |shared| shared.sections_before_fork.set(shared.readers().sections()));
    // SAFETY: under the lock.
    unsafe { *HELD.0.get() = Some(list) };
}

/// After the fork.
fn unlock() {
    // SAFETY: under the lock, which `prepare` took.
    drop(unsafe { (*HELD.0.get()).take() });
}

/// In the child.
///
/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    // SAFETY: under the lock, which `prepare` took in this thread.
    if let Some(list) = unsafe { &*HELD.0.get() } {
        // SAFETY: the caller's contract.
        for_each(list, |shared| unsafe { shared.reset_in_child(shared.sections_before_fork.get()) });
    }
    unlock();
}
