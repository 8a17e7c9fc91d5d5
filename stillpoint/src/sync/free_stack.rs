//! A stack of free elements of a table (Treiber, 1986), which are linked by their numbers. Its head has a tag that
//! each change increments, against ABA. For the readers of a registry, and the nodes of locks.

use super::{AtomicU32, AtomicU64, Ordering::*, const_unless_loom};

/// See the [module](self): the tag in the high half, the number of the top in the low half, 0 if the stack is empty.
#[derive(Debug)]
pub struct FreeStack(AtomicU64);

impl FreeStack {
    const_unless_loom! {
        pub fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Takes the number of the top. `link` returns the link of an element.
    pub fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        // Acquire, here and below: what the last owner did with the element, its link included; pairs with the
        // Release in `push`.
        let mut head = self.0.load(Acquire);
        loop {
            let top = head as u32;
            if top == 0 {
                return None;
            }
            // Relaxed: if the element is not free any more, the tag has changed.
            let below = link(top).load(Relaxed);
            // No Release: a read-modify-write continues the release sequence of `push`.
            match self.0.compare_exchange(head, retag(head, below), Acquire, Acquire) {
                Ok(_) => return Some(top),
                Err(now) => head = now,
            }
        }
    }

    /// Puts an element, which the caller owns, on top. Its number is not 0.
    pub fn push(&self, number: u32, link: &AtomicU32) {
        let mut head = self.0.load(Relaxed);
        loop {
            link.store(head as u32, Relaxed);
            // Release: publishes the link, and what the owner did with the element; pairs with the Acquires in `pop`.
            match self.0.compare_exchange(head, retag(head, number), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Forgets what is on the stack. For the only thread of a process, as after a fork.
    #[cfg(not(loom))]
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Returns a head with another top and the next tag.
fn retag(head: u64, top: u32) -> u64 {
    let tag = ((head >> 32) as u32).wrapping_add(1);
    u64::from(tag) << 32 | u64::from(top)
}
