//! What a handle of a collector and its guards share.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{Ordering::SeqCst, fence};

use stillpoint::Domain as _;
use stillpoint::rcu::{self, DeferOptions, epoch};
use stillpoint::srcu;

use crate::collector::{Collector, DefaultDomain, MULTI_COPY_ATOMIC, OPTIONS, default_domain};
use crate::deferred::Bag;

/// See the [module](self).
pub(crate) struct Local {
    pub(crate) collector: Collector,
    /// The guards, one of which has opened the section.
    pub(crate) guards: Cell<usize>,
    section: Cell<Option<Section>>,
    /// What is not handed to the domain yet.
    bag: RefCell<Bag>,
    /// [`Guard::flush`](crate::Guard::flush) was called in the section.
    must_flush: Cell<bool>,
    /// What has been deferred in the collector may be ready.
    must_run: Cell<bool>,
}

thread_local! {
    /// The sections that handles of the default collector have opened in this thread.
    static DEFAULT_SECTIONS: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many sections handles of the default collector have opened in this thread.
pub(crate) fn default_sections() -> u64 {
    DEFAULT_SECTIONS.get()
}

#[expect(dead_code, reason = "they are held until they are dropped")]
enum Section {
    Default(rcu::Guard<DefaultDomain>),
    Own(srcu::Guard<'static>),
}

impl Local {
    pub(crate) fn new(collector: Collector) -> Self {
        Self {
            collector,
            guards: Cell::new(0),
            section: Cell::new(None),
            bag: RefCell::default(),
            must_flush: Cell::new(false),
            must_run: Cell::new(false),
        }
    }

    #[inline]
    fn pin(&self) {
        if self.guards.get() == 0 && self.must_run.take() {
            self.run_ready();
        }
        if self.guards.get() == 0 {
            let section = self.enter();
            // Functions that have just run may have pinned the handle, and have kept the guard.
            if self.guards.get() == 0 {
                self.section.set(Some(section));
            } else {
                Self::end(section);
            }
        }
        self.guards.set(self.guards.get() + 1);
    }

    /// Runs what is ready. The functions may pin the handle.
    #[cold]
    fn run_ready(&self) {
        if let Some(domain) = self.domain() {
            epoch::run_ready(domain);
        }
    }

    #[inline]
    fn unpin(&self) {
        let guards = self.guards.get() - 1;
        self.guards.set(guards);
        if guards == 0 {
            self.leave();
        }
    }

    /// Begins a section. Functions may run before, and may pin the handle.
    fn enter(&self) -> Section {
        let section = match self.domain() {
            None => {
                let guard = DefaultDomain::enter();
                DEFAULT_SECTIONS.set(DEFAULT_SECTIONS.get() + 1);
                Section::Default(guard)
            }
            Some(domain) => {
                // SAFETY: the handle is in this value, which is on the heap, and each guard of the section keeps this value.
                let domain: &'static srcu::Domain = unsafe { &*ptr::from_ref(domain) };
                Section::Own(domain.enter())
            }
        };
        if !MULTI_COPY_ATOMIC {
            fence(SeqCst);
        }
        section
    }

    /// Ends the section. Runs none of the functions: the caller may hold a lock that they take.
    fn leave(&self) {
        if let Some(section) = self.section.take() {
            Self::end(section);
        }
        let must_flush = self.must_flush.take();
        if must_flush || self.bag.borrow().is_full() {
            self.collect(must_flush);
        }
    }

    fn end(section: Section) {
        if matches!(section, Section::Default(_)) {
            DEFAULT_SECTIONS.set(DEFAULT_SECTIONS.get() - 1);
        }
        drop(section);
    }

    /// Hands the bag over. If `must_flush`, what has been deferred in the collector goes through a grace period, unless
    /// another handle is pinned.
    #[cold]
    fn collect(&self, must_flush: bool) {
        let Some(domain) = self.domain() else { return };
        self.hand_over(domain);
        if must_flush {
            self.must_run.set(epoch::collect(domain));
        }
    }

    /// Returns the collector's domain if it is not the default one.
    #[inline]
    fn domain(&self) -> Option<&srcu::Domain> {
        self.collector.domain()
    }

    /// Has the functions of the bag run after a grace period. The handle is not pinned: the caller may be throttled.
    fn hand_over(&self, domain: &srcu::Domain) {
        let bag = self.bag.take();
        if !bag.is_empty() {
            let options = DeferOptions::new().heap_bytes(bag.bytes());
            // SAFETY: the contracts under which the functions were pushed; the grace period begins now.
            unsafe { domain.call_unchecked(move || bag.run(), options) };
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(domain) = self.domain() {
            self.hand_over(domain);
        }
    }
}

/// What a guard of a handle holds.
pub(crate) struct HandleGuard(Rc<Local>);

impl HandleGuard {
    #[inline]
    pub(crate) fn new(local: &Rc<Local>) -> Self {
        local.pin();
        Self(Rc::clone(local))
    }

    #[inline]
    pub(crate) fn collector(&self) -> &Collector {
        &self.0.collector
    }

    pub(crate) fn flush(&self) {
        match self.0.domain() {
            None => {
                // Functions that run meanwhile may pin the handle, which stays pinned.
                let section = self.0.section.take();
                if let Some(Section::Default(guard)) = &section {
                    epoch::flush(guard);
                }
                self.0.section.set(section);
            }
            Some(domain) => {
                epoch::run_ready(domain);
                // No grace period can end before the section does.
                self.0.must_flush.set(true);
            }
        }
    }

    /// Ends the section and begins a new one, if this is the handle's only guard. Runs no functions.
    pub(crate) fn repin(&self) {
        let local = &*self.0;
        if local.guards.get() != 1 {
            return;
        }
        match local.section.take() {
            Some(Section::Default(mut guard)) => {
                guard.repin();
                local.section.set(Some(Section::Default(guard)));
            }
            section => {
                local.section.set(section);
                local.leave();
                local.section.set(Some(local.enter()));
            }
        }
    }

    /// Ends the section and calls `f`, if this is the handle's only guard. Then begins a new one, also if `f` panics.
    pub(crate) fn repin_after<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Repin<'a>(&'a Local);
        impl Drop for Repin<'_> {
            fn drop(&mut self) {
                self.0.pin();
            }
        }
        self.0.unpin();
        let _repin = Repin(&self.0);
        f()
    }

    /// Defers `f`: by [`push_call`](Bag::push_call), or in the default domain.
    ///
    /// # Safety
    ///
    /// Any thread may call `f` after a grace period, however late.
    pub(crate) unsafe fn defer(&self, f: impl FnOnce()) {
        match self.0.domain() {
            // SAFETY: the caller's contract.
            None => unsafe { default_domain().call_unchecked(f, OPTIONS) },
            // SAFETY: the caller's contract.
            Some(_) => unsafe { self.0.bag.borrow_mut().push_call(f) },
        }
    }

    /// Defers a call of `drop_fn`.
    ///
    /// # Safety
    ///
    /// Any thread may call `drop_fn` with `pointer` once after a grace period, however late.
    pub(crate) unsafe fn defer_drop(&self, pointer: *mut (), bytes: usize, drop_fn: unsafe fn(*mut ())) {
        match self.0.domain() {
            // SAFETY: the caller's contract.
            None => unsafe { default_domain().retire_raw_with(pointer, bytes, drop_fn, OPTIONS) },
            // SAFETY: the caller's contract.
            Some(_) => unsafe { self.0.bag.borrow_mut().push_drop(pointer, bytes, drop_fn) },
        }
    }
}

impl Drop for HandleGuard {
    #[inline]
    fn drop(&mut self) {
        self.0.unpin();
    }
}
