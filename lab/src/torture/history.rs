//! What happened lately to each reader and updater, and the first thing that went wrong.
//!
//! Everything here may be called in signal handlers, and orders nothing: see [`oracle`](super::oracle).

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Instant;

use super::oracle::{READERS, Stage, UPDATERS};
use super::updater::WAYS;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Happened {
    Began,
    Entered,
    Halfway,
    Leaves,
    Migrated,
    TookCookie,
    Deferred,
    Ended,
    Waits,
    Withdrew,
    Returned,
}

const NAMES: [&str; 11] = [
    "begins to live",
    "entered section",
    "is halfway in section",
    "leaves section",
    "moved to CPU",
    "took a cookie in section",
    "deferred something in section",
    "ends after sections:",
    "waits, way",
    "withdrew element",
    "returned, way",
];

/// Events that are kept of each.
const KEPT: u64 = 32;
/// Events that are told.
const TOLD: usize = 48;

/// The last events of a reader or updater, written by one thread at a time.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct History {
    next: AtomicU64,
    events: [[AtomicU64; 2]; KEPT as usize],
}

impl History {
    pub(super) const fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            events: [const { [AtomicU64::new(0), AtomicU64::new(0)] }; KEPT as usize],
        }
    }

    /// Plain loads and stores. Nothing more once something has gone wrong.
    #[inline(always)]
    pub(super) fn note(&self, happened: Happened, value: u64) {
        if CLAIMED.load(Relaxed) {
            return;
        }
        let next = self.next.load(Relaxed);
        let [time, event] = &self.events[(next % KEPT) as usize];
        time.store(ticks(), Relaxed);
        event.store(value << 8 | happened as u64, Relaxed);
        self.next.store(next + 1, Relaxed);
    }

    fn read(&self) -> impl Iterator<Item = (u64, &'static str, u64)> {
        self.events.iter().filter_map(|[time, event]| {
            let (time, event) = (time.load(Relaxed), event.load(Relaxed));
            (time != 0).then(|| (time, NAMES[(event & 0xff) as usize % NAMES.len()], event >> 8))
        })
    }
}

/// A clock that reads without ordering anything, in a unit of its own.
#[inline(always)]
pub(super) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 1 + EPOCH.get_or_init(|| (Instant::now(), 0)).0.elapsed().as_nanos() as u64;
}

/// A moment by two clocks.
static EPOCH: OnceLock<(Instant, u64)> = OnceLock::new();

/// To be called early, so that times can be told.
pub(super) fn begin() {
    EPOCH.get_or_init(|| (Instant::now(), if cfg!(target_arch = "x86_64") { ticks() } else { 0 }));
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub(super) enum What {
    /// Loaded a pointer to an element that was freed.
    #[default]
    SawFreed,
    /// An element was freed while a section used it.
    FreedUnder,
    /// A grace period ended beside a section that was open before.
    TooShort,
    /// A cookie elapsed in the section in which it was taken.
    CookieInside,
    /// Of two cookies the greater one elapsed first.
    CookieOrder,
    /// A barrier left a callback behind.
    BarrierShort,
    /// Callbacks of one thread ran out of order.
    Disorder,
    /// What a section did before a grace period is not seen after it.
    Forgotten,
    /// A reader panicked.
    Panicked,
}

const WHATS: [What; 9] = [
    What::SawFreed,
    What::FreedUnder,
    What::TooShort,
    What::CookieInside,
    What::CookieOrder,
    What::BarrierShort,
    What::Disorder,
    What::Forgotten,
    What::Panicked,
];

/// One thing that went wrong, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Case {
    pub(super) what: What,
    /// The reader, or for callbacks the updater.
    pub(super) who: u64,
    pub(super) section: u64,
    pub(super) element: u64,
    /// The updater, or another reader.
    pub(super) other: u64,
    pub(super) way: u64,
    pub(super) before: u64,
    pub(super) after: u64,
}

static CLAIMED: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);
static CASE: [AtomicU64; 9] = [const { AtomicU64::new(0) }; 9];

/// Keeps the first case.
#[cold]
pub(super) fn report(case: Case) {
    let time = ticks();
    if !CLAIMED.swap(true, AcqRel) {
        let Case { what, who, section, element, other, way, before, after } = case;
        let words = [what as u64, who, section, element, other, way, before, after, time];
        CASE.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        READY.store(true, Release);
    }
}

/// The first case, and when it was found.
fn case() -> Option<(Case, u64)> {
    if !READY.load(Acquire) {
        return None;
    }
    let [what, who, section, element, other, way, before, after, time] =
        CASE.each_ref().map(|word| word.load(Relaxed));
    let what = WHATS[what as usize];
    Some((Case { what, who, section, element, other, way, before, after }, time))
}

/// The case, made anew.
#[cfg(test)]
pub(super) fn take_case() -> Option<Case> {
    let case = case();
    READY.store(false, Release);
    CLAIMED.store(false, Release);
    case.map(|(case, _)| case)
}

/// What went wrong first, and what happened before it, if something did.
pub(super) fn failure(stage: &Stage) -> Option<String> {
    let (case, time) = case()?;
    let Case { who, section, element, other, way, before, after, .. } = case;
    let named = |way: u64| WAYS.get(way as usize).map_or("nothing", |way| way.0);
    let by = format!("updater {other}");
    let made = |stamp: u64| stamp / 4;
    let mut text = match case.what {
        What::SawFreed => format!(
            "reader {who} in section {section} loaded element {element}, made {} times, which had been freed: withdrawn by {by}, \
             {}",
            made(before),
            named(way),
        ),
        What::FreedUnder => format!(
            "element {element}, made {} times (now {}), was freed inside section {section} of reader {who}, which uses it: \
             withdrawn by {by}, {}",
            made(before),
            made(after),
            named(way),
        ),
        What::TooShort if other == UPDATERS as u64 => {
            format!("a callback that reader {who} deferred in section {section} ran in that section")
        }
        What::TooShort => format!(
            "{} of {by} was too short: reader {who} is still in section {section}, which was open before",
            named(way)
        ),
        What::CookieInside => {
            format!("a cookie that reader {who} took in section {section} elapsed in that section")
        }
        What::CookieOrder => format!("of two cookies of {by} the greater one elapsed first"),
        What::BarrierShort => format!(
            "barrier() of {by} returned when callback {after} of updater {who} was the next to run, of {before} queued before"
        ),
        What::Panicked => format!("reader {who} panicked; the message is above"),
        What::Disorder => {
            format!("callback {before} of updater {who} ran when {after} was the next")
        }
        What::Forgotten => format!(
            "reader {who} sees what followed a grace period, but reader {other} in section {section}, which ended before it \
             (clock {after}, promised {before})"
        ),
    };
    let other = if case.what == What::Forgotten { other } else { READERS as u64 + other };
    text.push_str(&recent(stage, &[who as usize, other as usize], time));
    Some(text)
}

/// What those in these seats have done lately, in order, with the time before `then`. Readers have the first seats.
pub(super) fn recent(stage: &Stage, seats: &[usize], then: u64) -> String {
    let mut events: Vec<_> = seats
        .iter()
        .filter_map(|&seat| Some((seat, stage.histories.get(seat)?)))
        .flat_map(|(seat, history)| history.read().map(move |(at, what, value)| (at, seat, what, value)))
        .collect();
    events.sort_unstable();
    let mut text = String::new();
    for (at, seat, what, value) in events.iter().skip(events.len().saturating_sub(TOLD)) {
        let micros = at.cast_signed().wrapping_sub(then.cast_signed()) as f64 * nanoseconds_a_tick() / 1e3;
        let who =
            if *seat < READERS { format!("reader {seat}") } else { format!("updater {}", seat - READERS) };
        let _ = write!(text, "\n{micros:>+14.3} us  {who:<11} {what} {value}");
    }
    text
}

fn nanoseconds_a_tick() -> f64 {
    match EPOCH.get() {
        Some(&(instant, then)) if cfg!(target_arch = "x86_64") => {
            instant.elapsed().as_nanos() as f64 / ticks().saturating_sub(then).max(1) as f64
        }
        _ => 1.0,
    }
}
