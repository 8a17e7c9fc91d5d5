//! The nodes of structures under loom: finds reads of a node that is freed, or may be.
//!
//! The memory of a node stays, so that no other node gets its address, and a wrong read is no undefined behaviour.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, atomic::AtomicBool, atomic::Ordering::Relaxed};

use crate::sync::{LoomAccess, model::poll};

/// Reads are shared accesses, freeing is an exclusive one.
struct Node {
    access: LoomAccess,
    is_freed: AtomicBool,
}

loom::lazy_static! {
    /// By address. Not a mutex of loom, which would order threads: none stops while it has this.
    static ref NODES: Mutex<HashMap<usize, Arc<Node>>> = Mutex::new(HashMap::new());
}

fn find<T>(node: *const T) -> Option<Arc<Node>> {
    NODES.lock().expect("nothing panics here").get(&node.addr()).cloned()
}

/// A node is made of the value in a box.
pub(super) fn begin<T>(node: &T) {
    let access = LoomAccess::new();
    access.exclusive();
    let made = Arc::new(Node { access, is_freed: AtomicBool::new(false) });
    NODES.lock().expect("nothing panics here").insert((node as *const T).addr(), made);
}

/// The calling thread reads a node, perhaps.
#[track_caller]
pub(super) fn read<T>(node: *const T) {
    // Time may pass between loading the pointer and reading through it.
    poll();
    if let Some(node) = find(node) {
        assert!(!node.is_freed.load(Relaxed), "read a freed value");
        node.access.shared();
    }
}

/// Returns the value of a node, which is freed now, or no longer one.
///
/// # Safety
///
/// The node is the caller's, which does not use it again.
pub(super) unsafe fn end<T>(node: NonNull<T>) -> Box<T> {
    if let Some(node) = find(node.as_ptr()) {
        assert!(!node.is_freed.swap(true, Relaxed), "freed a node twice");
        node.access.exclusive();
    }
    // SAFETY: the caller's contract. The memory leaks.
    Box::new(unsafe { node.read() })
}
