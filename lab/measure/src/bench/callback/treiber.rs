//! Treiber's stack, in the shape in which the library's guide has it, on each library that frees its nodes.

use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::peers::Reclaim;

struct Node<V> {
    value: V,
    next: *mut Node<V>,
}

// SAFETY: a node is only sent to be freed.
unsafe impl<V: Send> Send for Node<V> {}

/// As many nodes as threads have pushed and not popped.
pub(super) struct Stack<V>(AtomicPtr<Node<V>>);

impl<V: Send + 'static> Stack<V> {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::default())
    }

    pub(super) fn is_empty(&self) -> bool {
        // Relaxed: the threads have ended.
        self.0.load(Relaxed).is_null()
    }

    #[inline(always)]
    pub(super) fn push<R: Reclaim>(&self, value: V) {
        let node = R::allocate(Node { value, next: ptr::null_mut() });
        let mut head = self.0.load(Relaxed);
        loop {
            // SAFETY: no other thread has the node yet.
            unsafe { (*node.as_ptr()).next = head };
            // Release: publishes the node; pairs with the Acquire in `Reclaim::load`.
            match self.0.compare_exchange_weak(head, node.as_ptr(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Retires the newest node, and returns what `read` returns for its value.
    #[inline(always)]
    pub(super) fn pop<R: Reclaim, T>(&self, guard: &R::Guard<'_>, read: impl FnOnce(&V) -> T) -> Option<T> {
        loop {
            let head = NonNull::new(R::load(guard, &self.0))?;
            // SAFETY: the guard: no node is freed that a load in its section returned.
            let next = unsafe { (*head.as_ptr()).next };
            // Acquire: a node below this one, which another thread pushed; pairs with the Release in `push`.
            if self.0.compare_exchange(head.as_ptr(), next, Acquire, Relaxed).is_ok() {
                // SAFETY: as above.
                let seen = read(unsafe { &(*head.as_ptr()).value });
                // SAFETY: from `R::allocate`, and out of the stack, by this thread.
                unsafe { R::retire(guard, head) };
                return Some(seen);
            }
        }
    }
}
