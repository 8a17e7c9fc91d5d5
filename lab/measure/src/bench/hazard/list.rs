//! The list and the hash table of M. M. Michael, *High performance dynamic lock-free hash tables and list-based sets* (2002),
//! on each library that frees their nodes. Where sections keep what is removed, a search that changes nothing visits removed
//! nodes too, as T. L. Harris' list (2001) allows.

use std::iter;

use crate::peers::nodes::{Link as _, Node, Nodes, REMOVED, free};

/// A set of numbers, in ascending order.
pub(super) struct List<S: Nodes> {
    head: S::Link,
}

/// A place before `current`, which is null at the end. Valid until the operation protects others.
struct Position<'a, S: Nodes> {
    link: &'a S::Link,
    current: *mut Node<S>,
    is_found: bool,
}

fn is_removed<S: Nodes>(next: *mut Node<S>) -> bool {
    next.addr() & REMOVED != 0
}

fn untagged<S: Nodes>(next: *mut Node<S>) -> *mut Node<S> {
    next.map_addr(|address| address & !REMOVED)
}

impl<S: Nodes> Default for List<S> {
    fn default() -> Self {
        Self { head: S::Link::default() }
    }
}

impl<S: Nodes> List<S> {
    /// Returns the first position whose key is not less than `key`. Unlinks removed nodes before it.
    #[inline]
    fn find<'a>(&'a self, key: u64, operation: &mut S::Operation<'_>) -> Position<'a, S> {
        'search: loop {
            let mut link = &self.head;
            let mut current = link.load();
            loop {
                if is_removed(current) || !S::protect(operation, link, current) {
                    continue 'search;
                }
                // SAFETY: it is protected.
                let Some(node) = (unsafe { current.as_ref() }) else {
                    return Position { link, current, is_found: false };
                };
                let next = node.next.load();
                if is_removed(next) {
                    if !link.replace(current, untagged(next)) {
                        continue 'search;
                    }
                    // SAFETY: the only link to it is gone.
                    unsafe { S::retire(operation, current) };
                } else if node.key < key {
                    link = &node.next;
                    S::advance(operation);
                } else {
                    return Position { link, current, is_found: node.key == key };
                }
                current = untagged(next);
            }
        }
    }

    pub(super) fn contains(&self, key: u64, operation: &mut S::Operation<'_>) -> bool {
        if !S::VISITS_REMOVED {
            return self.find(key, operation).is_found;
        }
        let mut current = self.head.load();
        // SAFETY: the section keeps it.
        while let Some(node) = unsafe { untagged(current).as_ref() } {
            let next = node.next.load();
            if node.key >= key {
                return node.key == key && !is_removed(next);
            }
            current = next;
        }
        false
    }

    pub(super) fn insert(&self, key: u64, operation: &mut S::Operation<'_>) -> bool {
        let mut node: Option<Box<Node<S>>> = None;
        loop {
            let Position { link, current, is_found } = self.find(key, operation);
            if is_found {
                return false;
            }
            let new = node.take().unwrap_or_else(|| Box::new(Node { key, next: S::Link::default() }));
            new.next.set(current);
            let new = Box::into_raw(new);
            if link.replace(current, new) {
                return true;
            }
            // SAFETY: it came from a Box, and is not in the list.
            node = Some(unsafe { Box::from_raw(new) });
        }
    }

    pub(super) fn remove(&self, key: u64, operation: &mut S::Operation<'_>) -> bool {
        loop {
            let Position { link, current, is_found } = self.find(key, operation);
            if !is_found {
                return false;
            }
            // SAFETY: it is protected.
            let node = unsafe { &*current };
            let next = node.next.load();
            if is_removed(next) || !node.next.replace(next, next.map_addr(|address| address | REMOVED)) {
                continue; // Another thread was faster.
            }
            if link.replace(current, next) {
                // SAFETY: the only link to it is gone.
                unsafe { S::retire(operation, current) };
            } else {
                self.find(key, operation);
            }
            return true;
        }
    }
}

impl<S: Nodes> Drop for List<S> {
    fn drop(&mut self) {
        free::<S>(&mut self.head);
    }
}

/// A set of numbers: a list, or an array of lists.
pub(super) struct Set<S: Nodes>(Box<[List<S>]>);

impl<S: Nodes> Set<S> {
    pub(super) fn new(buckets: usize) -> Self {
        Self(iter::repeat_with(List::default).take(buckets).collect())
    }

    /// Returns the list of a number, which stands at `key / buckets` there.
    pub(super) fn bucket(&self, key: u64) -> &List<S> {
        &self.0[key as usize % self.0.len()]
    }
}
