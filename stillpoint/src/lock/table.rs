//! The nodes of all queues: a static table of slots, which threads lease.
//!
//! A lock names nodes by number, as a pointer would not fit into its word. The table is zeroed memory that the system gives
//! out page by page, never freed: whoever has read a number in a word may look at that node, whatever has become of it since.
//! Free slots form a stack (Treiber, 1986), linked by `next`, whose head carries a tag against ABA; slots that were never used
//! come after it.
//!
//! # States of a node
//!
//! | state | meaning | who changes it |
//! |---|---|---|
//! | [`IDLE`] | in no queue; free, or somebody's | its owner, by enqueueing it |
//! | [`WAIT`] | waits, not first, awake | its owner to `NPARK`; the promoter to `HEAD` |
//! | [`NPARK`] | waits, not first, asleep | the promoter to `HPARK`, or to `HEAD` and wakes; its owner to `GONE` |
//! | [`HEAD`] | first, awake | its owner |
//! | [`HPARK`] | first, asleep | who kicks, to `HEAD`; its owner |
//! | [`GONE`] | its owner waits no more; still in the queue | its owner, who comes back, to `WAIT`, or ends, to `ORPHAN`; the promoter to `PASSED` |
//! | [`PASSED`] | the same, and is being taken out | the promoter to `IDLE`; its owner, who ends, to `ORPHAN` |
//! | [`ORPHAN`] | its owner has ended; still in the queue | the promoter, who frees it |
//! | [`DEAD`] | its owner did not survive a fork; perhaps still in a queue | a promoter |
//! | [`BURIED`] | a promoter takes it out of the queue | that promoter, who frees it |
//!
//! # Invariants
//!
//! 1. A slot has one owner at most: a thread from `lease` to `give_back`; but while it is `PASSED`, `ORPHAN`, `DEAD` or `BURIED`, the
//!    promoter that takes it out of the queue.
//! 2. `next` of a node in a queue is 0 or the node after it; `prev` is the node before it, if it is not the first.

use crate::sync::{AtomicU32, AtomicU64, Futex32, Ordering::*, Witness, const_unless_loom, mutant, now};

use super::word::SLOT_BITS;

/// Slots; number 0 is none.
pub const SLOTS: usize = if cfg!(loom) { 5 } else { 1 << SLOT_BITS };

pub const IDLE: u32 = 0;
pub const WAIT: u32 = 1;
pub const NPARK: u32 = 2;
pub const HEAD: u32 = 3;
pub const HPARK: u32 = 4;
pub const GONE: u32 = 5;
pub const PASSED: u32 = 6;
pub const ORPHAN: u32 = 7;
pub const DEAD: u32 = 8;
pub const BURIED: u32 = 9;

/// A place in a queue. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct Node {
    pub state: Futex32,
    pub prev: AtomicU32,
    pub next: AtomicU32,
    /// The processor on which its owner went to wait.
    pub cpu: AtomicU32,
    /// When it became the first.
    pub since: AtomicU64,
    /// When the lock, which was free, was first seen to be kept for it; 0 if it was not yet.
    pub kept: AtomicU64,
    /// When it was kicked, where that is counted.
    pub kicked: AtomicU64,
    /// Touched by the owner.
    pub owned: Witness,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Table {
    nodes: [Node; SLOTS],
    /// The stack of free slots: tag in the high half, number of the top in the low half, 0 if empty.
    free: AtomicU64,
    /// The lowest slot that was never used, less 1.
    fresh: AtomicU32,
    /// What a contended release must look after: threads [outside](super::outside), and [`FORKED`].
    pub unusual: AtomicU32,
    /// Raised to wake those outside.
    pub outside: Futex32,
}

/// In [`Table::unusual`]: there are dead nodes.
pub const FORKED: u32 = 1 << 31;

impl Node {
    const_unless_loom! {
        fn new() -> Self {
            Self {
                state: Futex32::new(IDLE),
                prev: AtomicU32::new(0),
                next: AtomicU32::new(0),
                cpu: AtomicU32::new(0),
                since: AtomicU64::new(0),
                kept: AtomicU64::new(0),
                kicked: AtomicU64::new(0),
                owned: Witness::new(),
            }
        }
    }

    /// Its owner is the head from now on.
    pub fn begins_as_head(&self) {
        self.begins_later(0);
    }

    /// Its owner counts as the head from so many nanoseconds in the future on.
    pub fn begins_later(&self, ns: u64) {
        // Relaxed, both: to be off the mark does no harm.
        self.since.store(now().saturating_add(ns), Relaxed);
        self.kept.store(0, Relaxed);
    }
}

impl Table {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            nodes: [const { Node::new() }; SLOTS],
            free: AtomicU64::new(0),
            fresh: AtomicU32::new(0),
            unusual: AtomicU32::new(0),
            outside: Futex32::new(0),
        }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            nodes: std::array::from_fn(|_| Node::new()),
            free: AtomicU64::new(0),
            fresh: AtomicU32::new(0),
            unusual: AtomicU32::new(0),
            outside: Futex32::new(0),
        }
    }

    /// The node of a slot.
    #[inline(always)]
    pub fn node(&self, slot: u32) -> &Node {
        // Numbers come from words and links, which hold 14 bits: the mask spares the comparison.
        &self.nodes[slot as usize % SLOTS]
    }

    /// A slot for the calling thread; `None` if all are in use.
    pub fn lease(&self) -> Option<u32> {
        let slot = self.pop().or_else(|| self.first_used())?;
        self.node(slot).owned.alone();
        Some(slot)
    }

    /// Frees a slot, which is in no queue, and which nobody owns but the caller.
    pub fn give_back(&self, slot: u32) {
        let node = self.node(slot);
        node.owned.alone();
        // Relaxed: ordered by the push.
        node.state.store(IDLE, Relaxed);
        self.push(slot);
    }

    /// Gives up a slot that may still be in a queue.
    pub fn orphan(&self, slot: u32) {
        // Acquire: partner is the Release in `pass_over`. What its owner did with the slot comes before the Release in `give_up`, on
        // the same word.
        if self.node(slot).state.swap(ORPHAN, Acquire) == IDLE && !mutant("orphan-leaked") {
            self.give_back(slot);
        }
    }

    fn first_used(&self) -> Option<u32> {
        // The load keeps the counter from running away. Relaxed: nobody has used the slot before.
        let left = (self.fresh.load(Relaxed) as usize) < SLOTS - 1;
        let slot = left.then(|| self.fresh.fetch_add(1, Relaxed) + 1)?;
        ((slot as usize) < SLOTS).then_some(slot)
    }

    fn pop(&self) -> Option<u32> {
        // Acquire, here and below: what the last owner did with the slot, its `next` too, comes before what the next one
        // does; partner: the Release in `push`.
        let mut top = self.free.load(Acquire);
        loop {
            let slot = top as u32;
            if slot == 0 {
                return None;
            }
            // Relaxed: if the slot is not free any more, the tag has changed.
            let below = self.node(slot).next.load(Relaxed);
            match self.free.compare_exchange(top, retag(top, below), Acquire, Acquire) {
                Ok(_) => return Some(slot),
                Err(now) => top = now,
            }
        }
    }

    fn push(&self, slot: u32) {
        let mut top = self.free.load(Relaxed);
        loop {
            self.node(slot).next.store(top as u32, Relaxed);
            // Release: partner is the Acquire in `pop`.
            match self.free.compare_exchange(top, retag(top, slot), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// All slots but those `used` are dead if they may be in a queue, and free otherwise; unless that is not clear (`frees`), and those stay what
    /// they are. Who sleeps looks again. The only thread is outside `outside` times, in handlers upon handlers.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self, used: [u32; 3], frees: bool, outside: u32) {
        // The only thread: no order matters.
        if frees {
            self.free.store(0, Relaxed);
        }
        let mut unusual = outside;
        let last = self.fresh.load(Relaxed).min(SLOTS as u32 - 1);
        for slot in 1..=last {
            let state = &self.node(slot).state;
            let is_used = used.contains(&slot);
            match state.load(Relaxed) {
                IDLE if frees && !is_used => self.push(slot),
                IDLE => {}
                old => {
                    unusual |= FORKED;
                    // Who was about to wake it did not survive.
                    let awake = match old {
                        NPARK => WAIT,
                        HPARK => HEAD,
                        other => other,
                    };
                    state.store(if is_used { awake } else { DEAD }, Relaxed);
                }
            }
        }
        self.outside.fetch_add(1, Relaxed);
        self.unusual.store(unusual, Relaxed);
    }
}

/// The stack's head with another top.
fn retag(old: u64, top: u32) -> u64 {
    let tag = if mutant("slot-tag-kept") { old >> 32 } else { (old >> 32) + 1 };
    tag << 32 | u64::from(top)
}

#[cfg(not(loom))]
static TABLE: Table = Table::new();

#[cfg(loom)]
loom::lazy_static! {
    static ref TABLE: Table = Table::new();
}

/// The table of this process.
#[inline(always)]
pub fn table() -> &'static Table {
    &TABLE
}
