//! A count of references that is per CPU until it is killed: the algorithm of [`super::RefCount`] and [`super::Arc`].
//!
//! After the Linux kernel's `percpu_ref` (`lib/percpu-refcount.c`, Kent Overstreet and Tejun Heo). While the count is
//! *alive*, a get adds to a word of the current CPU, and a put subtracts from one. A thread that gets on one CPU may
//! put on another: only the sum over all CPUs means something, and no thread takes it. The kill switches to one
//! shared count. From then on the put that makes it zero finds that.
//!
//! ```text
//! get, put   section: gate open? then word of this CPU +- ONE        otherwise: count +- ONE
//!
//! kill       count |= SHARED | KILLED                                shuts the gate
//!            interrupt the sections of all CPUs
//!            sum the words
//!            count += sum - BIAS - ONE                               drops the initial reference
//! ```
//!
//! The gate is bit 0 of the count. The kernel reads its gate in an RCU section, and sums after a grace period. Here
//! the get is one rseq critical section anyway, and reads the gate there: so an interrupt of all sections, by
//! `membarrier`, takes the place of the grace period.
//!
//! # The count
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | `SHARED`: the gate is shut |
//! | 1 | `KILLED` |
//! | 2 | `KEPT`: what the count is for stays after zero, for an owner that takes it back ([`super::IntoInner`]) |
//! | 3 | `AWAITED`: a thread or future has left a waker ([`super::zero`]) |
//! | 4 to 63 | signed: the gets less the puts that were made here, the initial reference included; and `BIAS`, until the sum has been added |
//!
//! # Invariants
//!
//! 1. *Each get and put is counted once*: by a section that found the gate open, or by a read-modify-write of the
//!    count. Threads that cannot run sections use the count from the start, so it makes no difference when they see
//!    the gate.
//! 2. *The sum has all that sections counted, and they count no more.* The interrupt comes after the gate is shut:
//!    sections that began before have committed, and the sum sees them, or start over and find the gate shut
//!    ([`super::words`], 5).
//! 3. *The count is not zero while `BIAS` is in it*, whatever part of the gets and puts it has: they are fewer than
//!    `BIAS`.
//! 4. *Zero means that there is no reference*: by (1) and (2) the count is exact once the kill has added the sum, in
//!    one step. While there is a reference it is above zero, and only the owner of a reference may get.
//! 5. *One thread finds zero*, whatever threads do that have no reference, as one operation takes the count from
//!    above zero to zero or below, and none increments it then: a get compares and increments in one step. In that
//!    step it finds the other bits: a thread that sets or clears one comes before, or finds zero.
//!
//! # Orderings
//!
//! What the owner of each reference did comes before what follows zero: a put releases, and the thread that finds
//! zero acquires. A put in a section is published by the interrupt, to the thread that kills; that releases it with
//! the sum. Gets need no ordering: their callers have a reference already, or want no more than the count.

use super::words::CpuWords;
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

const SHARED: u64 = 1;
const KILLED: u64 = 2;
const KEPT: u64 = 4;
const AWAITED: u64 = 8;
const ONE: u64 = 16;
const BIAS: u64 = 1 << 61;

/// See the [module](self).
#[derive(Debug)]
pub struct Count {
    count: AtomicU64,
    word: CpuWords<1>,
}

/// Zero, for the thread that has found it: there is no reference any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct FoundZero {
    /// Threads or futures are to be woken.
    pub is_awaited: bool,
    /// An owner takes back what the count is for, or disposes of it.
    pub is_kept: bool,
}

impl FoundZero {
    fn in_count(count: u64) -> Self {
        Self { is_awaited: count & AWAITED != 0, is_kept: count & KEPT != 0 }
    }
}

/// What a kill did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    /// There was one before.
    Again,
    /// There are references.
    Pending,
    /// There is none: the caller does what follows zero.
    Zero(FoundZero),
    /// There is none: there were so many more puts than gets.
    Overdrawn(u64, FoundZero),
    /// The kernel denies the interrupt, although it allowed it before. The count is never zero.
    Denied,
}

/// Panics after [`Killed::Denied`].
#[cold]
#[track_caller]
pub fn denied() -> ! {
    panic!(
        "the kernel denies membarrier(PRIVATE_EXPEDITED_RSEQ), although it allowed it before: a killed count is never zero"
    )
}

impl Count {
    const_unless_loom! {
        /// Returns a count of one, that is alive.
        pub fn new() -> Self {
            Self { count: AtomicU64::new(BIAS + ONE), word: CpuWords::new() }
        }
    }

    /// Takes the word, which allocates, so that the first get does not.
    pub fn prepare(&self) {
        let _ = self.word.prepare_open();
    }

    /// Gets a reference. The caller has one, or the count is alive.
    ///
    /// # Panics
    ///
    /// If the count is zero.
    #[inline(always)]
    #[track_caller]
    pub fn get(&self) {
        if !self.word.try_add_open(&self.count, ONE) {
            self.get_slow();
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn get_slow(&self) {
        let got = self.add_to_word(ONE) || self.get_if(|count| references(count) > 0);
        assert!(got, "a reference was taken from a count that is zero");
    }

    /// Gets a reference, unless the count has been killed.
    #[inline(always)]
    #[must_use]
    pub fn try_get(&self) -> bool {
        self.word.try_add_open(&self.count, ONE) || self.try_get_slow()
    }

    #[cold]
    #[inline(never)]
    fn try_get_slow(&self) -> bool {
        self.add_to_word(ONE) || self.get_if(|count| count & KILLED == 0)
    }

    fn get_if(&self, may_get: impl Fn(u64) -> bool) -> bool {
        // Relaxed, here and below: see the module.
        let mut count = self.count.load(Relaxed);
        while may_get(count) {
            match self.count.compare_exchange(count, count + ONE, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Puts a reference. Returns zero if there is none any more.
    ///
    /// # Panics
    ///
    /// If there was none.
    #[inline(always)]
    #[track_caller]
    pub fn put(&self) -> Option<FoundZero> {
        // While sections count, the count is not zero (3).
        if self.word.try_add_open(&self.count, ONE.wrapping_neg()) { None } else { self.put_slow() }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn put_slow(&self) -> Option<FoundZero> {
        if self.add_to_word(ONE.wrapping_neg()) {
            return None;
        }
        let before = self.put_shared();
        assert!(references(before) > 0, "a count of zero was decremented: there were more puts than gets");
        (references(before) == 1).then(|| FoundZero::in_count(before))
    }

    /// Returns the count before.
    fn put_shared(&self) -> u64 {
        // Release: publishes what was done with the reference; pairs with the Acquire of the last put, and of `kill`.
        // Acquire: the other half, of the last put.
        self.count.fetch_sub(ONE, AcqRel)
    }

    /// Adds to the word of this CPU, if the gate is open and the thread can run sections.
    fn add_to_word(&self, by: u64) -> bool {
        // Relaxed: a section reads it again.
        self.count.load(Relaxed) & SHARED == 0 && self.word.try_add_open_slow(&self.count, by)
    }

    /// Kills the count, and puts the initial reference. If `keep`, the caller takes back what the count is for.
    pub fn kill(&self, keep: bool) -> Killed {
        let kept = if keep { KEPT } else { 0 };
        // Relaxed: the interrupt publishes the gate.
        if self.count.fetch_or(SHARED | KILLED | kept, Relaxed) & KILLED != 0 {
            return Killed::Again;
        }
        let Some(sum) = self.word.close() else { return Killed::Denied };
        let change = sum.wrapping_sub(BIAS + ONE);
        // Release: publishes what was done with the references that were put in sections, and with the initial one;
        // pairs with the Acquire of the last put. Acquire: sees what was done with those that were put here; pairs
        // with the Release in `put_shared`.
        let left = self.count.fetch_add(change, AcqRel).wrapping_add(change);
        let zero = FoundZero::in_count(left);
        match references(left) {
            1.. => Killed::Pending,
            0 => Killed::Zero(zero),
            puts => Killed::Overdrawn(puts.unsigned_abs(), zero),
        }
    }

    /// After a kill that keeps: leaves what the count is for to the thread that finds zero. Returns `true` if one has
    /// found it: then it is the caller's.
    pub fn abandon(&self) -> bool {
        // Acquire: sees what was done with the references; pairs with the Release in `put_shared`.
        references(self.count.fetch_and(!KEPT, Acquire)) <= 0
    }

    /// Has the thread that finds zero wake those that wait. Returns `true` if one may have found it before.
    pub fn set_awaited(&self) -> bool {
        // Acquire: as in `is_zero`.
        references(self.count.fetch_or(AWAITED, Acquire)) <= 0
    }

    /// Returns `true` if the count has been killed.
    pub fn is_killed(&self) -> bool {
        self.count.load(Relaxed) & KILLED != 0
    }

    /// Returns `true` if the count has been killed, and all references have been put.
    pub fn is_zero(&self) -> bool {
        // Acquire: sees what was done with the references; pairs with the Releases in `put_shared` and `kill`.
        references(self.count.load(Acquire)) <= 0
    }

    /// Returns the number of references of a count that has been killed.
    pub fn references(&self) -> Option<u64> {
        let count = self.count.load(Relaxed);
        // Still with `BIAS` while it is being killed.
        (count & KILLED != 0).then(|| references(count).max(0) as u64).filter(|count| *count < BIAS / ONE / 2)
    }
}

/// Returns the gets less the puts of a count, and `BIAS / ONE` while that is in it.
fn references(count: u64) -> i64 {
    count as i64 >> ONE.ilog2()
}
