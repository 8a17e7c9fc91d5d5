//! A set of keys as a sorted list that threads change without a lock.
//!
//! `rcu::Atomic` links the nodes. A thread removes a node in two steps: it marks the node's own link, by the tag, so
//! that no node is inserted behind it, and then unlinks the node. Threads that meet a marked node unlink it too. The
//! thread that has unlinked a node retires it, and the library frees it when no section uses it any more.
//!
//! The algorithm is that of T. L. Harris, *A pragmatic implementation of non-blocking linked-lists* (2001), in the
//! form of M. M. Michael, *High performance dynamic lock-free hash tables and list-based sets* (2002).
//!
//! ```sh
//! cargo run --release -p stillpoint --example sorted_list # checks each key and each node
//! ```

use std::array;
use std::cmp::Ordering as Order;
use std::mem;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::rcu::{self, Atomic, DeferOptions, Guard, Owned, Shared};

const THREADS: u64 = 4;
/// Operations of each thread.
const OPERATIONS: u64 = 20_000;
const KEYS: u64 = 64;

/// The tag of a link whose node is removed.
const REMOVED: usize = 1;

type Link<K> = Atomic<Node<K>>;

struct Node<K> {
    key: K,
    next: Link<K>,
}

/// A set of keys, in ascending order.
pub(crate) struct SortedList<K> {
    head: Link<K>,
}

/// A place in a list: before `current`, which is null at the end.
struct Position<'g, K> {
    link: &'g Link<K>,
    current: Shared<'g, Node<K>>,
    /// `current` has the key.
    is_found: bool,
}

impl<K: Ord + Send + Sync + 'static> SortedList<K> {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self { head: Atomic::null() }
    }

    /// Inserts a key. Returns `false` if the list has it.
    pub(crate) fn insert(&self, key: K) -> bool {
        let guard = rcu::enter();
        let mut node = Owned::new(Node { key, next: Atomic::null() });
        loop {
            let Position { link, current, is_found } = self.find(&node.key, &guard);
            if is_found {
                return false;
            }
            node.next.store(current);
            match link.compare_exchange(current, node, &guard) {
                Ok(_) => return true,
                Err(error) => node = error.new,
            }
        }
    }

    /// Removes a key. Returns `false` if the list does not have it.
    pub(crate) fn remove(&self, key: &K) -> bool {
        let guard = rcu::enter();
        loop {
            let Position { link, current, is_found } = self.find(key, &guard);
            let Some(node) = current.as_ref().filter(|_| is_found) else { return false };
            let next = node.next.fetch_or(REMOVED, &guard);
            if next.tag() == REMOVED {
                continue; // Another thread was faster.
            }
            if !unlink(link, current, next, &guard) {
                // The node in front has changed. A search unlinks what is removed.
                self.find(key, &guard);
            }
            return true;
        }
    }

    /// Returns `true` if the list has the key. Changes nothing, and never starts over.
    pub(crate) fn contains(&self, key: &K) -> bool {
        let guard = rcu::enter();
        let mut current = self.head.load(&guard);
        while let Some(node) = current.as_ref() {
            let next = node.next.load(&guard);
            match node.key.cmp(key) {
                Order::Less => current = next,
                Order::Equal => return next.tag() != REMOVED,
                Order::Greater => break,
            }
        }
        false
    }

    /// Calls `f` with each key, in ascending order.
    fn for_each(&self, mut f: impl FnMut(&K)) {
        let guard = rcu::enter();
        let mut current = self.head.load(&guard);
        while let Some(node) = current.as_ref() {
            current = node.next.load(&guard);
            if current.tag() != REMOVED {
                f(&node.key);
            }
        }
    }

    /// Returns the first position whose key is not less than `key`. Unlinks the removed nodes before it.
    fn find<'g>(&'g self, key: &K, guard: &'g Guard) -> Position<'g, K> {
        'search: loop {
            let mut link = &self.head;
            let mut current = link.load(guard);
            while let Some(node) = current.as_ref() {
                let next = node.next.load(guard);
                if next.tag() == REMOVED {
                    if !unlink(link, current, next.with_tag(0), guard) {
                        continue 'search;
                    }
                } else {
                    match node.key.cmp(key) {
                        Order::Less => link = &node.next,
                        order => return Position { link, current, is_found: order.is_eq() },
                    }
                }
                current = next.with_tag(0);
            }
            return Position { link, current, is_found: false };
        }
    }
}

/// Changes `link` from `current` to `next`, and retires `current`, which is removed. Returns `false` if the link is
/// another one by now, or belongs to a node that is removed too.
fn unlink<K: Send + Sync + 'static>(
    link: &Link<K>,
    current: Shared<'_, Node<K>>,
    next: Shared<'_, Node<K>>,
    guard: &Guard,
) -> bool {
    let is_unlinked = link.compare_exchange(current, next, guard).is_ok();
    if is_unlinked {
        // SAFETY: the only link to the node in the list is gone. Threads insert only nodes of their own, and unlink
        // in favour of a successor that is linked, so the node does not return.
        unsafe { rcu::Global.retire_shared(current, DeferOptions::new().run_on_retiring_thread()) };
    }
    is_unlinked
}

impl<K> Drop for SortedList<K> {
    fn drop(&mut self) {
        let mut next = mem::take(&mut self.head);
        // SAFETY: no other thread has the list, and each node is in it once.
        while let Some(node) = unsafe { next.take() } {
            next = node.into_box().next;
        }
    }
}

/// Keys that exist, in the list or elsewhere.
static EXISTING: AtomicI64 = AtomicI64::new(0);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key(u64);

impl Key {
    fn new(number: u64) -> Self {
        EXISTING.fetch_add(1, Relaxed);
        Self(number)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        EXISTING.fetch_sub(1, Relaxed);
    }
}

#[cfg(not(loom))]
fn main() {
    let list = SortedList::new();
    // How often each key was inserted and not removed.
    let counts: [AtomicI64; KEYS as usize] = array::from_fn(|_| AtomicI64::new(0));
    let found = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (list, counts, found) = (&list, &counts, &found);
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..OPERATIONS {
                    // G. Marsaglia, *Xorshift RNGs* (2003).
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let number = random / 8 % KEYS;
                    match random % 8 {
                        0 | 1 => {
                            if list.insert(Key::new(number)) {
                                counts[number as usize].fetch_add(1, Relaxed);
                            }
                        }
                        2 | 3 => {
                            if list.remove(&Key::new(number)) {
                                counts[number as usize].fetch_sub(1, Relaxed);
                            }
                        }
                        4 => {
                            let mut last = None;
                            list.for_each(|key| {
                                assert!(last < Some(key.0), "the keys ascend");
                                last = Some(key.0);
                            });
                        }
                        _ => _ = found.fetch_add(u64::from(list.contains(&Key::new(number))), Relaxed),
                    }
                }
            });
        }
    });

    let mut keys = 0;
    for (number, count) in (0..).zip(&counts) {
        assert_eq!(i64::from(list.contains(&Key::new(number))), count.load(Relaxed), "key {number}");
        keys += count.load(Relaxed);
    }
    println!("{THREADS} threads found {} keys, and left {keys} in the list", found.load(Relaxed));
    rcu::barrier();
    assert_eq!(EXISTING.load(Relaxed), keys, "removed keys have been dropped");
    drop(list);
    assert_eq!(EXISTING.load(Relaxed), 0, "all keys have been dropped");
}
