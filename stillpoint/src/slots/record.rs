//! Records of protection slots, and the pool of all records.
//!
//! A thread *owns* one record, from its first guard to its exit: it finds slots there without an atomic
//! read-modify-write. For more guards than that has slots it takes slots of *shared* records, each of which it owns
//! for the moment in which it takes one. A thread that exits shares its record if slots there are still in use. A
//! shared record whose slots are all free goes back to the stack of free records.
//!
//! | `is_shared` | active | on the stack | the record |
//! |---|---|---|---|
//! | 0 | yes | no | is owned: by a thread, or by one that takes a slot, or gives the record back |
//! | 1 | yes | no | is shared: its slots are in use, or were |
//! | 0 | no | yes | is free, and all its slots are |
//!
//! # Invariants
//!
//! 1. Only the owner takes slots: two threads never take one.
//! 2. A record that is not active has no slot in use: scans need not look there.
//! 3. A thread owns its record until it exits. A signal handler may interrupt it between a look at a slot and the
//!    store that fills it, so nothing that the handler does may share the record.
//!
//! # Cost
//!
//! All operations look at a bounded number of slots, but for scans. These look at the active records: of each thread
//! its own, and those with slots in use. No list of shared records is kept: each scan, and each claim for the next
//! few records, gives those back that are unused. A thread that needs a slot of a shared record looks for a free one
//! in the next few before it claims another record. So where few threads have records, there are at most about an
//! eighth more than the slots that have been in use at once need, besides the threads' own.
//!
//! A table may limit the number of shared records, and thus what a scan costs beyond the threads' own records: above
//! the limit, a thread gets a slot only if one of the next few records has a free one. Among many records of threads,
//! that often fails although shared records have free slots. Threads that exit share their records all the same.

use core::array;
use core::cell::Cell;

use super::slot::Slot;
use crate::readers::sections::reader::Reader;
use crate::readers::sections::registry::Registry;
use crate::sync::{AtomicU32, AtomicU64, Ordering::*, const_unless_loom, step};

/// See the [module](self). A scan loads the cache lines of records only.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Record {
    slots: [Slot; Self::SLOTS],
    is_shared: AtomicU32,
}

impl Default for Record {
    fn default() -> Self {
        Self { slots: array::from_fn(|_| Slot::new()), is_shared: AtomicU32::new(0) }
    }
}

impl Record {
    pub const SLOTS: usize = if cfg!(loom) { 1 } else { 7 };

    /// Returns all slots, in use or not.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns a free slot, which the owner may take.
    pub fn find_free(&self) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.is_free())
    }

    fn is_unused(&self) -> bool {
        self.slots.iter().all(Slot::is_free)
    }

    fn is_shared(&self) -> bool {
        // Relaxed: `try_own` decides.
        self.is_shared.load(Relaxed) != 0
    }

    /// Makes the calling thread the owner of the record, if it is shared.
    fn try_own(&self) -> bool {
        // Acquire: sees which slots earlier owners have taken; pairs with the Release in `share`.
        self.is_shared() && self.is_shared.compare_exchange(1, 0, Acquire, Relaxed).is_ok()
    }

    /// Gives up the ownership.
    fn share(&self) {
        // Release: publishes which slots are taken; pairs with the Acquire in `try_own`.
        self.is_shared.store(1, Release);
    }
}

/// All records of a table. See the [module](self).
#[derive(Debug)]
pub struct Records {
    registry: Registry<Record>,
    /// Where the next claim looks for unused records.
    next_look: AtomicU64,
    /// The number of shared records, and of those that a thread owns to take a slot. Relaxed, all accesses: each
    /// record counts from before it is shared until its owner gives it back.
    shared: AtomicU64,
    /// If there are so many of these, threads claim no others for shared slots.
    most_shared: u64,
}

/// Records at which a claim looks.
const LOOK: usize = 8;

impl Records {
    const_unless_loom! {
        pub fn new(most_shared: u64) -> Self {
            // SAFETY: the slots are free, and no record is shared.
            let registry = unsafe { Registry::sparse() };
            Self { registry, next_look: AtomicU64::new(0), shared: AtomicU64::new(0), most_shared }
        }
    }

    /// Returns the reader of a record that the calling thread owns from now on. Returns `None` if there is no memory.
    pub fn claim(&self) -> Option<&'static Reader> {
        let _: Option<()> = self.look(|index, record| {
            self.give_back_unused(index, record);
            None
        });
        self.registry.claim().ok()
    }

    /// Calls `find` with the next few records, and their indices, until it finds something.
    fn look<R>(&self, mut find: impl FnMut(usize, &'static Record) -> Option<R>) -> Option<R> {
        let len = self.registry.len();
        // Relaxed: threads may look at the same records.
        let mut next = self.next_look.load(Relaxed) as usize;
        let mut records = (next..len.min(next + LOOK)).inspect(|index| next = index + 1);
        let found = records.find_map(|index| find(index, self.registry.attached(index)));
        self.next_look.store(if next == len { 0 } else { next as u64 }, Relaxed);
        found
    }

    /// Returns the record of a reader.
    pub fn of(&self, reader: &Reader) -> &'static Record {
        self.registry.attached_to(reader)
    }

    /// Gives up the record of `reader`, which the calling thread owns.
    pub fn give_up(&self, reader: &'static Reader) {
        let record = self.of(reader);
        if record.is_unused() {
            self.registry.release(reader);
        } else {
            self.shared.fetch_add(1, Relaxed);
            record.share();
        }
    }

    /// Gives a record back if it is shared, and its slots are free. Returns `true` if it has.
    fn give_back_unused(&self, index: usize, record: &Record) -> bool {
        if !(record.is_shared() && record.is_unused() && record.try_own()) {
            return false;
        }
        // The owner looks again: a slot may have been taken in between.
        step!(
            "unused-not-checked-again",
            if !record.is_unused() {
                record.share();
                return false;
            }
        );
        self.shared.fetch_sub(1, Relaxed);
        self.registry.release(self.registry.reader(index));
        true
    }

    /// Takes a slot of a shared record, and reserves it: of `last`, the record of which the thread took one last, if
    /// that has a free one, or of one of the next few, otherwise of one that `claim` returns. Async-signal-safe if
    /// `claim` is.
    pub fn take_shared(
        &self,
        last: &Cell<Option<&'static Record>>,
        claim: impl FnOnce() -> Option<&'static Reader>,
    ) -> Option<&'static Slot> {
        // Of a record that the thread owns.
        let take = |record: &'static Record| {
            // Reserved before another thread may own the record.
            let slot = record.find_free().inspect(|slot| slot.reserve());
            record.share();
            last.set(Some(record));
            slot
        };
        let try_take = |record: &'static Record| record.try_own().then(|| take(record)).flatten();
        last.get()
            .and_then(try_take)
            .or_else(|| self.look(|_, record| record.find_free().and_then(|_| try_take(record))))
            .or_else(|| {
                if self.shared.load(Relaxed) >= self.most_shared {
                    return None;
                }
                let may_claim = self.shared.fetch_add(1, Relaxed) < self.most_shared;
                let claimed = may_claim.then(claim).flatten();
                if claimed.is_none() {
                    self.shared.fetch_sub(1, Relaxed);
                }
                take(self.of(claimed?))
            })
    }

    /// Returns the slots that may be in use.
    pub fn slots(&self) -> impl Iterator<Item = &'static Slot> {
        let groups = self.registry.groups(0, self.registry.len());
        let active = groups.flat_map(|(first, group)| {
            let members = self.registry.members(first, group.active());
            members.map(move |(bit, _)| first + bit.trailing_zeros() as usize)
        });
        let records = active.map(|index| (index, self.registry.attached(index)));
        // One that is unused now protects nothing that was protected before.
        records
            .filter(|&(index, record)| !self.give_back_unused(index, record))
            .flat_map(|(_, record)| record.slots())
    }

    /// Returns the number of records that are not free. A statistic.
    pub fn claimed(&self) -> u64 {
        self.registry.claimed()
    }

    /// Frees all records but that of `own`, the calling thread's, and those with slots in use, which it may have the
    /// guards of: these are shared. For the only thread of a process, as after a fork.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self, own: Option<&'static Reader>) {
        self.shared.store(0, Relaxed);
        self.registry.reset_in_child_except(own, |record: &Record| {
            record.slots.iter().for_each(Slot::reset_in_child);
            let is_in_use = !record.is_unused();
            record.is_shared.store(is_in_use.into(), Relaxed);
            self.shared.fetch_add(is_in_use.into(), Relaxed);
            is_in_use
        });
        if let Some(own) = own {
            let own = self.of(own);
            own.slots.iter().for_each(Slot::reset_in_child);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::ptr::without_provenance_mut;

    use super::*;
    use crate::slots::slot::RELEASING;

    fn records() -> &'static Records {
        Box::leak(Box::new(Records::new(u64::MAX)))
    }

    /// Takes slots as a thread does whose own record is full.
    fn hold(
        records: &'static Records,
        last: &Cell<Option<&'static Record>>,
        count: usize,
    ) -> Vec<&'static Slot> {
        (0..count).map(|_| records.take_shared(last, || records.claim()).expect("memory")).collect()
    }

    /// Threads that end leave one slot each.
    fn leave(records: &'static Records, threads: usize) -> Vec<&'static Slot> {
        let thread = |_| {
            let own = records.claim().expect("memory");
            let record = records.of(own);
            assert!(record.is_unused(), "a new thread gets a record that is in use");
            let slot = record.find_free().expect("a free slot");
            slot.reserve();
            records.give_up(own);
            slot
        };
        (0..threads).map(thread).collect()
    }

    #[test]
    fn records_are_as_many_as_were_in_use_at_once() {
        for held in [10_usize, 1000, if cfg!(miri) { 2000 } else { 100_000 }] {
            let (records, last) = (records(), Cell::new(None));
            let needed = held.div_ceil(Record::SLOTS);
            let mut slots = hold(records, &last, held);
            assert_eq!(records.registry.len(), needed, "{held}");
            // In waves, with and without slots that stay in use.
            for stays in [|_| false, |place| place == 0, |place| place % 2 == 0, |place| place % 7 == 0]
                as [fn(_) -> _; 4]
            {
                for _ in 0..20 {
                    let mut places = 0..;
                    slots.retain(|slot| {
                        let stays = places.next().is_some_and(stays);
                        if !stays {
                            slot.give_back();
                        }
                        stays
                    });
                    slots.extend(hold(records, &last, held - slots.len()));
                }
                let len = records.registry.len();
                assert!(len <= needed + needed.div_ceil(LOOK) + 2, "{held}: {len}");
            }
            slots.iter().for_each(|slot| slot.give_back());
            assert_eq!(records.slots().count(), 0);
            assert_eq!(records.claimed(), 0);
        }
    }

    #[test]
    fn ended_threads_leave_records_while_their_slots_are_in_use() {
        let records = records();
        let mut slots = leave(records, 750);
        assert_eq!(records.claimed(), 750);
        for _ in 0..20 {
            slots.drain(..375).for_each(Slot::give_back);
            slots.extend(leave(records, 375));
        }
        assert!(records.registry.len() <= 750 + 375 + 750 / LOOK, "{}", records.registry.len());
        slots.iter().for_each(|slot| slot.give_back());
        assert_eq!(records.slots().count(), 0);
    }

    #[test]
    fn slots_of_shared_records_end_at_the_limit() {
        let (records, last): (&Records, _) = (Box::leak(Box::new(Records::new(3))), Cell::new(None));
        let take = || records.take_shared(&last, || records.claim());
        for _ in 0..3 {
            let mut slots = hold(records, &last, 2 * Record::SLOTS);
            slots.extend(leave(records, 2));
            // Those of ended threads have free slots.
            slots.extend(hold(records, &last, 2 * (Record::SLOTS - 1)));
            assert!(take().is_none() && take().is_none());
            assert_eq!((records.claimed(), records.shared.load(Relaxed)), (4, 4));
            slots[1].give_back();
            slots[1] = take().expect("a slot of a full record was given back");
            assert!(take().is_none());
            slots.iter().for_each(|slot| slot.give_back());
            assert_eq!(records.slots().count(), 0);
            assert_eq!((records.claimed(), records.shared.load(Relaxed)), (0, 0));
        }
    }

    /// Threads are gone in the middle of a drop, and of a payment.
    /// Refutes: drop-kept-in-child, payment-kept-in-child
    #[test]
    fn child_keeps_slots_in_use_and_nothing_that_others_were_doing() {
        let (records, last) = (records(), Cell::new(None));
        let [own, other, free] = [(); 3].map(|()| records.claim().expect("memory"));
        records.give_up(free);
        let [kept, released, paid] = [0, 1, 2].map(|index| &records.of(other).slots()[index]);
        let value = without_provenance_mut(16);
        let owns = &records.of(own).slots()[0];
        kept.fill(value);
        owns.fill(value);
        released.fill(RELEASING);
        paid.pay(value);
        let shared = hold(records, &last, 1)[0];
        records.reset_in_child(Some(own));
        assert_eq!([kept, owns].map(|slot| slot.protects(value)), [true; 2]);
        assert_eq!([released, paid].map(|slot| slot.is_free() && !slot.is_paid(value)), [true; 2]);
        assert!(!shared.is_free(), "a hazard pointer that protects nothing has lost its slot");
        assert_eq!(records.shared.load(Relaxed), 2, "that of the other thread, and the shared one");
        shared.give_back();
        let claimed: Vec<_> = (0..10).map(|_| records.claim().expect("memory")).collect();
        for (index, reader) in claimed.iter().enumerate() {
            let others = [own, other].into_iter().chain(claimed[..index].iter().copied());
            assert!(
                others.into_iter().all(|other| !core::ptr::eq(other, *reader)),
                "a record with two owners"
            );
        }
    }
}
