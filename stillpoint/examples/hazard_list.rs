//! A list whose readers use hazard pointers alone.
//!
//! A search keeps two nodes, the one in front and the current one, each by a `Protected`. It moves on by exchanging
//! the two, and returns them as a position: no node of a position is freed while it exists, and no other node waits
//! for it. So a reader may stay anywhere in the list, for any time.
//!
//! The algorithm is that of M. M. Michael, *Hazard pointers: safe memory reclamation for lock-free objects* (2004).
//! In the example `long_traversals`, short reads use sections, in which each step is cheaper.
//!
//! ```sh
//! cargo run --release -p stillpoint --example hazard_list # checks each key, and how much waits to be freed
//! ```

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::hazard::{Global, Protected};
use stillpoint::rcu::{Atomic, DeferOptions, Owned, Shared};

/// Keys that stay; writers insert and remove the odd ones between.
const KEYS: u64 = 200;
/// Changes of each writer.
const CHANGES: u64 = 20_000;
/// The tag of a link whose node is removed.
const REMOVED: usize = 1;

type Link = Atomic<Node, Global>;

struct Node {
    key: u64,
    next: Link,
}

/// A set of keys, in ascending order.
#[derive(Default)]
pub(crate) struct List {
    head: Link,
}

/// A place in a list: before `current`, which is null at the end.
struct Position<'l> {
    list: &'l List,
    /// Null before the first node.
    previous: Protected<Node>,
    current: Protected<Node>,
    /// `current` has the key.
    is_found: bool,
}

impl Position<'_> {
    /// Returns the link to `current`.
    fn link(&self) -> &Link {
        link(self.list, &self.previous)
    }
}

/// Returns the link behind a node, or the first one.
fn link<'a>(list: &'a List, previous: &'a Protected<Node>) -> &'a Link {
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
                    mem::swap(&mut previous, &mut current);
                } else {
                    let is_found = node.key == key;
                    return Position { list: self, previous, current, is_found };
                }
                // The node in front is not removed, as its link has no tag. So the list led to this node when it was
                // protected already.
                if current.protect(link(self, &previous)) != next.with_tag(0) {
                    continue 'search;
                }
            }
            return Position { list: self, previous, current, is_found: false };
        }
    }

    /// Inserts a key. Returns `false` if the list has it.
    pub(crate) fn insert(&self, key: u64) -> bool {
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

    /// Removes a key. Returns `false` if the list does not have it.
    pub(crate) fn remove(&self, key: u64) -> bool {
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

    /// Calls `f`, which may take any time, with each key that is there all the time, and maybe with others, in
    /// ascending order.
    pub(crate) fn for_each(&self, mut f: impl FnMut(u64)) {
        let Position { mut previous, mut current, .. } = self.find(0);
        while let Some(&Node { key, .. }) = current.get().as_ref() {
            f(key);
            mem::swap(&mut previous, &mut current);
            if current.protect(link(self, &previous)).tag() == REMOVED {
                // Behind a node that is removed, nodes may have been freed: its key says where to continue.
                let Some(next) = key.checked_add(1) else { return };
                Position { previous, current, .. } = self.find(next);
            }
        }
    }
}

/// Changes `link` from `current` to `next`, and retires `current`, which is removed. Returns `false` if the link is
/// another one by now.
fn unlink(link: &Link, current: Shared<'_, Node>, next: Shared<'_, Node>) -> bool {
    let unlinked = link.try_store(current, next);
    // SAFETY: the only link to the node in the list is gone, and the node does not return. Searches follow no link of
    // a node that is removed.
    unlinked.map(|node| unsafe { Global.retire_shared(node, DeferOptions::new()) }).is_ok()
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

#[cfg(not(loom))]
fn main() {
    let list = List::default();
    (0..KEYS).rev().for_each(|key| assert!(list.insert(2 * key)));
    let done = AtomicBool::new(false);
    // A reader that stalls, at a node that is then removed.
    assert!(list.insert(KEYS + 1));
    let stalled = list.find(KEYS + 1);
    assert!(list.remove(KEYS + 1));
    let traversals = thread::scope(|s| {
        let reader = s.spawn(|| {
            let mut traversals = 0;
            while traversals == 0 || !done.load(Relaxed) {
                let (mut last, mut stay) = (None, 0);
                list.for_each(|key| {
                    assert!(last < Some(key), "the keys ascend");
                    last = Some(key);
                    stay += u64::from(key % 2 == 0);
                });
                assert_eq!(stay, KEYS, "no key that stays was missed");
                traversals += 1;
            }
            traversals
        });
        let writers = [0, 1].map(|writer| {
            let list = &list;
            s.spawn(move || {
                for number in 0..CHANGES {
                    let key = 4 * (number * 31 % (KEYS / 2)) + 2 * writer + 1;
                    assert!(list.insert(key) && list.remove(key));
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Relaxed);
        reader.join().unwrap()
    });
    Global.barrier();
    let kept = Global.stats().protected;
    println!(
        "{traversals} traversals beside {} changes; {kept} node waits for the reader that stalls",
        2 * CHANGES
    );
    assert_eq!(kept, 1, "it keeps the removed node where it is, and no other");
    assert_eq!(stalled.current.get().as_ref().map(|node| node.key), Some(KEYS + 1));
    drop(stalled);
    Global.barrier();
    assert_eq!(Global.stats().protected, 0, "all removed nodes have been freed");
}
