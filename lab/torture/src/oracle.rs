//! The oracle: detects grace periods that end too early without relying on the library.
//!
//! # Clocks
//!
//! Each reader has a clock, odd inside a critical section: stepped once after the section has begun and once before
//! it ends. An updater that sees an odd clock and then waits for a grace period must not see the same value
//! afterwards ([`ClockSnapshot`]). That is sound because
//!
//! - an odd clock belongs to a section whose beginning the grace period sees: the reader executes a light fence
//!   before the step, the grace period a heavy one after the snapshot, and the two are ordered. The heavy one cannot
//!   be first, as then the snapshot before it would not have seen the step. (Without fences, as in `qsbr`, the thread
//!   was online before.)
//! - the grace period waits for the end of that section, a Release after the second step, and acquires it, so that
//!   even a relaxed load afterwards sees the second step, or a later one.
//!
//! A snapshot may miss a section that has just begun, which makes the check weaker, not wrong. After [`fence::heavy`]
//! it misses none. But that fence could make up for one that the grace period lacks, so most snapshots do without.
//!
//! # Elements
//!
//! Readers load pointers to elements, whose memory is never returned to the allocator, so that use after free is
//! observable. An element is published, unpublished, and after a grace period freed: its stamp has its [`Age`] and
//! its generation. A reader that has loaded a pointer to it inside a section must not see it freed before the section
//! ends, nor in another generation. This finds what clocks cannot: a section whose beginning no updater saw, as it
//! was still in a store buffer.
//!
//! # Expected clocks
//!
//! An updater that has waited knows of a section that has ended. It stores the clock at that end in the element: a
//! reader that loads the element when it is published again must see the clock at or past that value, though it has
//! never synchronized with that section's reader. So the effects of a section are visible to all readers after the
//! grace period.
//!
//! # No ordering
//!
//! In the path of readers all of this is plain loads and stores: no fence, no read-modify-write, no store that others
//! wait for. They would hide missing fences of the library. An update orders no more than its publishing does.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use stillpoint::fence;

use super::slots::{READERS, WAIT_MODES};
use super::violation::{ElementUse, ViolationKind, report};

/// Pointers that readers load, and elements that these may point to.
const POINTERS: usize = 2;
const ELEMENTS: usize = 4096;

/// What readers and updaters share; leaked, as callbacks and signal handlers may come late.
#[derive(Debug)]
pub(super) struct Oracle {
    published: [CachePadded<AtomicPtr<Element>>; POINTERS],
    elements: Box<[Element]>,
    free: Mutex<VecDeque<&'static Element>>,
    /// Each is written only by the thread in that reader's slot.
    clocks: [CachePadded<AtomicU64>; READERS],
}

/// See the [module](self).
#[derive(Debug)]
#[repr(align(128))]
struct Element {
    /// The generation, and below that the [`Age`].
    stamp: AtomicU64,
    /// The clock, and below that its reader.
    expected_clock: AtomicU64,
    /// The updater that unpublished it, and below that the wait mode: for reports.
    by: AtomicU64,
}

/// The low bits of an element's stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Age {
    Published = 0,
    Unpublished = 1,
    Freed = 2,
}

const AGES: u64 = 4;

impl Element {
    const fn new() -> Self {
        Self {
            stamp: AtomicU64::new(Age::Freed as u64),
            expected_clock: AtomicU64::new(0),
            by: AtomicU64::new(0),
        }
    }

    // Relaxed, as all accesses to elements: the library must order them, which is what is checked.
    fn stamp(&self) -> u64 {
        self.stamp.load(Relaxed)
    }

    fn set(&self, age: Age) {
        let generation = self.stamp() / AGES + u64::from(age == Age::Published);
        self.stamp.store(generation * AGES + age as u64, Relaxed);
    }
}

fn is_freed(stamp: u64) -> bool {
    stamp % AGES == Age::Freed as u64
}

/// What a reader has seen inside its section.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    element: &'static Element,
    stamp: u64,
}

impl Oracle {
    pub(super) fn new() -> &'static Self {
        let oracle: &'static Self = Box::leak(Box::new(Self {
            published: [const { CachePadded::new(AtomicPtr::new(ptr::null_mut())) }; POINTERS],
            elements: (0..ELEMENTS).map(|_| Element::new()).collect(),
            free: Mutex::default(),
            clocks: Default::default(),
        }));
        oracle.free().extend(&oracle.elements);
        for pointer in &oracle.published {
            let element = oracle.allocate().expect("more elements than pointers");
            pointer.store(ptr::from_ref(element).cast_mut(), Release);
        }
        oracle
    }

    fn free(&self) -> MutexGuard<'_, VecDeque<&'static Element>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of an element, for reports.
    fn index(&self, element: &Element) -> u64 {
        let offset = ptr::from_ref(element).addr() - self.elements.as_ptr().addr();
        (offset / size_of::<Element>()) as u64
    }

    fn allocate(&self) -> Option<&'static Element> {
        let element = self.free().pop_front()?;
        element.set(Age::Published);
        Some(element)
    }

    /// Returns how many elements have not been freed, once all callbacks have run.
    pub(super) fn missing(&self) -> usize {
        ELEMENTS - POINTERS - self.free().len()
    }

    /// Called inside a section: loads a pointer, and checks its element.
    #[inline(always)]
    pub(super) fn observe(&self, reader: usize) -> Observation {
        let pointer = &self.published[fastrand::usize(..POINTERS)];
        // SAFETY: elements are leaked, and each pointer points to one.
        // Acquire: as every user of a published pointer; pairs with the AcqRel in `unpublish`.
        let element = unsafe { &*pointer.load(Acquire) };
        let seen = Observation { element, stamp: element.stamp() };
        if is_freed(seen.stamp) {
            report(ViolationKind::LoadedFreed(self.describe(reader, seen)));
        }
        let expected = element.expected_clock.load(Relaxed);
        let (other, expected) = (expected as usize % READERS, expected / READERS as u64);
        let clock = self.clock(other);
        if clock < expected {
            report(ViolationKind::ClockBehind { reader, other, clock, expected });
        }
        seen
    }

    /// Called later in the section: checks the element again.
    #[inline(always)]
    pub(super) fn recheck(&self, reader: usize, seen: Observation) {
        let stamp = seen.element.stamp();
        if is_freed(stamp) || stamp / AGES != seen.stamp / AGES {
            let used = self.describe(reader, seen);
            report(ViolationKind::FreedInUse { used, generation: stamp / AGES });
        }
    }

    #[cold]
    fn describe(&self, reader: usize, seen: Observation) -> ElementUse {
        let by = seen.element.by.load(Relaxed) as usize;
        ElementUse {
            reader,
            section: self.clock(reader) / 2,
            element: self.index(seen.element),
            generation: seen.stamp / AGES,
            updater: by / WAIT_MODES.len(),
            mode: WAIT_MODES[by % WAIT_MODES.len()].0,
        }
    }

    pub(super) fn clock(&self, reader: usize) -> u64 {
        self.clocks[reader].load(Relaxed)
    }

    /// Steps a reader's clock: just after a section has begun, and just before it ends.
    #[inline(always)]
    pub(super) fn step(&self, reader: usize) {
        // Relaxed: only the thread in this slot writes it; the module says what orders it.
        self.clocks[reader].store(self.clock(reader) + 1, Relaxed);
    }

    /// Returns how many sections have ended.
    pub(super) fn sections(&self) -> u64 {
        (0..READERS).map(|reader| self.clock(reader) / 2).sum()
    }

    /// Replaces a published element by a fresh one, for an updater that then waits for a grace period in this `mode`.
    /// Returns `None` if all elements are in use.
    pub(super) fn unpublish(&'static self, updater: usize, mode: usize) -> Option<Unpublished> {
        let fresh = self.allocate()?;
        let pointer = &self.published[fastrand::usize(..POINTERS)];
        // Drawn before the swap, so that little is executed after it.
        let snapshots = fastrand::u8(..8);
        // AcqRel: publishes the fresh element; pairs with the Acquire in `observe`, and with this one for the old
        // element.
        let old = pointer.swap(ptr::from_ref(fresh).cast_mut(), AcqRel);
        // SAFETY: elements are leaked.
        let element = unsafe { &*old };
        let snapshot = (snapshots < 4).then(|| self.snapshot_clocks(updater, mode, snapshots == 0));
        element.set(Age::Unpublished);
        element.by.store((updater * WAIT_MODES.len() + mode) as u64, Relaxed);
        Some(Unpublished { oracle: self, element, snapshot })
    }

    /// [`unpublish`](Self::unpublish), but so that as little as possible happens between that and the grace period.
    pub(super) fn unpublish_tightly(&'static self, updater: usize, mode: usize) -> Option<Unpublished> {
        let fresh = self.allocate()?;
        // For the report, as this updater alone unpublishes it.
        fresh.by.store((updater * WAIT_MODES.len() + mode) as u64, Relaxed);
        let pointer = &self.published[fastrand::usize(..POINTERS)];
        // AcqRel: as in `unpublish`.
        let old = pointer.swap(ptr::from_ref(fresh).cast_mut(), AcqRel);
        // SAFETY: elements are leaked.
        Some(Unpublished { oracle: self, element: unsafe { &*old }, snapshot: None })
    }

    /// Returns the clocks of all readers; after a fence if `fenced`.
    fn snapshot_clocks(&'static self, updater: usize, mode: usize, fenced: bool) -> ClockSnapshot {
        if fenced {
            // Pairs with the light fence of entering readers.
            fence::heavy();
        }
        // Acquire: later accesses stay behind these loads.
        let clocks = self.clocks.each_ref().map(|clock| clock.load(Acquire));
        ClockSnapshot { oracle: self, waits: Some((updater, mode)), clocks }
    }

    /// Returns the clock of the calling reader, for a callback that it defers.
    pub(super) fn snapshot_own_clock(&'static self, reader: usize) -> ClockSnapshot {
        let mut clocks = [0; READERS];
        clocks[reader] = self.clock(reader);
        ClockSnapshot { oracle: self, waits: None, clocks }
    }
}

/// The clocks of readers before a grace period.
#[derive(Debug)]
pub(super) struct ClockSnapshot {
    oracle: &'static Oracle,
    /// The waiting updater, and its mode; `None` for a reader's callback.
    waits: Option<(usize, usize)>,
    clocks: [u64; READERS],
}

impl ClockSnapshot {
    /// Called after the grace period: reports sections that were open before and still are. Returns a clock to expect
    /// from now on, if a section was open before.
    pub(super) fn check(&self) -> Option<u64> {
        let mut expected = None;
        for (reader, &clock) in self.clocks.iter().enumerate().filter(|(_, clock)| *clock % 2 == 1) {
            // Relaxed: the grace period has ordered the end of the section before this.
            if self.oracle.clock(reader) == clock {
                let section = clock / 2;
                report(match self.waits {
                    Some((updater, mode)) => {
                        let mode = WAIT_MODES[mode].0;
                        ViolationKind::GracePeriodTooShort { reader, section, updater, mode }
                    }
                    None => ViolationKind::CallbackInSection { reader, section },
                });
            }
            expected = Some((clock + 1) * READERS as u64 + reader as u64);
        }
        expected
    }
}

/// An element that waits for its grace period.
#[derive(Debug)]
#[must_use]
pub(super) struct Unpublished {
    oracle: &'static Oracle,
    element: &'static Element,
    snapshot: Option<ClockSnapshot>,
}

impl Unpublished {
    /// Called after the grace period: frees the element. Returns `true` if a section is known to have been open
    /// before.
    pub(super) fn mark_freed(self) -> bool {
        let expected = self.snapshot.as_ref().and_then(ClockSnapshot::check);
        self.element.set(Age::Freed);
        self.element.expected_clock.store(expected.unwrap_or(0), Relaxed);
        self.oracle.free().push_back(self.element);
        expected.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::violation::take;
    use super::*;

    fn free_without_check(unpublished: Unpublished) {
        Unpublished { snapshot: None, ..unpublished }.mark_freed();
    }

    // One test, as there is only one first violation.
    #[test]
    fn oracle_reports_violations_and_nothing_else() {
        let oracle = Oracle::new();
        oracle.step(1);
        let snapshot = oracle.snapshot_clocks(0, 3, false);
        oracle.step(1);
        assert_eq!(snapshot.check(), Some(2 * READERS as u64 + 1), "that section has ended");
        assert_eq!(take(), None);
        oracle.step(1);
        oracle.snapshot_clocks(0, 3, false).check();
        let mode = WAIT_MODES[3].0;
        let expected = ViolationKind::GracePeriodTooShort { reader: 1, section: 1, updater: 0, mode };
        assert_eq!(take(), Some(expected), "it is still open");
        oracle.snapshot_own_clock(1).check();
        assert_eq!(take(), Some(ViolationKind::CallbackInSection { reader: 1, section: 1 }));

        let seen = oracle.observe(1);
        let unpublished: Vec<_> = (0..64).filter_map(|_| oracle.unpublish(2, 5)).collect();
        oracle.recheck(1, seen);
        assert_eq!(take(), None, "unpublished is not freed");
        unpublished.into_iter().for_each(free_without_check);
        oracle.recheck(1, seen);
        let Some(ViolationKind::FreedInUse { used, .. }) = take() else { panic!("it is freed in use") };
        assert_eq!((used.reader, used.updater, used.mode), (1, 2, WAIT_MODES[5].0));
        assert_eq!(oracle.missing(), 0);

        let unpublished = oracle.unpublish(0, 0).expect("there are elements");
        oracle.step(4);
        let snapshot = Some(oracle.snapshot_clocks(0, 0, false));
        oracle.step(4);
        oracle.step(1);
        let element = unpublished.element;
        assert!(Unpublished { snapshot, ..unpublished }.mark_freed());
        element.set(Age::Published);
        oracle.published.iter().for_each(|pointer| pointer.store(ptr::from_ref(element).cast_mut(), Relaxed));
        oracle.observe(2);
        assert_eq!(take(), None, "the clock is as expected");
        oracle.clocks[4].store(1, Relaxed);
        oracle.observe(2);
        let expected = ViolationKind::ClockBehind { reader: 2, other: 4, clock: 1, expected: 2 };
        assert_eq!(take(), Some(expected));
        free_without_check(Unpublished { oracle, element, snapshot: None });
        oracle.observe(2);
        assert!(matches!(take(), Some(ViolationKind::LoadedFreed(_))));
    }
}
