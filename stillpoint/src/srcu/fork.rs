//! Domains in the child of a `fork`; what is not about sections is in `domain/fork.rs`.
//!
//! Guards are not tied to threads. So the child cannot tell the sections of threads that it does not have from its
//! own, which may lend references, and keeps all that were open. The forking thread ends its own sections in the
//! child; the others never end.
//!
//! The counts that the child finds do not tell which are open. Other threads count while the kernel copies the
//! memory, page by page and in no order: the child may have the end of a section without its beginning, which would
//! offset an open section. So [`prepare`] sums before the fork, in the forking thread, whose sections are all in that
//! sum (cases (1) and (3) of [`crate::readers::srcu`], without fences, as they are its own). The child continues from
//! these sums.
//!
//! The list is locked from `prepare` on. Signals are blocked under its lock: a section of a signal handler between
//! two sums would stay open in the child.

use core::ptr;

use super::state::SrcuState;
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::fork_lock::ForkLock;
use crate::sys::init_array;

/// The domains that have been used and not freed.
static LIST: ForkLock<List> = ForkLock::new(List { first: ptr::null() });

#[derive(Debug)]
struct List {
    first: *const SrcuState,
}

// SAFETY: the pointers are used under the lock only.
unsafe impl Send for List {}

/// Adds the domain to the list.
///
/// # Safety
///
/// It is not freed before [`unlist`].
pub(super) unsafe fn enlist(shared: *const SrcuState) {
    // In case this runs before `main`. If there is no memory for the handler, the next domain tries again.
    register_for_fork(&FORK);
    LIST.with(|list| {
        // SAFETY: the caller's contract; the other one is listed, so not freed.
        unsafe {
            (*shared).next.set(list.first);
            if let Some(next) = list.first.as_ref() {
                next.previous.set(shared);
            }
        }
        list.first = shared;
    });
}

/// Removes the domain, which is about to be freed, from the list.
pub(super) fn unlist(shared: &SrcuState) {
    LIST.with(|list| {
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
    });
}

/// Calls `f` with each domain in the list, which is locked: `f` calls neither this module nor the program, the
/// allocator included. The pointers are those of [`enlist`], to domains that are not freed before `f` returns.
pub(super) fn for_each(mut f: impl FnMut(*const SrcuState)) {
    LIST.with(|list| {
        let mut shared = list.first;
        while !shared.is_null() {
            f(shared);
            // SAFETY: listed, so not freed while the list is locked.
            shared = unsafe { (*shared).next.get() };
        }
    });
}

static FORK: ForkHook = ForkHook { order: 4, prepare, parent: || LIST.release(), child: in_child };

init_array!(register_for_fork(&FORK));

/// Before the fork.
fn prepare() {
    LIST.hold();
    // SAFETY: see `for_each`.
    for_each(|shared| unsafe {
        (*shared).sections_before_fork.set((*shared).readers().sections());
    });
}

/// In the child.
///
/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    // SAFETY: see `for_each`, and the caller's contract.
    for_each(|shared| unsafe { (*shared).reset_in_child((*shared).sections_before_fork.get()) });
    LIST.release();
}

#[cfg(all(test, not(stillpoint_portable)))]
mod tests {
    use crate::sys::fork::orders;
    use crate::{arc, fence, lock, percpu, rcu, srcu};

    #[test]
    fn fork_hooks_are_registered_early_and_called_in_order() {
        // Keeps the parts from being left out of the program.
        let _ = (
            fence::calls,
            lock::Mutex::<()>::new,
            percpu::Counter::<u64>::new,
            percpu::RefCount::new,
            rcu::stats,
            srcu::Domain::new,
            arc::ArcCell::<std::sync::Arc<u8>>::load,
        );
        let last = if cfg!(feature = "statistics-page") { 9 } else { 8 };
        assert_eq!(orders(), (0..=last).collect::<Vec<_>>());
    }
}
