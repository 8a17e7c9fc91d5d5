//! The lock's queue: how threads stand in it, become its head, and leave it.
//!
//! The word names the first and the last node. A node knows the one before it (`prev`), from before it is in the queue, so a
//! thread that is preempted there leaves no gap. The head links the other direction (`next`), as far as the links are missing,
//! when it leaves: it walks back from the tail.
//!
//! A waiter whose time is over marks its node `GONE`, and whoever promotes passes it over; a head whose time is over promotes
//! the next one, awake. So there is a queue only while somebody waits in it: a lock that is not in use has no nodes.
//!
//! # The head that does not come
//!
//! A head that does not run, because of a quota, a debugger, or threads of higher priority, does not take the lock, and others
//! must not wait for that. Whoever is the first to find the lock free and kept writes the time down beside the head; who finds
//! that this was `BYPASS_NS` ago takes the lock. The head's quantum begins anew, and later, so the lock is not kept for it
//! for some time. Those asleep behind it spin for the lock now and then, and may then take one that is free and not kept, too, as
//! anybody may who runs. Who takes the lock so leaves the slot in the queue, and so it must be the thread's own ([`local`]).
//!
use crate::sync::{Ordering::*, cpu, mutant, now, spin_loop, spins, step};

use super::events::Event;
use super::local;
use super::policy::Policy;
use super::raw::{Outcome, Raw};
use super::table::{BURIED, DEAD, GONE, HEAD, HPARK, IDLE, NPARK, Node, ORPHAN, PASSED, WAIT, table};
use super::word::{LOCKED, PARKED, PEND, flags, head, is_reserved, tail, with_queue};

/// Waiters sleep for so many `BYPASS_NS` at most, and for so long the lock is not kept for a head that was bypassed.
const BYPASS_APART: u64 = 16;

impl<P: Policy> Raw<P> {
    /// Waits in the queue, in `slot`. Only who `may_leave` it there returns without having been the head.
    pub(super) fn wait(&self, slot: u32, until: Option<u64>, may_leave: bool) -> Outcome {
        let node = table().node(slot);
        let outcome = match self.enqueue(slot, node) {
            None => Outcome::Taken,
            Some(HEAD) => self.head(slot, node, until),
            Some(_) => {
                // Behind one that did not survive a fork: somebody has to take his place.
                self.is_led(self.word().load(Relaxed));
                return self.wait_on(slot, until, may_leave);
            }
        };
        Self::ended(node, outcome)
    }

    /// Waits in `slot`, which is in the queue.
    pub fn wait_on(&self, slot: u32, until: Option<u64>, may_leave: bool) -> Outcome {
        let node = table().node(slot);
        let outcome = match self.await_promotion(node, until, may_leave) {
            None => self.head(slot, node, until),
            Some(outcome) => outcome,
        };
        Self::ended(node, outcome)
    }

    fn ended(node: &Node, outcome: Outcome) -> Outcome {
        if matches!(outcome, Outcome::Taken | Outcome::TimedOut) {
            // Relaxed: in no queue; who kicks it all the same does no harm.
            node.state.store(IDLE, Relaxed);
        }
        outcome
    }

    /// Becomes the tail; the state of the node then. `None` if the lock was free, and has been taken.
    fn enqueue(&self, slot: u32, node: &Node) -> Option<u32> {
        node.owned.alone();
        node.next.store(0, Relaxed);
        // Who sees it as the first sees that this is a new place.
        node.kept.store(0, Relaxed);
        node.cpu.store(cpu(), Relaxed);
        let mut word = self.word().load(Relaxed);
        loop {
            if Self::may_take(word) {
                match self.try_steal(word) {
                    Ok(()) => return None,
                    Err(now) => word = now,
                }
                continue;
            }
            let last = tail(word);
            let (state, first) = if last == 0 { (HEAD, slot) } else { (WAIT, head(word)) };
            if last == 0 {
                node.begins_as_head();
            }
            node.prev.store(last, Relaxed);
            node.state.store(state, Relaxed);
            let queued = with_queue(flags(word), first, slot);
            // Release: the node is ready; partner is the Acquire of whoever loads the word to walk: `head`, `pass_over`.
            match self.word().compare_exchange(word, queued, Release, Relaxed) {
                Ok(_) => return Some(state),
                Err(now) => word = now,
            }
        }
    }

    /// Sleeps until the node is the head, or there is no point in waiting.
    fn await_promotion(&self, node: &Node, until: Option<u64>, may_leave: bool) -> Option<Outcome> {
        let in_future = |patience| now().saturating_add(P::BYPASS_NS.saturating_mul(patience));
        let mut patience = 1;
        let mut look = (P::BYPASS && may_leave).then(|| in_future(patience));
        loop {
            // Relaxed, here and below: what the head before did is seen through the word.
            match node.state.load(Relaxed) {
                WAIT => {
                    // If it fails, it has been promoted.
                    let _ = node.state.compare_exchange(WAIT, NPARK, Relaxed, Relaxed);
                }
                NPARK => {
                    // Acquire: as in `released`.
                    let word = self.word().load(Acquire);
                    // Whoever has released the lock may have been interrupted by the very handler that waits here.
                    if word & (LOCKED | PARKED) == PARKED {
                        step!("no-help", Self::kick(head(word)));
                    }
                    // The head may have not survived a fork.
                    self.is_led(word);
                    let is_overdue = is_reserved(word) && Self::is_overdue(head(word));
                    if let Some(moment) = look {
                        if is_overdue || now() >= moment {
                            if let Some(outcome) = self.pass(node) {
                                return Some(outcome);
                            }
                            patience = if is_reserved(word) { 1 } else { (patience * 2).min(BYPASS_APART) };
                            look = Some(in_future(patience));
                        } else if is_reserved(word) {
                            // Soon, or for how long it has been kept by then does not help.
                            (patience, look) = (1, Some(moment.min(in_future(1))));
                        }
                    }
                    let end = [until, look].into_iter().flatten().min();
                    P::count(Event::WaitNode);
                    if !node.state.wait(NPARK, end) {
                        self.count_wake_up(node);
                    } else if until == end && self.give_up(node) {
                        return Some(Outcome::TimedOutInQueue);
                    }
                }
                HPARK => {
                    self.sleep_as_head(node, until);
                }
                _ => return None,
            }
        }
    }

    /// Waits no more, unless the node has been promoted.
    fn give_up(&self, node: &Node) -> bool {
        node.owned.alone();
        // Release: what its owner did with the slot; partner: the Acquire in `promote`.
        node.state.compare_exchange(NPARK, GONE, Release, Relaxed).is_ok()
    }

    /// For who has waited for long, or has found the lock kept for long: spins until it can be taken. `None` if it could not be
    /// for some time, and the thread waits on.
    #[cold]
    fn pass(&self, node: &Node) -> Option<Outcome> {
        let (mut left, mut has_left) = (spins(P::SPIN_NS), false);
        loop {
            let word = self.word().load(Relaxed);
            if Self::may_pass(word) {
                // If it fails, it has been promoted.
                if !has_left {
                    step!(
                        "bypass-before-give-up",
                        if !self.give_up(node) {
                            return None;
                        }
                    );
                }
                has_left = true;
                if self.bypass(word) {
                    if mutant("bypass-before-give-up") {
                        self.give_up(node);
                    }
                    return Some(Outcome::TakenInQueue);
                }
            }
            if left == 0 {
                return has_left.then_some(Outcome::Again);
            }
            left -= 1;
            spin_loop();
        }
    }

    /// Whether the lock is free, and open to all, or its head does not come.
    fn may_pass(word: u32) -> bool {
        word & LOCKED == 0 && (word & PEND == 0 || Self::is_overdue(head(word)))
    }

    /// Whether a lock that is free has been kept for `first` for long. Who sees that it is kept writes the time down.
    fn is_overdue(first: u32) -> bool {
        let kept = &table().node(first).kept;
        // Relaxed, both: to be off the mark does no harm.
        match kept.load(Relaxed) {
            0 => {
                kept.store(now().max(1), Relaxed);
                false
            }
            since => now().saturating_sub(since) >= P::BYPASS_NS,
        }
    }

    /// Takes the lock if it is free, and not kept for a head that may come.
    #[cold]
    pub(super) fn bypass(&self, mut word: u32) -> bool {
        while P::BYPASS && Self::may_pass(word) {
            let taken = (word | LOCKED) & !PEND;
            match self.word().compare_exchange(word, taken, Acquire, Relaxed) {
                Ok(_) if word & PEND == 0 => return true,
                Ok(_) => {
                    P::count(Event::Bypass);
                    table().node(head(word)).begins_later(BYPASS_APART * P::BYPASS_NS);
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// Waits as the head.
    fn head(&self, slot: u32, node: &Node, until: Option<u64>) -> Outcome {
        let mut left = spins(P::HEAD_NS);
        let mut is_past = P::RESERVE && Self::waited(node) >= P::QUANTUM_NS;
        loop {
            // Acquire: the nodes behind; partner: the Release in `enqueue`.
            let word = self.word().load(Acquire);
            if word & LOCKED == 0 {
                if self.take_as_head(word, slot) {
                    return Outcome::Taken;
                }
            } else if is_past && word & PEND == 0 {
                // Relaxed: it carries nothing. If it fails, the next round sees to it.
                if self.word().compare_exchange(word, word | PEND, Relaxed, Relaxed).is_ok() {
                    P::count(Event::Pend);
                }
            } else if left > 0 {
                left -= 1;
                spin_loop();
            } else {
                if self.head_sleeps(word, node, until) {
                    return if self.leave(slot) { Outcome::Taken } else { Outcome::TimedOut };
                }
                left = spins(P::HEAD_NS);
                is_past = P::RESERVE && Self::waited(node) >= P::QUANTUM_NS;
            }
        }
    }

    /// Nanoseconds for which the owner of `node` has been the head.
    pub(super) fn waited(node: &Node) -> u64 {
        // Relaxed: to be off the mark does no harm.
        now().saturating_sub(node.since.load(Relaxed))
    }

    /// Sleeps as the head, if the word is still `word`, which says that somebody holds the lock. Whether the time is over.
    fn head_sleeps(&self, word: u32, node: &Node, until: Option<u64>) -> bool {
        // Relaxed: published by the Release below.
        step!("state-after-word", node.state.store(HPARK, Relaxed));
        // Release: the state; partner is the Acquire in `kick`. If the word says so already, it is the state that is new.
        if self.word().compare_exchange(word, word | PARKED, Release, Relaxed).is_err() {
            // Nobody was told. Relaxed: who kicks by an old word does no harm.
            node.state.store(HEAD, Relaxed);
            return false;
        }
        if mutant("state-after-word") {
            node.state.store(HPARK, Relaxed);
        }
        P::count(Event::WaitHead);
        self.sleep_as_head(node, until)
    }

    /// Sleeps until the node is not `HPARK` any more, and makes sure of that when the time is over, which is returned.
    fn sleep_as_head(&self, node: &Node, until: Option<u64>) -> bool {
        // Relaxed, all: the word is loaded again.
        while node.state.load(Relaxed) == HPARK {
            if node.state.wait(HPARK, until) {
                // A waiter that was promoted in its sleep would time out again and again, and never leave.
                step!("parked-after-timeout", node.state.store(HEAD, Relaxed));
                return true;
            }
        }
        self.count_wake_up(node);
        false
    }

    /// The owner of `node` runs, perhaps because he was kicked.
    fn count_wake_up(&self, node: &Node) {
        let kicked = if P::COUNTS { node.kicked.swap(0, Relaxed) } else { 0 };
        if kicked != 0 {
            P::add(Event::WakeNs, now().saturating_sub(kicked));
            if self.word().load(Relaxed) & LOCKED != 0 {
                P::count(Event::Spurious);
            }
        }
    }

    /// For the head: takes the lock, which is free, and promotes the next. False if the word is not `word` any more.
    fn take_as_head(&self, word: u32, slot: u32) -> bool {
        let (queue, next) = Self::without_first(word, slot);
        // The flags go: nobody sleeps as the head yet, and the lock was kept for us. Release: the links; partner: the Acquire in
        // `leave`, of the next head.
        if self.word().compare_exchange(word, queue | LOCKED, AcqRel, Relaxed).is_err() {
            return false;
        }
        if next != 0 {
            self.promote(next, !P::DEFER);
        }
        true
    }

    /// For the head whose time is over: promotes the next and leaves. True if the lock could be had after all.
    #[cold]
    pub fn leave(&self, slot: u32) -> bool {
        loop {
            // Acquire: as in `head`.
            let word = self.word().load(Acquire);
            if word & LOCKED == 0 {
                if self.take_as_head(word, slot) {
                    return true;
                }
                continue;
            }
            let (queue, next) = Self::without_first(word, slot);
            // Release: the links; partner: the Acquire in `head`, of the next one.
            if self.word().compare_exchange(word, Self::rest(word, queue), Release, Relaxed).is_ok() {
                if next != 0 {
                    // Awake: who holds the lock need not know of it.
                    step!("leave-alone", self.promote(next, true));
                }
                return false;
            }
        }
    }

    /// The word when its queue has become `queue`, and nothing else has changed: the lock is kept for the next one, if there is
    /// one, and `PARKED` may be there for somebody outside.
    fn rest(word: u32, queue: u32) -> u32 {
        let is_kept = queue != 0 || mutant("kept-for-nobody");
        queue | flags(word) & if is_kept { !0 } else { !PEND }
    }

    /// The queue of `word` without its first node, and which is the next.
    fn without_first(word: u32, first: u32) -> (u32, u32) {
        let last = tail(word);
        if last == first {
            return (0, 0);
        }
        let next = Self::next_of(first, last);
        (with_queue(0, next, last), next)
    }

    /// The node after the first one, in a queue that ends with `last`.
    fn next_of(first: u32, last: u32) -> u32 {
        let mut slot = last;
        // Relaxed, all: see the orderings in `raw`.
        loop {
            let before = table().node(slot).prev.load(Relaxed);
            let link = &table().node(before).next;
            if link.load(Relaxed) == slot {
                break;
            }
            link.store(slot, Relaxed);
            if before == first {
                break;
            }
            slot = before;
        }
        table().node(first).next.load(Relaxed)
    }

    /// Makes `next`, which the word names as the first already, the head; or the first after it that has not given up.
    /// Unless it `wakes`, the caller holds the lock, and a sleeper sleeps on until the release.
    pub fn promote(&self, mut next: u32, wakes: bool) {
        let before = local::with(|local| local.promotes(next));
        loop {
            let node = table().node(next);
            node.begins_as_head();
            // Relaxed, here and below: the links are published through the word. Acquire: partner is the Release in `give_up`.
            match node.state.load(Acquire) {
                WAIT => {
                    if node.state.compare_exchange(WAIT, HEAD, Relaxed, Relaxed).is_ok() {
                        break;
                    }
                }
                NPARK if wakes => {
                    if Self::wake(next, NPARK, || ()) {
                        break;
                    }
                }
                NPARK => {
                    if node.state.compare_exchange(NPARK, HPARK, Relaxed, Relaxed).is_ok() {
                        // Relaxed: published by the release of the lock.
                        step!("sleeper-forgotten", self.word().fetch_or(PARKED, Relaxed));
                        break;
                    }
                }
                // Acquire: as for the load. If it fails, the owner is back.
                GONE if node.state.compare_exchange(GONE, PASSED, Acquire, Relaxed).is_err() => {}
                // Relaxed, both: it has been so since the process began. If it fails, somebody else buries it.
                DEAD if node.state.compare_exchange(DEAD, BURIED, Relaxed, Relaxed).is_err() => break,
                GONE | ORPHAN | DEAD if !mutant("gone-promoted") => match self.pass_over(next) {
                    0 => break,
                    after => {
                        local::with(|local| local.promotes(after));
                        next = after;
                    }
                },
                _ => break,
            }
        }
        local::with(|local| local.promotes(before));
    }

    /// If the owner of the first node did not survive a fork: makes somebody else the head. Whether that was so.
    #[cold]
    pub(super) fn bury(&self, first: u32) -> bool {
        let state = &table().node(first).state;
        // Relaxed, all: it has been so since the process began. Who claims it passes it over.
        if state.load(Relaxed) != DEAD {
            return false;
        }
        // A handler that forks must leave alone what is done here.
        let (was, before) = local::with(|local| (local.holds(1), local.promotes(first)));
        let claims = state.compare_exchange(DEAD, BURIED, Relaxed, Relaxed).is_ok();
        if claims || mutant("buried-twice") {
            match self.pass_over(first) {
                0 => {}
                next => self.promote(next, true),
            }
        }
        local::with(|local| (local.promotes(before), local.holds(was)));
        true
    }

    /// Takes the first node, whose owner has gone, out of the queue, and frees it; the next one, or 0.
    #[cold]
    fn pass_over(&self, gone: u32) -> u32 {
        loop {
            // Acquire: as in `head`.
            let word = self.word().load(Acquire);
            let (queue, next) = Self::without_first(word, gone);
            // Release: as in `leave`, which may have brought us here.
            if self.word().compare_exchange(word, Self::rest(word, queue), Release, Relaxed).is_ok() {
                let node = table().node(gone);
                node.owned.alone();
                // Release: partner is the Acquire in `find_place` and `orphan`. Relaxed: an orphan's owner has done nothing with it
                // since it became `GONE`.
                if node.state.compare_exchange(PASSED, IDLE, Release, Relaxed).is_err()
                    && !mutant("passed-node-leaked")
                {
                    table().give_back(gone);
                }
                return next;
            }
        }
    }
}
