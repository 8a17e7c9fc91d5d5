//! A list with short reads, and with readers that take their time.
//!
//! Short operations run in a read-side critical section, in which following a link is a plain load. A reader that
//! visits the whole list, and does something slow with each key, must not: all that is retired in the meantime would
//! wait for it. It keeps the node where it stands by a hazard pointer, ends the section, and continues from that node
//! in the next one. So memory stays bounded, and no writer is throttled, although some reader is always on its way.
//!
//! The list is that of the example `sorted_list`, after T. L. Harris (2001) and M. M. Michael (2002).
//!
//! ```sh
//! cargo run --release -p stillpoint --example long_traversals # checks each key, and how much waits to be freed
//! ```

use std::cmp::Ordering as Order;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::hazard::{Global, HazardPointer};
use stillpoint::rcu::{Atomic, DeferOptions, Guard, Owned, Shared};

/// Keys that stay; writers insert and remove the odd ones between.
const KEYS: u64 = 2000;
/// Nodes that a long traversal visits in a section.
const STRIDE: usize = 16;
/// Changes of each writer.
const CHANGES: u64 = 200_000;
/// The tag of a link whose node is removed.
const REMOVED: usize = 1;

type Link = Atomic<Node, Global>;
type Section = Guard<Global>;

struct Node {
    key: u64,
    next: Link,
}

/// A set of keys, in ascending order.
#[derive(Default)]
struct List {
    head: Link,
}

impl List {
    /// Returns the link before the first key that is not less than `key`, and that node. Unlinks removed nodes before
    /// it.
    fn find<'g>(&'g self, key: u64, section: &'g Section) -> (&'g Link, Shared<'g, Node>) {
        'search: loop {
            let mut link = &self.head;
            let mut current = link.load(section);
            while let Some(node) = current.as_ref() {
                let next = node.next.load(section);
                if next.tag() == REMOVED {
                    if !unlink(link, current, next.with_tag(0)) {
                        continue 'search;
                    }
                } else if node.key < key {
                    link = &node.next;
                } else {
                    break;
                }
                current = next.with_tag(0);
            }
            return (link, current);
        }
    }

    fn contains(&self, key: u64) -> bool {
        let section = Global::enter();
        let mut current = self.head.load(&section);
        while let Some(node) = current.as_ref() {
            let next = node.next.load(&section);
            match node.key.cmp(&key) {
                Order::Less => current = next,
                Order::Equal => return next.tag() != REMOVED,
                Order::Greater => break,
            }
        }
        false
    }

    fn insert(&self, key: u64) -> bool {
        let mut node = Owned::new(Node { key, next: Atomic::null() });
        loop {
            let section = Global::enter();
            let (link, current) = self.find(key, &section);
            if current.as_ref().is_some_and(|found| found.key == key) {
                return false;
            }
            node.next.store(current);
            match link.try_store(current, node) {
                Ok(_) => return true,
                Err(back) => node = back,
            }
        }
    }

    fn remove(&self, key: u64) -> bool {
        let section = Global::enter();
        loop {
            let (link, current) = self.find(key, &section);
            let Some(node) = current.as_ref().filter(|node| node.key == key) else { return false };
            let next = node.next.fetch_or(REMOVED, &section);
            if next.tag() == REMOVED {
                continue; // Another thread was faster.
            }
            if !unlink(link, current, next) {
                self.find(key, &section);
            }
            return true;
        }
    }

    /// Calls `f`, which may take any time, with each key that is there all the time, and maybe with others. They
    /// ascend.
    fn for_each_slowly(&self, mut f: impl FnMut(u64)) {
        let mut pointer = HazardPointer::new();
        // The last node that was visited, which `pointer` protects.
        let mut last: Shared<'_, Node> = Shared::null();
        let mut keys = Vec::with_capacity(STRIDE);
        loop {
            let section = Global::enter();
            let mut current = match last.as_ref() {
                None => self.head.load(&section),
                // A link without the tag: the node was in the list in this section, and so was the next one. Behind a
                // node that was removed, nodes may have been freed: its key says where to continue.
                Some(node) => match node.next.load(&section) {
                    next if next.tag() != REMOVED => next,
                    _ => self.find(node.key + 1, &section).1,
                },
            };
            let mut visited = current;
            while let Some(node) = current.as_ref().filter(|_| keys.len() < STRIDE) {
                let next = node.next.load(&section);
                if next.tag() != REMOVED {
                    keys.push(node.key);
                }
                (visited, current) = (current, next.with_tag(0));
            }
            // SAFETY: loaded in this section.
            last = unsafe { pointer.keep(visited) };
            drop(section);
            if last.is_null() {
                return;
            }
            keys.drain(..).for_each(&mut f);
        }
    }
}

/// Changes `link` from `current` to `next`, and retires `current`, which is removed. Returns `false` if the link is
/// another one by now.
fn unlink(link: &Link, current: Shared<'_, Node>, next: Shared<'_, Node>) -> bool {
    let unlinked = link.try_store(current, next);
    // SAFETY: the only link to the node in the list is gone, and the node does not return.
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

fn main() {
    let list = List::default();
    (0..KEYS).rev().for_each(|key| assert!(list.insert(2 * key)));
    let stop = AtomicBool::new(false);
    let [traversals, reads, most] = [(); 3].map(|()| AtomicU64::new(0));
    thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Relaxed) || traversals.load(Relaxed) == 0 {
                let (mut last, mut stay) = (None, 0);
                list.for_each_slowly(|key| {
                    assert!(last < Some(key), "the keys ascend");
                    last = Some(key);
                    stay += u64::from(key % 2 == 0);
                    // Something slow, with no section open.
                    thread::yield_now();
                });
                assert_eq!(stay, KEYS, "no key that stays was missed");
                traversals.fetch_add(1, Relaxed);
            }
        });
        s.spawn(|| {
            while !stop.load(Relaxed) {
                assert!(list.contains(2 * (reads.fetch_add(1, Relaxed) * 7919 % KEYS)));
            }
        });
        let writer = s.spawn(|| {
            for number in 0..CHANGES {
                let key = 2 * (number * 31 % (KEYS / 20)) + 1;
                assert!(list.insert(key) && list.remove(key));
                if number % 1000 == 0 {
                    most.fetch_max(Global.stats().queued, Relaxed);
                }
            }
        });
        writer.join().unwrap();
        stop.store(true, Relaxed);
    });
    Global.barrier();
    println!(
        "{} traversals beside {CHANGES} changes and {} short reads; {} nodes waited at most",
        traversals.load(Relaxed),
        reads.load(Relaxed),
        most.load(Relaxed),
    );
    assert_eq!(Global.stats().queued, 0, "all removed nodes have been freed");
}
