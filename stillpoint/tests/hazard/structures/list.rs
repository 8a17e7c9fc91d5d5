//! The list of M. M. Michael, *High performance dynamic lock-free hash tables and list-based sets* (2002): a search protects
//! the node in front and the current one, and begins again when the link between has changed.

use std::mem;

use stillpoint::Domain as _;
use stillpoint::hazard::Protected;
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

/// A place before `current`, which is null at the end.
struct Position<'l> {
    list: &'l List,
    /// Null before the first node.
    previous: Protected<Node>,
    current: Protected<Node>,
    is_found: bool,
}

impl Position<'_> {
    fn link(&self) -> &Atomic<Node, Own> {
        link(self.list, &self.previous)
    }
}

/// Returns the link behind a node, or the first one.
fn link<'a>(list: &'a List, previous: &'a Protected<Node>) -> &'a Atomic<Node, Own> {
    previous.get().as_ref().map_or(&list.head, |node| &node.next)
}

impl List {
    /// Returns the first position whose key is not less than `key`. Unlinks removed nodes before it.
    fn find(&self, key: u64) -> Position<'_> {
        'search: loop {
            let (mut previous, mut current) = (Protected::new(), Protected::new());
            current.protect(&self.head);
            while let Some(node) = current.get().as_ref() {
                // SAFETY: compared, and protected before it is followed.
                let next = unsafe { node.next.load_unprotected() };
                if next.tag() == REMOVED {
                    if !unlink(link(self, &previous), current.get(), next.with_tag(0)) {
                        continue 'search;
                    }
                } else if node.key < key {
                    // What protected the current node protects the one in front from now on.
                    mem::swap(&mut previous, &mut current);
                } else {
                    let is_found = node.key == key;
                    return Position { list: self, previous, current, is_found };
                }
                // Protected while the node in front, or the head, leads to it, and is not removed.
                if current.protect(link(self, &previous)) != next.with_tag(0) {
                    continue 'search;
                }
            }
            return Position { list: self, previous, current, is_found: false };
        }
    }
}

fn unlink(link: &Atomic<Node, Own>, current: Shared<'_, Node>, next: Shared<'_, Node>) -> bool {
    let unlinked = link.try_store(current, next);
    // SAFETY: the only link to the node in the list is gone, and the node does not return.
    unlinked
        .map(|node| unsafe { Own.retire_shared(node, DeferOptions::new().run_on_retiring_thread()) })
        .is_ok()
}

impl Set for List {
    fn insert(&self, key: u64) -> bool {
        let mut node = Owned::new(Node { key, next: Atomic::null() });
        loop {
            let position = self.find(key);
            if position.is_found {
                return false;
            }
            node.next.store(position.current.get());
            match position.link().try_store(position.current.get(), node) {
                Ok(_) => return true,
                Err(back) => node = back,
            }
        }
    }

    fn remove(&self, key: u64) -> bool {
        loop {
            let position = self.find(key);
            let current = position.current.get();
            let Some(node) = current.as_ref().filter(|_| position.is_found) else { return false };
            // SAFETY: compared and stored only.
            let next = unsafe { node.next.load_unprotected() };
            if next.tag() == REMOVED || node.next.try_store(next, next.with_tag(REMOVED)).is_err() {
                continue; // Another thread was faster.
            }
            if !unlink(position.link(), current, next) {
                self.find(key);
            }
            return true;
        }
    }

    fn contains(&self, key: u64) -> bool {
        self.find(key).is_found
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
