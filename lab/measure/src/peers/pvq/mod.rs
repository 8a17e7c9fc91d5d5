//! The lock of the posts that ours descends from: Linux's queued spinlock for virtual machines with more virtual CPUs
//! than the host has CPUs, in user space, patch by patch.
//!
//! The sources are `kernel/locking/qspinlock.c` and `qspinlock_paravirt.h` of Linux 4.2 (Zijlstra and Long), and
//! Waiman Long's series "locking/qspinlock: Enhance pvqspinlock performance" (2015). A thread stands for a virtual
//! CPU. A virtual CPU that halts is a thread that parks on a futex, and a kick is `FUTEX_WAKE`. This is an
//! implementation of what the posts describe, not a translation of their code.
//!
//! A waiter sets the pending bit, or appends a node to an MCS queue. The head of the queue spins for the lock word,
//! the others for their nodes. After [`SPIN_THRESHOLD`](Patches::SPIN_THRESHOLD) iterations a waiter halts. Before
//! the head halts, it stores its node in a [hash table](hash) under the lock's address, and sets `SLOW` in the word.
//! The unlocker that finds `SLOW` removes the entry, releases the lock and kicks the head.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 16.. | tail | number of the last node in the queue; 0 if the queue is empty |
//! | 2 | `PENDING` | a waiter without a node gets the lock before the queue |
//! | 1 | `SLOW` | the hash table has the head, or had it and the unlocker is about to release the lock |
//! | 0 | `LOCKED` | the lock is held; the kernel's locked byte has the value 1, and 3 with `SLOW` |
//!
//! # Differences from the posts
//!
//! - The word changes by read-modify-writes of all 32 bits. So an unlocker subtracts `LOCKED`, and `SLOW` alone keeps
//!   the lock held until the entry is out of the table.
//! - A new holder whose successor has not linked itself yet yields the CPU after some iterations. A hypervisor takes
//!   the CPU from a guest that spins, with pause-loop exits.
//! - Two forms are here. `pvq` is the series whose adaptive spinning is that of the merged patch, which depends on
//!   the state of the previous node (`pvq-merged`: without kick-ahead, as Linux has it). `pvq-v2` is the series as it
//!   was posted: its spinning depends on a history of waits, a kick is deferred only if there is no kick-ahead or the
//!   node after the next one has halted, and the levels of kick-ahead follow the number of virtual CPUs.
//!
//! # Orderings
//!
//! - An unlock releases, and the read-modify-write that takes the lock acquires. The word changes by
//!   read-modify-writes only, so release sequences do not end.
//! - `HALTED` and `locked`: a waiter stores the state, then loads the flag; the promoter stores the flag, then reads
//!   the state. Each has a SeqCst fence in between, so one of them sees the other's store.

mod hash;
mod node;
pub mod stat;
use std::hint::spin_loop;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};
use std::thread::yield_now;

use super::{Around, RawLock};
use node::{HALTED, HASHED, HASHED_SPINNING, Node, RUNNING};
use stat::Stat;

const LOCKED: u32 = 1;
const SLOW: u32 = 2;
const PENDING: u32 = 4;
const TAIL_SHIFT: u32 = 16;

const HELD: u32 = LOCKED | SLOW;

/// Most nodes behind the head that a release kicks.
const MAX_KICK_AHEAD: usize = 4;

/// Iterations between two looks at the previous node.
const PREV_CHECK: u32 = 256;

/// The patches that a lock has. The defaults are those of the whole series.
pub trait Patches: Send + Sync + 'static {
    /// Name in the report.
    const NAME: &'static str;
    /// A waiter sets the pending bit of a lock without waiters, instead of queueing.
    const PENDING_BIT: bool = true;
    /// A release kicks halted nodes behind the head.
    const KICK_AHEAD: bool = true;
    /// A halted node that becomes the head is kicked by the release of the lock, not when the lock is taken.
    const DEFERRED_KICK: bool = true;
    /// A node halts early if the previous one has halted.
    const ADAPTIVE_SPINNING: bool = true;
    /// As it was posted: see the [module](self).
    const AS_POSTED: bool = false;

    /// Iterations of a waiter before it halts.
    const SPIN_THRESHOLD: u32 = 1 << 15;
    /// Events are counted.
    const COUNTS: bool = false;

    /// Returns how many halted nodes behind the head a release kicks: 0 to 4.
    fn kick_ahead() -> usize {
        match node::threads() {
            _ if !Self::KICK_AHEAD => 0,
            _ if !Self::AS_POSTED => MAX_KICK_AHEAD,
            threads => (threads.max(2).ilog2() as usize - 1).min(MAX_KICK_AHEAD),
        }
    }

    /// Counts an event.
    fn count(stat: Stat) {
        if Self::COUNTS {
            stat::add(stat, 1);
        }
    }
}

/// Defines [`Patches`]: the name, and what differs from the whole series.
macro_rules! patches {
    ($($(#[$doc:meta])* $type:ident $name:literal { $($item:item)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $type;
            impl Patches for $type {
                const NAME: &'static str = $name;
                $($item)*
            }
        )*
    };
}

patches! {
    /// The lock before the second patch of the series.
    UnconditionalKick "pvq+unconditional-kick" {
        const PENDING_BIT: bool = false;
        const KICK_AHEAD: bool = false;
        const DEFERRED_KICK: bool = false;
        const ADAPTIVE_SPINNING: bool = false;
    }
    /// With the first two. The posted row "before" has these.
    PendingBit "pvq+pending-bit" {
        const KICK_AHEAD: bool = false;
        const DEFERRED_KICK: bool = false;
        const ADAPTIVE_SPINNING: bool = false;
    }
    /// And kick-ahead.
    KickAhead "pvq+kick-ahead" {
        const DEFERRED_KICK: bool = false;
        const ADAPTIVE_SPINNING: bool = false;
    }
    /// And deferred kicks.
    DeferredKick "pvq+deferred-kick" {
        const ADAPTIVE_SPINNING: bool = false;
    }
    /// The whole series, with the adaptive spinning that was merged.
    Series "pvq" {}
    /// The same without kick-ahead.
    Merged "pvq-merged" { const KICK_AHEAD: bool = false; }
    /// The whole series as it was posted.
    Posted "pvq-v2" { const AS_POSTED: bool = true; }
}

/// The same patches, with events counted.
#[derive(Debug)]
pub struct Counted<P>(PhantomData<P>);

impl<P: Patches> Patches for Counted<P> {
    const NAME: &'static str = P::NAME;
    const PENDING_BIT: bool = P::PENDING_BIT;
    const KICK_AHEAD: bool = P::KICK_AHEAD;
    const DEFERRED_KICK: bool = P::DEFERRED_KICK;
    const ADAPTIVE_SPINNING: bool = P::ADAPTIVE_SPINNING;
    const AS_POSTED: bool = P::AS_POSTED;
    const SPIN_THRESHOLD: u32 = P::SPIN_THRESHOLD;
    const COUNTS: bool = true;
}

/// The lock word.
#[derive(Debug)]
pub struct Raw<P> {
    word: AtomicU32,
    patches: PhantomData<P>,
}

impl<P: Patches> RawLock for Raw<P> {
    const NAME: &'static str = P::NAME;

    fn new() -> Self {
        Self { word: AtomicU32::new(0), patches: PhantomData }
    }

    #[inline]
    fn lock(&self) {
        // Acquire, wherever a thread takes the lock: pairs with the Release in `unlock` and `unlock_slow`.
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            self.lock_slow();
        }
    }

    #[inline]
    unsafe fn unlock(&self) {
        // Release: publishes the critical section; pairs with the Acquire of the next holder.
        if self.word.fetch_sub(LOCKED, Release) & SLOW != 0 {
            self.unlock_slow();
        }
    }
}

impl<P: Patches> Raw<P> {
    #[cold]
    fn lock_slow(&self) {
        if !(P::PENDING_BIT && self.lock_pending()) {
            node::with_own(|id| self.lock_queued(id));
        }
    }

    /// Takes the lock without a node if there is no other waiter. Returns `false` if there is, or if it takes long.
    fn lock_pending(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & !HELD == 0 {
            let (new, order) = if word == 0 { (LOCKED, Acquire) } else { (word | PENDING, Relaxed) };
            match self.word.compare_exchange(word, new, order, Relaxed) {
                Ok(0) => return true,
                Ok(_) => return self.wait_pending(),
                Err(now) => word = now,
            }
        }
        false
    }

    /// Waits for the lock with the pending bit set. Returns `false` if it takes long.
    fn wait_pending(&self) -> bool {
        for _ in 0..(P::SPIN_THRESHOLD / 32).max(1) {
            if self.word.load(Relaxed) & HELD == 0 {
                // No other thread may take it. Acquire: as in `lock`.
                self.word.fetch_sub(PENDING - LOCKED, Acquire);
                P::count(Stat::PendingLock);
                return true;
            }
            spin_loop();
        }
        self.word.fetch_and(!PENDING, Relaxed);
        P::count(Stat::PendingFail);
        false
    }

    /// Takes the lock in the queue, with the node `id` of the calling thread.
    fn lock_queued(&self, id: u32) {
        let node = node::get(id);
        node.reset();
        let mut word = self.word.load(Relaxed);
        loop {
            let new = if word == 0 { LOCKED } else { word & ((1 << TAIL_SHIFT) - 1) | id << TAIL_SHIFT };
            // Acquire: the previous node has been reset, or as in `lock`. Release: publishes the node. Each pairs
            // with the other in the next call.
            match self.word.compare_exchange(word, new, AcqRel, Relaxed) {
                Ok(0) => return,
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let previous = word >> TAIL_SHIFT;
        if previous != 0 {
            let previous = node::get(previous);
            // Release: publishes the node; pairs with the Acquire in `next_of` and `collect_ahead`.
            previous.next.store(id, Release);
            Self::wait_node(node, previous);
        }
        self.wait_head(id, node);
        self.take_as_head(id, node);
    }

    /// Waits until the node is the head. The kernel's `pv_wait_node`.
    fn wait_node(node: &Node, previous: &Node) {
        loop {
            let is_adaptive = P::ADAPTIVE_SPINNING && !P::AS_POSTED;
            let mut left = if P::AS_POSTED { node.patience(P::SPIN_THRESHOLD) } else { P::SPIN_THRESHOLD };
            while left > 0 {
                // Acquire: what the previous head did; pairs with the Release in `promote`.
                if node.locked.load(Acquire) != 0 {
                    node.remember(true);
                    return;
                }
                // Relaxed: a hint. The node may be in another queue by now.
                let looks = is_adaptive && left.is_multiple_of(PREV_CHECK);
                if looks && previous.state.load(Relaxed) != RUNNING {
                    P::count(Stat::WaitEarly);
                    break;
                }
                left -= 1;
                spin_loop();
            }
            // Relaxed, both: ordered by the fence; see the module.
            node.state.store(HALTED, Relaxed);
            fence(SeqCst);
            if node.locked.load(Relaxed) == 0 {
                node.remember(false);
                P::count(Stat::WaitNode);
                node.halt(HALTED);
                Self::count_wake_up(node, || node.locked.load(Relaxed) == 0);
            }
            // If it fails, the node was kicked, or its promoter has put it into the hash table.
            let _ = node.state.compare_exchange(HALTED, RUNNING, Relaxed, Relaxed);
        }
    }

    /// Waits until the head can take the lock. The kernel's `pv_wait_head`.
    fn wait_head(&self, id: u32, node: &Node) {
        loop {
            for _ in 0..P::SPIN_THRESHOLD {
                if self.word.load(Relaxed) & (HELD | PENDING) == 0 {
                    return;
                }
                spin_loop();
            }
            // Relaxed, here and below: the state is read by the unlocker after an Acquire of `SLOW`.
            match node.state.load(Relaxed) {
                RUNNING if !self.hash_head(id, node) => continue,
                // Only fails if the unlocker has made it `RUNNING`.
                HASHED_SPINNING
                    if node.state.compare_exchange(HASHED_SPINNING, HASHED, Relaxed, Relaxed).is_err() =>
                {
                    continue;
                }
                _ => {}
            }
            P::count(Stat::WaitHead);
            node.halt(HASHED);
            Self::count_wake_up(node, || self.word.load(Relaxed) & HELD != 0);
            // If it fails, the unlocker has removed the entry.
            let _ = node.state.compare_exchange(HASHED, HASHED_SPINNING, Relaxed, Relaxed);
        }
    }

    /// Puts the head into the hash table, for the unlocker. Returns `false` if the lock is about to be released, or
    /// is free.
    fn hash_head(&self, id: u32, node: &Node) -> bool {
        node.state.store(HASHED, Relaxed);
        let entry = hash::insert::<P>(self.address(), id);
        let mut word = self.word.load(Relaxed);
        while word & HELD == LOCKED {
            // Release: publishes the entry and the state; pairs with the Acquire in `unlock_slow`.
            match self.word.compare_exchange(word, word | SLOW, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        entry.clear();
        node.state.store(RUNNING, Relaxed);
        false
    }

    /// Takes the free lock, for the head, and promotes the next node.
    fn take_as_head(&self, id: u32, node: &Node) {
        // Acquire, both: as in `lock`. If the tail is another node, no thread but the head may change `LOCKED`.
        if self.word.compare_exchange(id << TAIL_SHIFT, LOCKED, Acquire, Relaxed).is_err() {
            self.word.fetch_or(LOCKED, Acquire);
            self.promote(Self::next_of(node));
        }
    }

    /// Returns the node behind the head, which is about to link itself.
    fn next_of(node: &Node) -> u32 {
        let mut tries = 0_u32;
        loop {
            // Acquire: pairs with the Release in `lock_queued`.
            match node.next.load(Acquire) {
                0 if tries < 1024 => spin_loop(),
                0 => yield_now(),
                next => return next,
            }
            tries += 1;
        }
    }

    /// Makes `next` the head. The caller holds the lock. The kernel's `pv_kick_node`.
    fn promote(&self, next: u32) {
        let node = node::get(next);
        // Release: pairs with the Acquire in `wait_node`.
        node.locked.store(1, Release);
        fence(SeqCst);
        // Relaxed: a hint.
        let halted = |id: u32| id != 0 && node::get(id).state.load(Relaxed) == HALTED;
        let defers = !P::AS_POSTED || P::kick_ahead() == 0 || halted(node.next.load(Relaxed));
        let defers = P::DEFERRED_KICK && defers;
        // Relaxed: ordered by the fence; see the module. The caller is the unlocker that reads the entry.
        let new = if defers { HASHED } else { RUNNING };
        if node.state.compare_exchange(HALTED, new, Relaxed, Relaxed).is_err() {
            return;
        }
        if defers {
            hash::insert::<P>(self.address(), next);
            self.word.fetch_or(SLOW, Relaxed);
        } else {
            Self::kick(node, Stat::LockKick);
        }
    }

    /// Releases the lock, whose word has [`SLOW`] and not [`LOCKED`], and kicks the head.
    #[cold]
    fn unlock_slow(&self) {
        // Acquire: the entry and the head's state; pairs with the Release in `hash_head`.
        fence(Acquire);
        let node = node::get(hash::remove(self.address()));
        let ahead = Self::collect_ahead(node);
        // Relaxed: published by the Release below. The head cannot leave the queue before.
        node.state.store(RUNNING, Relaxed);
        // Release: as in `unlock`. The lock's memory may be freed after this.
        self.word.fetch_and(!SLOW, Release);
        // Whether it has halted or not: the first patch of the series.
        Self::kick(node, Stat::UnlockKick);
        ahead.into_iter().flatten().for_each(|node| Self::kick(node, Stat::KickAhead));
    }

    /// Marks the halted nodes behind the head as running. The caller holds the lock, so the queue has that head, and
    /// kicks them after the release.
    fn collect_ahead(head: &Node) -> [Option<&'static Node>; MAX_KICK_AHEAD] {
        let mut ahead = [None; MAX_KICK_AHEAD];
        // Acquire, both: pairs with the Release in `lock_queued`.
        let mut next = head.next.load(Acquire);
        for place in &mut ahead[..P::kick_ahead()] {
            if next == 0 {
                break;
            }
            let node = node::get(next);
            // Relaxed: the owner loads its other fields again.
            if node.state.compare_exchange(HALTED, RUNNING, Relaxed, Relaxed).is_ok() {
                *place = Some(node);
            }
            next = node.next.load(Acquire);
        }
        ahead
    }

    fn kick(node: &Node, stat: Stat) {
        P::count(stat);
        if P::COUNTS {
            let begin = stat::now();
            // Relaxed: statistics only.
            node.kicked_at.store(begin, Relaxed);
            node.kick();
            stat::add(Stat::KickLatency, stat::now() - begin);
        } else {
            node.kick();
        }
    }

    /// Counts the end of a halt, which is spurious if the owner cannot continue.
    fn count_wake_up(node: &Node, is_spurious: impl Fn() -> bool) {
        if P::COUNTS {
            // Relaxed: statistics only.
            let kicked_at = node.kicked_at.swap(0, Relaxed);
            if kicked_at != 0 {
                stat::add(Stat::Woken, 1);
                stat::add(Stat::WakeLatency, stat::now().saturating_sub(kicked_at));
            }
            if is_spurious() {
                stat::add(Stat::Spurious, 1);
            }
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// The lock around a number.
pub type Pvq<P> = Around<Raw<P>>;

#[cfg(test)]
mod tests;
