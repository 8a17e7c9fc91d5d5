//! The last events of each reader and updater. All of it may run in signal handlers, and orders nothing: see
//! [`oracle`](super::oracle).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use clap::ValueEnum as _;

use super::slots::{READERS, UPDATERS, slot_name};

/// An event, which has a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[repr(u64)]
pub(super) enum EventKind {
    /// A thread, with its number in the slot.
    Started,
    /// Of a reader, with the section, up to `Leaves`.
    Entered,
    TookCookie,
    Deferred,
    Halfway,
    Leaves,
    /// To a CPU.
    Migrated,
    /// A reader, after so many sections.
    Ended,
    /// An updater, with the mode.
    Waits,
    Returned,
    /// An element.
    Unpublished,
}

/// Events of each slot that are kept, and events that are shown.
const KEPT: u64 = 32;
const SHOWN: usize = 48;

/// The histories of all slots, readers first.
pub(super) type Histories = [History; READERS + UPDATERS];

/// The last events of a slot, written by one thread at a time.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct History {
    next: AtomicU64,
    /// Ticks, and the value above the [`EventKind`].
    events: [[AtomicU64; 2]; KEPT as usize],
}

static FROZEN: AtomicBool = AtomicBool::new(false);

/// Stops all recording. Returns `true` to the first caller.
pub(super) fn freeze() -> bool {
    !FROZEN.swap(true, Relaxed)
}

#[cfg(test)]
pub(super) fn thaw() {
    FROZEN.store(false, Relaxed);
}

impl History {
    pub(super) const fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            events: [const { [AtomicU64::new(0), AtomicU64::new(0)] }; KEPT as usize],
        }
    }

    /// Records an event, by plain loads and stores.
    #[inline(always)]
    pub(super) fn note(&self, kind: EventKind, value: u64) {
        if FROZEN.load(Relaxed) {
            return;
        }
        let next = self.next.load(Relaxed);
        let [time, event] = &self.events[(next % KEPT) as usize];
        time.store(ticks(), Relaxed);
        event.store(value << 8 | kind as u64, Relaxed);
        self.next.store(next + 1, Relaxed);
    }

    fn read(&self) -> impl Iterator<Item = (u64, EventKind, u64)> {
        self.events.iter().filter_map(|[time, event]| {
            let (time, event) = (time.load(Relaxed), event.load(Relaxed));
            (time != 0).then(|| (time, EventKind::value_variants()[(event & 0xff) as usize], event >> 8))
        })
    }
}

/// Reads a clock without ordering anything: the time stamp counter on x86-64, nanoseconds elsewhere.
#[inline(always)]
pub(super) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return {
        static EPOCH: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        EPOCH.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64 + 1
    };
}

/// Returns the last events in these slots, in order, with the ticks since `then`.
pub(super) fn recent(histories: &Histories, slots: &[usize], then: u64) -> String {
    let mut events: Vec<_> = slots
        .iter()
        .flat_map(|&slot| histories[slot].read().map(move |(at, kind, value)| (at, slot, kind, value)))
        .collect();
    events.sort_unstable();
    let mut text = String::new();
    for (at, slot, kind, value) in events.iter().skip(events.len().saturating_sub(SHOWN)) {
        let ticks = at.cast_signed().wrapping_sub(then.cast_signed());
        let _ = write!(text, "\n{ticks:>+14}  {:<11} {kind:?} {value}", slot_name(*slot));
    }
    text
}
