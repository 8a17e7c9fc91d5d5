//! The list of M. M. Michael, *High performance dynamic lock-free hash tables and list-based sets* (2002): a search protects
//! the node in front and the current one, and begins again when the link between has changed.

use std::mem;

use stillpoint::Domain as _;
use stillpoint::hazard::HazardPointer;
use stillpoint::rcu::{Atomic, DeferOptions, Owned, Shared};

use super::{Own, REMOVED, Set};

pub struct Node {
    key: u64,
    next: Atomic<Node, Own>,
}

/// A set of numbers, in ascending order.
#[derive(Default)]
pub struct List {
    head: Atomic<Node, Own>,
}

/// The hazard pointers of a search: of the node in front, and of the current one.
struct Pointers([HazardPointer; 2]);

/// A place before `current`, which is null at the end. Valid until the pointers are used again.
struct Position<'a> {
    link: &'a Atomic<Node, Own>,
    current: Shared<'a, Node>,
    is_found: bool,
}

impl List {
    /// Returns the first position whose key is not less than `key`. Unlinks removed nodes before it.
    fn find<'a>(&'a self, key: u64, pointers: &'a mut Pointers) -> Position<'a> {
        'search: loop {
            let mut link = &self.head;
            let mut current = protect(link, &mut pointers.0[1]);
            while let Some(node) = current.as_ref() {
                // SAFETY: compared, and protected before it is followed.
                let next = unsafe { node.next.load_unprotected() };
                if next.tag() == REMOVED {
                    if !unlink(link, current, next.with_tag(0)) {
                        continue 'search;
                    }
                } else if node.key < key {
                    link = &node.next;
                    // What protected the current node protects the one in front from now on.
                    pointers.0.swap(0, 1);
                } else {
                    return Position { link, current, is_found: node.key == key };
                }
                // Protected while the node in front, or the head, leads to it, and is not removed.
                current = protect(link, &mut pointers.0[1]);
                if current != next.with_tag(0) {
                    continue 'search;
                }
            }
            return Position { link, current, is_found: false };
        }
    }
}

/// Protects the node of a link, for as long as the hazard pointer is not used for another.
fn protect<'a>(link: &Atomic<Node, Own>, pointer: &mut HazardPointer) -> Shared<'a, Node> {
    let node = pointer.protect(link);
    // SAFETY: the search uses the node only while a hazard pointer of its own protects it. Keeps the tag.
    unsafe { Shared::from_ptr(node.as_ptr()) }.with_tag(node.tag())
}

fn unlink(link: &Atomic<Node, Own>, current: Shared<'_, Node>, next: Shared<'_, Node>) -> bool {
    let is_unlinked = link.try_store(current, next).is_ok();
    if is_unlinked {
        // SAFETY: the only link to the node in the list is gone, and the node does not return.
        unsafe { Own.retire_shared(current, DeferOptions::new().run_on_retiring_thread()) };
    }
    is_unlinked
}

impl Set for List {
    fn insert(&self, key: u64) -> bool {
        let mut pointers = Pointers(HazardPointer::array());
        let mut node = Owned::new(Node { key, next: Atomic::null() });
        loop {
            let Position { link, current, is_found } = self.find(key, &mut pointers);
            if is_found {
                return false;
            }
            node.next.store(current);
            match link.try_store(current, node) {
                Ok(()) => return true,
                Err(back) => node = back,
            }
        }
    }

    fn remove(&self, key: u64) -> bool {
        let mut pointers = Pointers(HazardPointer::array());
        loop {
            let Position { link, current, is_found } = self.find(key, &mut pointers);
            let Some(node) = current.as_ref().filter(|_| is_found) else { return false };
            // SAFETY: compared and stored only.
            let next = unsafe { node.next.load_unprotected() };
            if next.tag() == REMOVED || node.next.try_store(next, next.with_tag(REMOVED)).is_err() {
                continue; // Another thread was faster.
            }
            if !unlink(link, current, next) {
                self.find(key, &mut pointers);
            }
            return true;
        }
    }

    fn contains(&self, key: u64) -> bool {
        self.find(key, &mut Pointers(HazardPointer::array())).is_found
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let mut next = mem::take(&mut self.head);
        // SAFETY: no other thread has the list, and each node is in it once.
        while let Some(node) = unsafe { next.take() } {
            next = node.into_box().next;
        }
    }
}
