//! The lock: taking it when it is free, spinning for it, releasing it. The queue is in [`queue`](super::queue).
//!
//! A queue in order of arrival bounds how long anyone waits, and is slow as soon as its head is off the processor. Letting
//! whoever runs take the lock is fast, and starves those who sleep. Here whoever runs takes the lock, past a queue of sleepers,
//! until the head has waited for a *quantum*; then somebody who took the lock past it queues, which leaves a processor to the
//! head, and if that was not enough the lock is kept for the head. The word is that of [`word`](super::word).
//!
//! 1. *Lock.* Take a free lock, or *steal* it past a queue; else spin for a bounded time. Now and then who steals looks at the
//!    clock, for the head's sake. Who has ended a quantum does not spin.
//! 2. *Queue.* Become the tail and sleep on the own node until promoted. The head spins, then sleeps.
//! 3. *The head takes the lock* and promotes the next, which sleeps on if it sleeps ([`PARKED`]).
//! 4. *Release.* One read-modify-write, which tells whether there is somebody to wake.
//!
//! # Invariants
//!
//! 1. The word changes by read-modify-writes only, so every release sequence on it runs on for ever.
//! 2. Only the head changes the head: it takes the lock, or gives up ([`queue`](super::queue)). Between that change and the end
//!    of the promotion nobody is the head, and the one who promotes acts for it.
//! 3. *No wake-up is lost.* While the head sleeps, or is about to, with its state `HPARK`, the word says [`PARKED`], or the holder is
//!    about to say so, being the one who promoted it. So whoever releases the lock kicks; and who has released it, and not kicked
//!    yet, is stood in for by the next release, or by who is about to sleep behind the head of a free lock. Who is interrupted
//!    in the middle of a kick, by a handler that waits, ends it first.
//!    [`PARKED`] stays until the head takes the lock; who finds it, and a head that is awake, does nothing.
//! 4. [`PEND`] is set only while there is a head; it goes when the head takes the lock, or when nobody is left in the queue. A head
//!    that does not come loses it ([`queue`](super::queue)).
//! 5. After the change of the word that releases the lock, its memory is not touched: it may be gone. The node that is
//!    kicked is in the table, for ever; if it has another use by then, its owner looks again and sleeps on.
//!
//! # Orderings
//!
//! - Taking the lock acquires, releasing it releases.
//! - Who kicks acquires, before looking at a node, what the word was read from: the word that says `PARKED` was written after the
//!   state `HPARK`. The compare-exchange of the kick cannot stand in for that. It may fail, and *a failed
//!   compare-exchange orders nothing*: it would be a plain load that finds an old state, and the head would sleep on.
//! - Links are written before a Release of the word (an enqueueing, a head that takes the lock or leaves), and read by who has
//!   loaded the word (Acquire). So the states of nodes need no order of their own, but where a slot changes its owner.

use core::marker::PhantomData;

use crate::sync::{
    AtomicU32, Ordering::*, Witness, const_unless_loom, cpu, fence, mutant, now, spin_loop, spins, step,
};

use super::events::Event;
use super::local::{self, Local, Place};
use super::policy::Policy;
use super::table::{FORKED, HEAD, HPARK, Node, table};
use super::word::{LOCKED, PARKED, PEND, head, is_open, is_reserved};

/// The queued lock by itself, with the mechanisms and constants of a policy.
#[derive(Debug)]
pub struct Raw<P> {
    word: AtomicU32,
    memory: Witness,
    policy: PhantomData<P>,
}

/// How an attempt to get the lock in the queue ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With the lock.
    Taken,
    /// With the lock; the slot stays in the queue.
    TakenInQueue,
    /// Without: the time is over.
    TimedOut,
    /// Without: the time is over, and the slot stays in the queue.
    TimedOutInQueue,
    /// The place was given up for a lock that somebody else got. The slot stays in the queue.
    Again,
}

impl<P: Policy> Default for Raw<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Policy> Raw<P> {
    const_unless_loom! {
        /// A free lock.
        pub fn new() -> Self {
            Self { word: AtomicU32::new(0), memory: Witness::new(), policy: PhantomData }
        }
    }

    #[inline(always)]
    pub(super) fn word(&self) -> &AtomicU32 {
        self.memory.shared();
        &self.word
    }

    /// For the model: a lock that is held, with a queue of the slots 1 to `last`, all awake.
    #[cfg(loom)]
    pub fn with_queue(last: u32) -> Self {
        use super::table::WAIT;
        for slot in 1..=last {
            assert_eq!(table().lease(), Some(slot));
            let node = table().node(slot);
            node.prev.store(slot - 1, Relaxed);
            node.state.store(if slot == 1 { HEAD } else { WAIT }, Relaxed);
        }
        let word = super::word::with_queue(LOCKED, 1, last);
        Self { word: AtomicU32::new(word), memory: Witness::new(), policy: PhantomData }
    }

    /// For the model: the first in the queue.
    #[cfg(loom)]
    pub fn first(&self) -> u32 {
        head(self.word().load(Relaxed))
    }

    /// For the model: the caller frees the lock.
    #[cfg(loom)]
    pub fn is_freed(&self) {
        self.memory.alone();
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) {
        // Acquire, wherever somebody takes the lock: partner is the Release in `unlock` and `release_for_head`.
        if let Err(word) = self.word().compare_exchange(0, LOCKED, Acquire, Relaxed) {
            self.lock_contended(word);
        }
    }

    /// Takes the lock if it is free and not reserved for the head.
    #[inline]
    pub fn try_lock(&self) -> bool {
        match self.word().compare_exchange(0, LOCKED, Acquire, Relaxed) {
            Ok(_) => true,
            Err(word) => self.steal(word),
        }
    }

    /// Waits for the lock, until the clock shows `until` nanoseconds. Whether it has been taken.
    pub fn lock_until(&self, until: u64) -> bool {
        self.lock_slow(Some(until))
    }

    /// Releases the lock.
    ///
    /// # Safety
    ///
    /// The caller holds it.
    #[inline]
    pub unsafe fn unlock(&self) {
        // Release: partner is the Acquire of whoever takes the lock.
        let word = self.word().fetch_sub(LOCKED, Release);
        if word != LOCKED {
            self.released(word);
        }
    }

    /// Releases the lock, and keeps it for the one who has waited longest.
    ///
    /// # Safety
    ///
    /// The caller holds it.
    pub unsafe fn unlock_fair(&self) {
        let word = self.release_for_head();
        self.released(word);
    }

    /// For the model: a signal handler comes between the release and what is left to do.
    ///
    /// # Safety
    ///
    /// As for [`unlock_fair`](Self::unlock_fair).
    #[cfg(loom)]
    pub unsafe fn unlock_fair_interrupted(&self, handler: impl FnOnce()) {
        let word = self.release_for_head();
        handler();
        self.released(word);
    }

    /// For the model: a signal handler comes when the head, if it sleeps, has become awake in its state, and not in fact.
    ///
    /// # Safety
    ///
    /// As for [`unlock_fair`](Self::unlock_fair).
    #[cfg(loom)]
    pub unsafe fn unlock_fair_interrupted_in_kick(&self, handler: impl FnOnce()) {
        let word = self.release_for_head();
        fence(Acquire);
        let mut handler = Some(handler);
        Self::wake(head(word), HPARK, || handler.take().into_iter().for_each(|handler| handler()));
        handler.into_iter().for_each(|handler| handler());
        self.released(word);
    }

    fn release_for_head(&self) -> u32 {
        let mut word = self.word().load(Relaxed);
        loop {
            let kept = if self.is_led(word) { PEND } else { 0 };
            // Release: as in `unlock`.
            match self.word().compare_exchange(word, word & !LOCKED | kept, Release, Relaxed) {
                Ok(_) => return word,
                Err(now) => word = now,
            }
        }
    }

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.word().load(Relaxed) & LOCKED != 0
    }

    #[cold]
    fn lock_contended(&self, word: u32) {
        if !self.steal(word) {
            self.lock_slow(None);
        }
    }

    /// Takes the lock while that is open to all, or kept for a head that does not come.
    #[inline]
    fn steal(&self, mut word: u32) -> bool {
        if is_reserved(word) {
            if self.is_led(word) {
                return self.bypass(word);
            }
            word = self.word().load(Relaxed);
        }
        while Self::may_take(word) {
            match self.try_steal(word) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Whether who comes may take the lock.
    pub(super) fn may_take(word: u32) -> bool {
        is_open(word) && (P::STEAL || head(word) == 0)
    }

    /// Takes a lock that is open to all, past the queue if there is one. Now and then the thread looks at the clock for the sake
    /// of the head, and ends its quantum.
    #[inline]
    pub(super) fn try_steal(&self, word: u32) -> Result<(), u32> {
        if head(word) == 0 {
            // What may be left of flags is for nobody any more.
            return self.word().compare_exchange(word, LOCKED, Acquire, Relaxed).map(|_| ());
        }
        let looks = local::with(|local| local.looks_next(P::LOOK_EVERY));
        let kept = if looks { self.look(word) } else { 0 };
        self.word().compare_exchange(word, word | LOCKED | kept, Acquire, Relaxed)?;
        P::count(Event::Steal);
        if kept != 0 {
            P::count(Event::Pend);
        }
        local::with(Local::has_stolen);
        Ok(())
    }

    /// [`PEND`] if the lock is to be kept for the head when the thread, which is about to take it, releases it.
    #[cold]
    fn look(&self, word: u32) -> u32 {
        if !self.is_led(word) {
            return 0;
        }
        let node = table().node(head(word));
        local::with(|local| {
            let time = now();
            let in_demand = local.is_in_demand(P::LOOK_EVERY, time) || !P::DEMAND;
            // Relaxed: whoever is the head by now, somebody is.
            let waited = time.saturating_sub(node.since.load(Relaxed));
            let may_lead = Self::is_here(node) || local.has_stayed(time) >= P::STAY_NS;
            if P::LEAD && in_demand && waited >= P::QUANTUM_NS && may_lead {
                P::count(Event::Lead);
                local.end_quantum(self.address());
            }
            let reserve_ns = if in_demand { P::RESERVE_NS } else { P::RESERVE_IDLE_NS };
            if P::RESERVE && waited >= reserve_ns { PEND } else { 0 }
        })
    }

    /// Whether there is a head that can take the lock. One that did not survive a fork is buried.
    pub(super) fn is_led(&self, word: u32) -> bool {
        // Relaxed: such nodes are older than this process.
        let is_forked = table().unusual.load(Relaxed) & FORKED != 0;
        head(word) != 0 && !(is_forked && self.bury(head(word)))
    }

    /// Waits for the lock, until the clock shows `until`. Whether it has been taken.
    #[cold]
    fn lock_slow(&self, until: Option<u64>) -> bool {
        let lock = self.address();
        local::with(|local| {
            Self::end_kick();
            loop {
                P::count(Event::SlowPath);
                local.has_found_it_taken();
                // Who has ended a quantum, or has a place already, does not spin.
                if !(local.has_left(lock) || P::LEAD && local.has_ended_quantum(lock)) && self.spin(local) {
                    return true;
                }
                let (slot, outcome) = match local.take(lock, until.is_some()) {
                    Place::Last(slot) => (slot, self.wait(slot, until, local.owns(slot))),
                    Place::Back(slot) => (slot, self.wait_on(slot, until, true)),
                    Place::Outside => return self.lock_outside(until),
                };
                match outcome {
                    Outcome::Taken | Outcome::TimedOut => local.put(slot),
                    _ => local.leave(lock),
                }
                match outcome {
                    Outcome::Taken | Outcome::TakenInQueue => {
                        local.comes(now());
                        return true;
                    }
                    Outcome::TimedOut | Outcome::TimedOutInQueue => return false,
                    Outcome::Again => {}
                }
            }
        })
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Polls the lock for a bounded time. Whether it has been taken.
    fn spin(&self, local: &Local) -> bool {
        let (mut left, mut kept) = (spins(P::SPIN_NS), spins(P::KEPT_NS));
        // Looking costs the holder a miss: who holds it for a moment again and again had better be left alone for some time.
        let (takes_time, always) = if P::GAP { local.takes_its_time() } else { (false, false) };
        if takes_time {
            (0..spins(P::GAP_NS)).for_each(|_| spin_loop());
        }
        let gap = if always { spins(P::GAP_NS).max(1) } else { 1 };
        loop {
            let word = self.word().load(Relaxed);
            if Self::may_take(word) {
                match self.try_steal(word) {
                    Ok(()) => return true,
                    Err(now) if now & LOCKED != 0 => local.lose_race(),
                    Err(_) => {}
                }
            } else if is_reserved(word) {
                if kept == 0 || Self::is_here(table().node(head(word))) {
                    return self.bypass(word);
                }
                kept -= 1;
                spin_loop();
            } else {
                if left == 0 {
                    return false;
                }
                left = left.saturating_sub(gap);
                (0..gap).for_each(|_| spin_loop());
            }
        }
    }

    /// What is left to do for who has released the lock, and found `word` there: he wakes who sleeps. The lock's memory may be
    /// gone (5).
    #[cold]
    fn released(&self, word: u32) {
        if P::DEMAND && head(word) != 0 {
            local::with(Local::has_released);
        }
        if word & PARKED != 0 {
            // Acquire: partner is the Release of whoever has set `PARKED`, in `head_sleeps` or before, in `promote`, and in
            // `lock_outside`; what they have written before shows who sleeps.
            fence(Acquire);
            if head(word) != 0 {
                step!("no-kick", Self::kick(head(word)));
            }
            Self::wake_outside();
        }
        if mutant("look-back") {
            self.word().load(Relaxed);
        }
    }

    /// Whether the owner of `node` went to wait on the processor that this thread runs on, or that is not asked.
    fn is_here(node: &Node) -> bool {
        // Relaxed: a guess.
        !P::HINT || node.cpu.load(Relaxed) == cpu()
    }

    /// Wakes the first, if it sleeps. The caller has acquired a word that says [`PARKED`].
    pub(super) fn kick(first: u32) {
        let node = table().node(first);
        // Relaxed, both: an older state than the one it was parked with is not seen.
        if node.state.load(Relaxed) != HPARK {
            return;
        }
        let begin = if P::COUNTS { now() } else { 0 };
        if P::COUNTS {
            node.kicked.store(begin, Relaxed);
        }
        if Self::wake(first, HPARK, || ()) {
            P::count(Event::Kick);
            if P::COUNTS {
                P::add(Event::KickNs, now() - begin);
            }
        }
    }

    /// Wakes the owner of `slot`, who sleeps in `state`, as the head. False if it is another state.
    ///
    /// A handler that comes `between` making him the head and waking him, and waits, or wakes, wakes him first.
    pub(super) fn wake(slot: u32, state: u32, between: impl FnOnce()) -> bool {
        step!("kick-forgotten", Self::end_kick());
        let sleeper = &table().node(slot).state;
        let before = local::with(|local| local.kicks(slot));
        // Relaxed: as in `kick` and `promote`.
        let wakes = sleeper.compare_exchange(state, HEAD, Relaxed, Relaxed).is_ok();
        if wakes {
            between();
            sleeper.wake(1);
        }
        local::with(|local| local.kicks(before));
        wakes
    }

    /// Wakes whom this thread was about to wake when a handler interrupted it, which now waits, or wakes somebody else.
    fn end_kick() {
        let interrupted = local::with(Local::kicking);
        if interrupted != 0 {
            step!("kick-not-ended", table().node(interrupted).state.wake(1));
        }
    }
}
