//! The first violation of a guarantee of the library.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::common::Kind;
use super::slots::WaitMode;

/// Printed with `Debug`.
#[rustfmt::skip]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViolationKind {
    /// A reader loaded a pointer to an element that was freed.
    LoadedFreed(ElementUse),
    /// An element was freed while a section used it; it is in this generation now.
    FreedInUse { used: ElementUse, generation: u64 },
    /// A grace period ended before a section that had begun before it.
    GracePeriodTooShort { reader: usize, section: u64, updater: usize, mode: WaitMode },
    /// A callback ran in the section that deferred it.
    CallbackInSection { reader: usize, section: u64 },
    /// A cookie elapsed in the section in which it was taken.
    CookieInSection { reader: usize, section: u64 },
    /// Of two cookies the greater one elapsed first.
    CookieOrder { updater: usize },
    /// A barrier returned before a callback of `owner` that had been queued before.
    BarrierTooShort { updater: usize, owner: usize, posted: u64, ran: u64 },
    /// Callbacks of one thread ran out of order.
    CallbackOrder { updater: usize, number: u64, expected: u64 },
    /// An effect of a section of `other` before a grace period is not seen after it.
    ClockBehind { reader: usize, other: usize, clock: u64, expected: u64 },
    ReaderPanicked { reader: usize },
}

/// A reader's use of an element, and the updater that unpublished it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ElementUse {
    pub(super) reader: usize,
    pub(super) section: u64,
    pub(super) element: u64,
    pub(super) generation: u64,
    pub(super) updater: usize,
    pub(super) mode: WaitMode,
}

static FIRST: Mutex<Option<ViolationKind>> = Mutex::new(None);
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

fn first() -> MutexGuard<'static, Option<ViolationKind>> {
    FIRST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the first violation. May be called in signal handlers: it does not allocate, and acquires the lock once in
/// the life of the process, while at most the coordinator holds it, which gets no signals.
#[cold]
pub(super) fn report(kind: ViolationKind) {
    if !IS_REPORTED.swap(true, Relaxed) {
        *first() = Some(kind);
    }
}

/// Returns the first violation, if there is one.
pub(super) fn failure() -> Option<(Kind, String)> {
    let kind = (*first())?;
    Some((kind.kind(), format!("{kind:?}")))
}

/// Removes the violation.
#[cfg(test)]
pub(super) fn take() -> Option<ViolationKind> {
    IS_REPORTED.store(false, Relaxed);
    first().take()
}

impl ViolationKind {
    fn kind(self) -> Kind {
        match self {
            Self::LoadedFreed(_)
            | Self::FreedInUse { .. }
            | Self::GracePeriodTooShort { .. }
            | Self::CallbackInSection { .. }
            | Self::CookieInSection { .. } => Kind::Early,
            Self::CookieOrder { .. }
            | Self::BarrierTooShort { .. }
            | Self::CallbackOrder { .. }
            | Self::ClockBehind { .. } => Kind::Order,
            Self::ReaderPanicked { .. } => Kind::Panic,
        }
    }
}
