//! kovan.

use std::sync::atomic::Ordering;

use kovan::{Atomic, Guard, RetiredNode, pin};

use super::{ReadSide, VALUE, read_side};

/// A value as `retire` wants it.
#[repr(C)]
struct Node {
    retired: RetiredNode,
    value: u64,
}

/// `pin()` and `load()`, the form that its documentation has for control: `Atom` does more.
pub struct Pinned(Atomic<Node>);

impl Pinned {
    fn with_value() -> Self {
        Self(Atomic::new(Box::into_raw(Box::new(Node { retired: RetiredNode::new(), value: VALUE }))))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let guard = pin();
        let node = self.0.load(Ordering::Acquire, &guard).as_raw();
        // SAFETY: the node came from a Box and was never replaced; no reader has this value any more.
        drop(unsafe { Box::from_raw(node) });
    }
}

read_side!(
    Pinned,
    "kovan",
    Guard,
    Self::with_value(),
    |_this| pin(),
    // SAFETY: the node is not freed before this value is dropped, which the reader borrows.
    |this, guard| unsafe { this.0.load(Ordering::Acquire, guard).deref() }.value
);
