//! The nodes of all wait queues: a static table, from which threads allocate.
//!
//! A lock names nodes by number, because a pointer does not fit into its word. The table is zeroed memory that the
//! system provides page by page and that is never freed: a thread that has read a number in a word may access that
//! node at any later time. Free nodes form a [stack](FreeStack), linked by `next`. Nodes that were never used follow
//! it.
//!
//! # States of a node
//!
//! | state | meaning | changed by, to |
//! |---|---|---|
//! | [`IDLE`] | in no queue; free, or owned by a thread | the owner, by enqueuing it |
//! | [`WAITING`] | waits behind the head, awake | the owner to `WAITING_PARKED`; the promoter to `HEAD` |
//! | [`WAITING_PARKED`] | waits behind the head, parked | the promoter to `HEAD`, with a wake-up; the owner to `ABANDONED` |
//! | [`HEAD`] | the head, awake | the owner |
//! | [`HEAD_PARKED`] | the head, parked | the unlocker to `HEAD`, with a wake-up; the owner |
//! | [`ABANDONED`] | in a queue without a waiter | the owner, which comes back, to `WAITING`, or exits, to `ABANDONED_EXITED`; the promoter to `UNLINKING` |
//! | [`UNLINKING`] | the same, and being unlinked | the promoter to `IDLE`; the owner, which exits, to `ABANDONED_EXITED` |
//! | [`ABANDONED_EXITED`] | in a queue; the owner has exited | the promoter, which frees it |
//! | [`NOTIFIED`] | was `WAITING` or `WAITING_PARKED` in the list of a condition variable, and is notified | the owner to `IDLE` |
//! | [`DEAD`] | was in use at a fork, and belongs to a thread of the parent | nothing: it is never reused |
//!
//! # Invariants
//!
//! 1. A node has at most one owner: a thread from `alloc` to `free`, except in the states `UNLINKING` and
//!    `ABANDONED_EXITED`, in which the promoter that unlinks it owns it.
//! 2. `next` of a node in a queue is 0 or the node after it. `prev` is the node before it, unless it is the head.
//! 3. If the head of a queue is `DEAD`, all its nodes are: every queue that the child of a fork inherits has no
//!    waiters, and no thread joins it.

use crate::sync::{
    AtomicU32, AtomicU64, FreeStack, Futex32, LoomAccess, Ordering::*, const_unless_loom, now, step,
};

/// Bits of a node's number.
pub const NODE_BITS: u32 = 14;

/// Nodes in the table. Number 0 stands for none.
pub const CAPACITY: usize = if cfg!(loom) { 5 } else { 1 << NODE_BITS };

pub const IDLE: u32 = 0;
pub const WAITING: u32 = 1;
pub const WAITING_PARKED: u32 = 2;
pub const HEAD: u32 = 3;
pub const HEAD_PARKED: u32 = 4;
pub const ABANDONED: u32 = 5;
pub const UNLINKING: u32 = 6;
pub const ABANDONED_EXITED: u32 = 7;
pub const DEAD: u32 = 8;
pub const NOTIFIED: u32 = 9;

/// With so many nodes of threads that have exited in queues, timed waits take no nodes.
pub const MANY_EXITED: u32 = (CAPACITY / 4) as u32;

/// An element of a wait queue.
#[derive(Debug)]
#[repr(align(64))]
pub struct Node {
    pub state: Futex32,
    pub prev: AtomicU32,
    pub next: AtomicU32,
    /// The time at which it became the head.
    pub head_since: AtomicU64,
    /// The time at which the lock was first seen free and reserved for it; 0 if it was not yet.
    pub reserved_since: AtomicU64,
    /// Accessed by the owner.
    pub owned: LoomAccess,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Node>() == 64, "a node takes a cache line");

/// See the [module](self).
#[derive(Debug)]
pub struct NodeTable {
    nodes: [Node; CAPACITY],
    free_nodes: FreeStack,
    /// The lowest node that was never used, less 1.
    never_used: AtomicU32,
    /// Not 0 if there are dead nodes.
    pub has_dead: AtomicU32,
    /// Nodes that are `ABANDONED_EXITED`, or about to be. An estimate, so no part of the models.
    pub exited: core::sync::atomic::AtomicU32,
    /// Threads that sleep [without a node](super::mutex::polling).
    pub pollers: AtomicU32,
    /// Forks that have led to this process.
    forks: AtomicU32,
}

impl Node {
    const_unless_loom! {
        fn new() -> Self {
            Self {
                state: Futex32::new(IDLE),
                prev: AtomicU32::new(0),
                next: AtomicU32::new(0),
                head_since: AtomicU64::new(0),
                reserved_since: AtomicU64::new(0),
                owned: LoomAccess::new(),
            }
        }
    }

    /// Makes the owner of the node, which is parked in `state`, the awake head, and wakes it. Returns `false` if the
    /// state is another one.
    pub fn wake_as_head(&self, state: u32) -> bool {
        // Relaxed: as in `Raw::kick` and `WaitQueue::promote_next`.
        let wakes = self.state.compare_exchange(state, HEAD, Relaxed, Relaxed).is_ok();
        if wakes {
            self.state.wake(1);
        }
        wakes
    }

    /// Starts the head's quantum in `delay` nanoseconds.
    pub fn start_quantum(&self, delay: u64) {
        // Relaxed, both: approximate times are enough.
        self.head_since.store(now().saturating_add(delay), Relaxed);
        step!("quantum-keeps-reservation-time", self.reserved_since.store(0, Relaxed));
    }

    /// Returns the nanoseconds since the start of the head's quantum.
    pub fn waited_as_head(&self) -> u64 {
        // Relaxed: an approximate time is enough.
        now().saturating_sub(self.head_since.load(Relaxed))
    }
}

impl NodeTable {
    const_unless_loom! {
        fn new(nodes: [Node; CAPACITY]) -> Self {
            Self {
                nodes,
                free_nodes: FreeStack::new(),
                never_used: AtomicU32::new(0),
                has_dead: AtomicU32::new(0),
                exited: core::sync::atomic::AtomicU32::new(0),
                pollers: AtomicU32::new(0),
                forks: AtomicU32::new(0),
            }
        }
    }

    /// Returns the node with a number.
    #[inline(always)]
    pub fn node(&self, id: u32) -> &Node {
        // Numbers come from words and links, which hold 14 bits: the mask avoids the bounds check.
        &self.nodes[id as usize % CAPACITY]
    }

    /// Returns a number that is another one in the child of a fork.
    pub fn generation(&self) -> u64 {
        // Relaxed: it changes while there is one thread.
        self.forks.load(Relaxed).into()
    }

    /// Allocates a node for the calling thread. Returns `None` if all are in use.
    pub fn alloc(&self) -> Option<u32> {
        let id = self.free_nodes.pop(|id| &self.node(id).next).or_else(|| self.first_never_used())?;
        self.node(id).owned.exclusive();
        Some(id)
    }

    /// Frees a node that the caller owns and that is in no queue.
    pub fn free(&self, id: u32) {
        let node = self.node(id);
        node.owned.exclusive();
        // Relaxed: published by the Release below.
        node.state.store(IDLE, Relaxed);
        self.free_nodes.push(id, &node.next);
    }

    /// Gives up a node that may still be in a queue, when its owner exits.
    pub fn free_at_exit(&self, id: u32) {
        // Relaxed: a count, which publishes nothing. The promoter subtracts after it has read the state below.
        self.exited.fetch_add(1, Relaxed);
        // Acquire: the promoter is done with the node; pairs with the Release in `unlink_abandoned_head`. What the
        // owner did with the node is published by the Release in `abandon`, on the same word.
        let was = self.node(id).state.swap(ABANDONED_EXITED, Acquire);
        if was == IDLE {
            step!("exited-node-leaked", self.free_exited(id));
        }
    }

    /// Frees a node of a thread that has exited, which is in no queue.
    pub fn free_exited(&self, id: u32) {
        // Relaxed: as in `free_at_exit`.
        step!("freed-node-counts-as-exited", self.exited.fetch_sub(1, Relaxed));
        self.free(id);
    }

    /// Returns `true` if so many threads have exited and left nodes in queues that others leave none there.
    pub fn has_many_exited(&self) -> bool {
        // Relaxed: an estimate is enough.
        self.exited.load(Relaxed) >= MANY_EXITED
    }

    fn first_never_used(&self) -> Option<u32> {
        // Relaxed, both: no thread has used the node before. The load prevents an overflow of the counter.
        let left = (self.never_used.load(Relaxed) as usize) < CAPACITY - 1;
        let id = left.then(|| self.never_used.fetch_add(1, Relaxed) + 1)?;
        ((id as usize) < CAPACITY).then_some(id)
    }

    /// Resets the table in the child of a fork. Its only thread has no node. Nodes that may be in a queue are dead,
    /// all others are free.
    ///
    /// A queue names no node that is `IDLE`: a node gets another state before it is enqueued, and becomes `IDLE`
    /// after it was unlinked. The child has a prefix of each thread's writes, since `fork` stops writes to the pages
    /// that it copies.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        // Relaxed, all: the only thread.
        self.free_nodes.clear();
        let last = self.never_used.load(Relaxed).min(CAPACITY as u32 - 1);
        for id in 1..=last {
            let state = &self.node(id).state;
            if state.load(Relaxed) == IDLE {
                self.free(id);
            } else {
                state.store(DEAD, Relaxed);
                step!("dead-nodes-not-flagged", self.has_dead.store(1, Relaxed));
            }
        }
        step!("child-counts-exited-nodes", self.exited.store(0, Relaxed));
        step!("child-keeps-pollers", self.pollers.store(0, Relaxed));
        step!("child-keeps-generation", self.forks.fetch_add(1, Relaxed));
    }
}

#[cfg(not(loom))]
static TABLE: NodeTable = NodeTable::new([const { Node::new() }; CAPACITY]);

#[cfg(loom)]
loom::lazy_static! {
    static ref TABLE: NodeTable = NodeTable::new(std::array::from_fn(|_| Node::new()));
}

/// Returns the table of this process.
#[inline(always)]
pub fn table() -> &'static NodeTable {
    &TABLE
}

/// Excludes the other unit tests that take all nodes, or that give some back.
#[cfg(all(test, not(loom)))]
pub fn exclude_other_tests() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// All free nodes, until dropped. Until then, a thread without a node polls.
#[cfg(any(test, feature = "_lab"))]
#[derive(Debug)]
pub struct AllNodes(pub Vec<u32>);

#[cfg(any(test, feature = "_lab"))]
impl AllNodes {
    /// Allocates them.
    pub fn alloc() -> Self {
        Self(std::iter::from_fn(|| table().alloc()).collect())
    }
}

#[cfg(any(test, feature = "_lab"))]
impl Drop for AllNodes {
    fn drop(&mut self) {
        self.0.iter().for_each(|&id| table().free(id));
    }
}
