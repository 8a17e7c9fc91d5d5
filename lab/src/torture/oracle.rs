//! What tells whether a grace period was one, without asking the library.
//!
//! # Clocks
//!
//! Each reader has a number of its own, odd inside a section: stepped once after the section has begun and once before it
//! ends. Whoever sees an odd number and then waits for a grace period must not see it afterwards ([`Look`]). That is sound
//! because
//!
//! - a number seen odd is that of a section whose beginning the grace period sees: the reader passes a light fence before the
//!   step, the grace period executes a heavy one after the look, and the two are ordered. The heavy one cannot be first, as then
//!   the look before it would not have seen the step. (Without fences, as in `qsbr`, the thread was online before.)
//! - the grace period waits for the end of that section, which is a release after the second step and is acquired by the grace
//!   period, so that even a relaxed look afterwards sees the second step, or a later one.
//!
//! A look may miss a section that has just begun, which makes the check weaker, not wrong. After [`fence::heavy`] it misses none.
//! But that fence could make up for one that the grace period lacks, so most looks do without.
//!
//! # Elements
//!
//! What readers load are elements, whose memory is never given back, so that one that has been freed can be looked at. An element is
//! shown, withdrawn, and after a grace period freed: it says so itself ([`Age`]), with the number of times that it was made
//! anew. A reader that has loaded a pointer to it inside a section must not see it freed before the section ends, nor made anew.
//! This finds what clocks cannot: a section whose beginning nobody saw, as it was in a store buffer still.
//!
//! # Promises
//!
//! Who has waited knows of a section that has ended, and has the next user of the element promise it: whoever loads the element
//! must see that reader's clock past that section, though he has never synchronized with that reader. So grace periods carry what
//! one reader did to all others.
//!
//! # Nothing that orders
//!
//! In the path of readers all of this is plain loads and stores: no fence, no read-modify-write, no store that others wait for. They
//! would repair what they are to find. An update orders no more than its publishing does.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use stillpoint::fence;

use super::history::{Case, Happened, History, What};

/// Seats of readers and of updaters.
pub(super) const READERS: usize = 8;
pub(super) const UPDATERS: usize = 16;

/// Pointers that readers load, and the elements that they may point to.
const SHOWN: usize = 2;
const ELEMENTS: usize = 4096;

/// What readers and updaters share, for as long as the process runs: callbacks and signal handlers may come at any time.
#[derive(Debug)]
pub(super) struct Stage {
    shown: [CachePadded<AtomicPtr<Element>>; SHOWN],
    elements: Box<[Element]>,
    free: Mutex<VecDeque<&'static Element>>,
    clocks: [CachePadded<Clock>; READERS],
    /// What happened to each reader, and to each updater.
    pub(super) histories: [History; READERS + UPDATERS],
}

/// One reader's; only the thread in that seat writes it.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

/// See the [module](self).
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Element {
    /// How often it was made anew, and below that the [`Age`].
    stamp: AtomicU64,
    /// A reader, and what its clock has reached; see the [module](self).
    promise: AtomicU64,
    /// Who withdrew it and how, for reports.
    by: AtomicU64,
}

/// Of an element: the low bits of its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Age {
    Shown = 0,
    Withdrawn = 1,
    Freed = 2,
}

const AGES: u64 = 4;

impl Element {
    const fn new() -> Self {
        Self { stamp: AtomicU64::new(Age::Freed as u64), promise: AtomicU64::new(0), by: AtomicU64::new(0) }
    }

    // Relaxed, as all here: what orders these is what is to be checked.
    fn stamp(&self) -> u64 {
        self.stamp.load(Relaxed)
    }

    fn set(&self, age: Age) {
        let stamp = self.stamp();
        let anew = if age == Age::Shown { AGES } else { 0 };
        self.stamp.store(stamp / AGES * AGES + anew + age as u64, Relaxed);
    }
}

/// Whether somebody may use an element with this stamp.
fn is_live(stamp: u64) -> bool {
    stamp % AGES != Age::Freed as u64
}

/// What a reader has seen inside its section.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    element: &'static Element,
    stamp: u64,
}

impl Stage {
    pub(super) fn new() -> &'static Self {
        let stage: &'static Self = Box::leak(Box::new(Self {
            shown: [const { CachePadded::new(AtomicPtr::new(ptr::null_mut())) }; SHOWN],
            elements: (0..ELEMENTS).map(|_| Element::new()).collect(),
            free: Mutex::default(),
            clocks: Default::default(),
            histories: [const { History::new() }; READERS + UPDATERS],
        }));
        stage.free().extend(&stage.elements);
        for shown in &stage.shown {
            if let Some(element) = stage.fresh() {
                shown.store(ptr::from_ref(element).cast_mut(), Release);
            }
        }
        stage
    }

    fn free(&self) -> MutexGuard<'_, VecDeque<&'static Element>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place in `elements`, for reports.
    fn place(&self, element: &Element) -> u64 {
        let offset = ptr::from_ref(element).addr() - self.elements.as_ptr().addr();
        (offset / size_of::<Element>()) as u64
    }

    /// An element that nobody uses.
    fn fresh(&self) -> Option<&'static Element> {
        let element = self.free().pop_front()?;
        element.set(Age::Shown);
        Some(element)
    }

    /// When nothing is deferred any more: how many elements have not come back.
    pub(super) fn missing(&self) -> usize {
        ELEMENTS - SHOWN - self.free().len()
    }

    /// Inside a section: loads a pointer, and looks at what it points to.
    #[inline(always)]
    pub(super) fn see(&self, reader: usize) -> Sight {
        let place = fastrand::usize(..SHOWN);
        // Acquire: as whoever loads a pointer does.
        let element = self.shown[place].load(Acquire);
        // SAFETY: elements live for ever, and each pointer points to one.
        let element = unsafe { &*element };
        let sight = Sight { element, stamp: element.stamp() };
        if !is_live(sight.stamp) {
            self.report_sight(What::SawFreed, reader, sight, sight.stamp);
        }
        let promise = element.promise.load(Relaxed);
        let (other, number) = (promise as usize % READERS, promise / READERS as u64);
        let shown = self.clocks[other].0.load(Relaxed);
        if shown < number {
            super::history::report(Case {
                what: What::Forgotten,
                who: reader as u64,
                section: number / 2,
                other: other as u64,
                before: number,
                after: shown,
                ..Case::default()
            });
        }
        sight
    }

    /// Later in the section: looks at it again.
    #[inline(always)]
    pub(super) fn see_again(&self, reader: usize, sight: Sight) {
        let stamp = sight.element.stamp();
        if !is_live(stamp) || stamp / AGES != sight.stamp / AGES {
            self.report_sight(What::FreedUnder, reader, sight, stamp);
        }
    }

    #[cold]
    fn report_sight(&self, what: What, reader: usize, sight: Sight, after: u64) {
        let by = sight.element.by.load(Relaxed);
        super::history::report(Case {
            what,
            who: reader as u64,
            section: self.number(reader) / 2,
            element: self.place(sight.element),
            other: by / 256,
            way: by % 256,
            before: sight.stamp,
            after,
        });
    }

    pub(super) fn number(&self, reader: usize) -> u64 {
        self.clocks[reader].0.load(Relaxed)
    }

    /// Just after a section has begun, and just before it ends.
    #[inline(always)]
    pub(super) fn step(&self, reader: usize) {
        let clock = &self.clocks[reader].0;
        // Relaxed: only this seat's thread writes it; the module says what orders it.
        clock.store(clock.load(Relaxed) + 1, Relaxed);
    }

    /// Sections that have ended.
    pub(super) fn sections(&self) -> u64 {
        (0..READERS).map(|reader| self.number(reader) / 2).sum()
    }

    /// Shows a fresh element in place of another, for `updater`, who is about to wait for a grace period in this `way`. What then
    /// must happen; nothing if all elements are in use.
    pub(super) fn replace(&'static self, updater: usize, way: usize) -> Option<Withdrawn> {
        let fresh = self.fresh()?;
        let place = fastrand::usize(..SHOWN);
        // Before the swap, so that little comes after it.
        let looks = fastrand::u8(..8);
        // AcqRel: what is shown is there; so is what was.
        let old = self.shown[place].swap(ptr::from_ref(fresh).cast_mut(), AcqRel);
        // SAFETY: elements live for ever.
        let element = unsafe { &*old };
        let look = (looks < 4).then(|| self.look(updater, way, looks == 0));
        element.set(Age::Withdrawn);
        element.by.store((updater * 256 + way) as u64, Relaxed);
        self.histories[READERS + updater].note(Happened::Withdrew, self.place(element));
        Some(Withdrawn { stage: self, element, look })
    }

    /// What the readers show now; behind a fence if `fenced`.
    pub(super) fn look(&'static self, updater: usize, way: usize, fenced: bool) -> Look {
        if fenced {
            // Partner: the light fence of whoever enters.
            fence::heavy();
        }
        // Acquire: what follows comes after.
        let numbers = self.clocks.each_ref().map(|clock| clock.0.load(Acquire));
        Look { stage: self, updater, way, numbers }
    }

    /// What one reader shows now, for itself.
    pub(super) fn look_at(&'static self, reader: usize, way: usize) -> Look {
        let mut numbers = [0; READERS];
        numbers[reader] = self.number(reader);
        Look { stage: self, updater: UPDATERS, way, numbers }
    }
}

/// What the readers showed.
#[derive(Debug)]
pub(super) struct Look {
    stage: &'static Stage,
    updater: usize,
    way: usize,
    numbers: [u64; READERS],
}

impl Look {
    /// After a grace period: reports sections that were open before and still are. A promise of one that was and is not.
    pub(super) fn check(&self) -> Option<u64> {
        let mut promise = None;
        for (reader, &number) in self.numbers.iter().enumerate().filter(|(_, number)| *number % 2 == 1) {
            // Relaxed: the grace period has ordered the end of the section before this.
            if self.stage.number(reader) == number {
                super::history::report(Case {
                    what: What::TooShort,
                    who: reader as u64,
                    section: number / 2,
                    other: self.updater as u64,
                    way: self.way as u64,
                    before: number,
                    after: number,
                    ..Case::default()
                });
            }
            promise = Some((number + 1) * READERS as u64 + reader as u64);
        }
        promise
    }
}

/// An element that waits for its grace period.
#[derive(Debug)]
#[must_use]
pub(super) struct Withdrawn {
    stage: &'static Stage,
    element: &'static Element,
    look: Option<Look>,
}

impl Withdrawn {
    /// After the grace period: frees the element. Whether a section was open before.
    pub(super) fn free(self) -> bool {
        let promise = self.look.as_ref().and_then(Look::check);
        self.element.set(Age::Freed);
        self.element.promise.store(promise.unwrap_or(0), Relaxed);
        self.stage.free().push_back(self.element);
        promise.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::take_case;
    use super::*;

    // One test, as there is one place for what went wrong.
    #[test]
    fn sections_that_stay_open_and_elements_that_are_freed_too_early_are_reported_and_others_not() {
        let stage = Stage::new();
        stage.step(1);
        let look = stage.look(0, 3, false);
        stage.step(1);
        assert_eq!(look.check(), Some(2 * READERS as u64 + 1), "that section has ended");
        assert!(take_case().is_none());

        stage.step(1);
        let _ = stage.look(0, 3, false).check();
        let case = take_case().expect("it is still open");
        assert_eq!((case.what, case.who, case.section, case.way), (What::TooShort, 1, 1, 3));

        let sight = stage.see(1);
        stage.see_again(1, sight);
        assert!(take_case().is_none());
        let mut withdrawn: Vec<_> = (0..64).filter_map(|_| stage.replace(2, 5)).collect();
        stage.see_again(1, sight);
        assert!(take_case().is_none(), "withdrawn is not freed");
        withdrawn.drain(..).for_each(|old| {
            Withdrawn { look: None, ..old }.free();
        });
        stage.see_again(1, sight);
        let case = take_case().expect("freed inside the section");
        assert_eq!((case.what, case.other, case.way), (What::FreedUnder, 2, 5));
        assert_eq!(stage.missing(), 0);
    }

    #[test]
    fn a_promise_that_is_not_kept_is_one_of_a_clock_behind() {
        let stage = Stage::new();
        let old = stage.replace(0, 0).expect("there are elements");
        stage.step(4);
        let old = Withdrawn { look: Some(stage.look(0, 0, false)), ..old };
        stage.step(4);
        assert!(old.free());
        assert_eq!(stage.number(4), 2);
    }
}
