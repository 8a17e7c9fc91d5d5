//! A skip list: each level is a list as in `list.rs`, of the nodes that are high enough (T. L. Harris, 2001; K. Fraser,
//! *Practical lock freedom*, 2003).
//!
//! A node is in the set while it is linked and not removed at the lowest level. It counts the links to it, and the thread
//! that inserts it as one more. The thread that takes the last away retires the node: no link leads to it any more, and
//! none will, as links are made by the inserting thread only.

use std::array;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::*};

use stillpoint::Domain as _;
use stillpoint::hazard::HazardPointer;
use stillpoint::rcu::{Atomic, DeferOptions, Shared};

use super::{Own, REMOVED, Set};

const LEVELS: usize = 4;

type Links = [Atomic<Node, Own>; LEVELS];

struct Node {
    key: u64,
    height: usize,
    links_to_it: AtomicUsize,
    next: Links,
}

/// A set of numbers, in ascending order.
#[derive(Default)]
pub struct SkipList {
    head: Links,
}

/// The hazard pointers of a search: of the node in front and the current one, of each level.
type Pointers = [[HazardPointer; 2]; LEVELS];

fn pointers() -> Pointers {
    array::from_fn(|_| HazardPointer::array())
}

/// For each level, the link before the first key that is not less, and what follows it. Valid until the pointers are used
/// again.
struct Position<'a> {
    links: [&'a Atomic<Node, Own>; LEVELS],
    current: [Shared<'a, Node>; LEVELS],
}

impl Position<'_> {
    fn is_found(&self, key: u64) -> bool {
        self.current[0].as_ref().is_some_and(|node| node.key == key)
    }
}

impl SkipList {
    fn find<'a>(&'a self, key: u64, pointers: &'a mut Pointers) -> Position<'a> {
        'search: loop {
            let mut position = Position {
                links: array::from_fn(|level| &self.head[level]),
                current: [Shared::null(); LEVELS],
            };
            // The links of the node in front, which the pointers of a higher level protect.
            let mut front = &self.head;
            for level in (0..LEVELS).rev() {
                let own = &mut pointers[level];
                let mut current = protect(&front[level], &mut own[1]);
                // The node in front was removed at this level.
                if current.tag() == REMOVED {
                    continue 'search;
                }
                while let Some(node) = current.as_ref() {
                    // SAFETY: compared, and protected before it is followed.
                    let next = unsafe { node.next[level].load_unprotected() };
                    if next.tag() == REMOVED {
                        if !unlink(&front[level], current, next.with_tag(0)) {
                            continue 'search;
                        }
                    } else if node.key < key {
                        front = &node.next;
                        own.swap(0, 1);
                    } else {
                        break;
                    }
                    current = protect(&front[level], &mut own[1]);
                    if current != next.with_tag(0) {
                        continue 'search;
                    }
                }
                (position.links[level], position.current[level]) = (&front[level], current);
            }
            return position;
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
        release(current);
    }
    is_unlinked
}

/// Gives up a link to the node, or the insertion. It is protected, or the caller inserts it.
fn release(node: Shared<'_, Node>) {
    let links = &node.as_ref().expect("a node").links_to_it;
    // Release and Acquire: the last one comes after all the others.
    if links.fetch_sub(1, AcqRel) == 1 {
        // SAFETY: no link leads to the node, and none will.
        unsafe { Own.retire_shared(node, DeferOptions::new().run_on_retiring_thread()) };
    }
}

/// Marks the link at a level. Returns `false` if it was marked.
fn mark(link: &Atomic<Node, Own>) -> bool {
    loop {
        // SAFETY: compared and stored only.
        let next = unsafe { link.load_unprotected() };
        if next.tag() == REMOVED {
            return false;
        }
        if link.try_store(next, next.with_tag(REMOVED)).is_ok() {
            return true;
        }
    }
}

impl Set for SkipList {
    fn insert(&self, key: u64) -> bool {
        let mut pointers = pointers();
        let height = 1 + (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40).trailing_ones() as usize % LEVELS;
        let links_to_it = AtomicUsize::new(2);
        let node = Box::new(Node { key, height, links_to_it, next: Links::default() });
        // SAFETY: no other thread has the node, and then it counts this thread until the end.
        let inserted: Shared<'_, Node> = unsafe { Shared::from_ptr(Box::into_raw(node)) };
        let node = inserted.as_ref().expect("not null");
        loop {
            let position = self.find(key, &mut pointers);
            if position.is_found(key) {
                // SAFETY: no link leads to it.
                drop(unsafe { inserted.into_owned() });
                return false;
            }
            let Position { links, current } = position;
            node.next.iter().zip(current).take(height).for_each(|(next, current)| next.store(current));
            if links[0].try_store(current[0], inserted).is_ok() {
                break;
            }
        }
        'levels: for level in 1..height {
            loop {
                let Position { links, current } = self.find(key, &mut pointers);
                // SAFETY: compared and stored only.
                let next = unsafe { node.next[level].load_unprotected() };
                let is_up_to_date = current[level] == next.with_tag(0)
                    || next.tag() != REMOVED && node.next[level].try_store(next, current[level]).is_ok();
                if next.tag() == REMOVED {
                    break 'levels;
                }
                node.links_to_it.fetch_add(1, Relaxed);
                if is_up_to_date && links[level].try_store(current[level], inserted).is_ok() {
                    break;
                }
                node.links_to_it.fetch_sub(1, Relaxed);
            }
        }
        // SAFETY: compared only.
        if unsafe { node.next[0].load_unprotected() }.tag() == REMOVED {
            // It was removed in the meantime, maybe before the last link was made: a search unlinks it.
            self.find(key, &mut pointers);
        }
        release(inserted);
        true
    }

    fn remove(&self, key: u64) -> bool {
        let mut pointers = pointers();
        let position = self.find(key, &mut pointers);
        if !position.is_found(key) {
            return false;
        }
        let node = position.current[0].as_ref().expect("a node");
        for level in (1..node.height).rev() {
            mark(&node.next[level]);
        }
        let is_first = mark(&node.next[0]);
        if is_first {
            self.find(key, &mut pointers);
        }
        is_first
    }

    fn contains(&self, key: u64) -> bool {
        self.find(key, &mut pointers()).is_found(key)
    }
}

impl Drop for SkipList {
    fn drop(&mut self) {
        let [lowest, ..] = mem::take(&mut self.head);
        let mut next = lowest;
        // SAFETY: no other thread has the list, and each node is in its lowest level once.
        while let Some(node) = unsafe { next.take() } {
            [next, ..] = node.into_box().next;
        }
    }
}
