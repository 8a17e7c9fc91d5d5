//! Stalls: grace periods that wait too long say for whom.
//!
//! The thread that leads a grace period has a [`StallDetector`], which it asks after each sleep. When the grace period has waited
//! for longer than a limit, the detector reports to a hook what it waits for: at the limit, then each time it has waited twice as
//! long as at the report before. What that is, the readers say: plain values, made by [`crate::readers::stalled`] and by
//! [`crate::srcu`].
//!
//! No lock is held while the hook runs, but the grace period is: it does not end before the hook returns.

use core::cell::Cell;
use core::fmt;
use core::mem;
use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sync::ForkSafe;

/// Readers that the default report names.
const NAMED: usize = 8;

/// A limit below this would keep the leader busy with reports.
const SHORTEST: Duration = Duration::from_millis(1);

/// Nanoseconds; all ones: no limit.
static LIMIT: AtomicU64 = AtomicU64::new(10_000_000_000);

static HOOK: ForkSafe<Mutex<Option<Hook>>> = ForkSafe::new(Mutex::new(None));

type Hook = Arc<dyn Fn(&Stall) + Send + Sync>;

thread_local! {
    /// This thread runs the hook.
    static REPORTS: Cell<bool> = const { Cell::new(false) };
}

/// Sets how long a grace period waits for readers before it reports them: 10 seconds if never called; `None`: it never
/// reports any. For all domains, from the next grace period on; those that wait already keep their limit.
///
/// Less than a millisecond counts as one.
///
/// ```
/// use std::time::Duration;
/// use stillpoint::rcu;
///
/// rcu::set_stall_timeout(Some(Duration::from_secs(1)));
/// ```
pub fn set_stall_timeout(limit: Option<Duration>) {
    let limit = limit.map_or(u64::MAX, |limit| limit.max(SHORTEST).as_nanos().try_into().unwrap_or(u64::MAX));
    // Relaxed: who reads the old one is before this call.
    LIMIT.store(limit, Relaxed);
}

/// Sets what happens when a grace period stalls, in all domains, in place of the default: a line for each reader on the
/// standard error; or, with the feature `tracing`, an event for each if a subscriber takes it.
///
/// The hook runs in a thread that waits for a grace period, the caller's or one of the library's, and holds that up, and
/// everybody who waits for it: it should be short. It may read ([`enter`](crate::rcu::enter)). A panic in it is caught. Waiting for a grace period in it, of any
/// domain, panics. If it forks, the child must `exec` or `_exit`: the grace period is the parent's.
///
/// ```
/// use stillpoint::rcu;
///
/// rcu::set_stall_hook(Box::new(|stall| {
///     for reader in stall.readers() {
///         println!("thread {} has kept us waiting for {:?}", reader.thread_id(), stall.waited());
///     }
/// }));
/// ```
pub fn set_stall_hook(hook: Box<dyn Fn(&Stall) + Send + Sync + 'static>) {
    exchange(Some(hook.into()));
}

/// Restores the default report, and returns the hook that was set, or the default.
///
/// ```
/// use stillpoint::rcu;
///
/// let hook = rcu::take_stall_hook();
/// rcu::set_stall_hook(Box::new(move |stall| {
///     // Something of our own, then what would have happened anyhow.
///     hook(stall);
/// }));
/// ```
pub fn take_stall_hook() -> Box<dyn Fn(&Stall) + Send + Sync + 'static> {
    match exchange(None) {
        Some(hook) => Box::new(move |stall| hook(stall)),
        None => Box::new(by_default),
    }
}

fn exchange(hook: Option<Hook>) -> Option<Hook> {
    // The old one is dropped by the caller, outside the lock: it may be anything.
    mem::replace(&mut *hooks(), hook)
}

fn hooks() -> MutexGuard<'static, Option<Hook>> {
    // No foreign code runs under the lock.
    HOOK.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hook stays in the child of a fork, unless another thread was just about to change it.
///
/// # Safety
///
/// The calling thread is the only one in the process, and not in the middle of another function here.
pub(crate) unsafe fn reset_in_child() {
    let hook = HOOK.get().try_lock().map_or(None, |hook| hook.clone());
    // SAFETY: the caller's contract; references to the hook live no longer than a call of a function.
    unsafe { HOOK.overwrite(Mutex::new(hook)) };
}

/// Whether the calling thread runs a hook: a grace period waits for it.
pub(crate) fn is_reporting() -> bool {
    REPORTS.get()
}

/// A grace period that has waited longer than the limit ([`set_stall_timeout`]).
///
/// `Display` gives a line for each reader, of the first eight; or one for all open sections of a domain of [`crate::srcu`].
#[derive(Debug, Clone)]
pub struct Stall {
    domain: &'static str,
    grace_period: u64,
    waited: Duration,
    waits_for: StalledReaders,
}

/// What keeps a grace period from ending.
#[derive(Debug, Clone)]
pub enum StalledReaders {
    /// Threads, at least one.
    ThreadReaders(Vec<StalledReader>),
    /// Sections that do not belong to threads.
    Memb(OpenSections),
}

/// Open sections of a domain of [`crate::srcu`].
#[derive(Debug, Clone)]
pub struct OpenSections {
    count: u64,
    site: &'static Location<'static>,
    /// Some may be those of threads that a fork has left behind.
    inherited: bool,
}

/// A thread that keeps a grace period from ending: it is inside a section, or has not reported. See [`Stall::readers`].
#[derive(Debug, Clone)]
pub struct StalledReader {
    pub(crate) thread_id: u32,
    pub(crate) name: Option<String>,
    pub(crate) registered_at: &'static Location<'static>,
    pub(crate) has_exited: bool,
    pub(crate) waited: Duration,
    /// What it has not done, for the report.
    pub(crate) owes: &'static str,
}

impl Stall {
    /// The name of the domain's type. All domains of [`crate::srcu`] have the same: see [`made_at`](Self::made_at).
    pub fn domain(&self) -> &'static str {
        self.domain
    }

    /// Which grace period of the domain, counted from 1: what [`Stats::grace_periods`](crate::rcu::Stats) will be when it ends.
    pub fn grace_period(&self) -> u64 {
        self.grace_period
    }

    /// For how long it has waited for readers.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Those it waits for, at least one. They were inside when each was looked at; some may have left since. None for a domain
    /// of [`crate::srcu`], whose sections are nobody's.
    pub fn readers(&self) -> &[StalledReader] {
        match &self.waits_for {
            StalledReaders::ThreadReaders(readers) => readers,
            StalledReaders::Memb(_) => &[],
        }
    }

    /// How many sections of a domain of [`crate::srcu`] it waits for, of those that were open; 0 for another domain.
    pub fn sections(&self) -> u64 {
        self.open_sections().map_or(0, |sections| sections.count)
    }

    /// Where the domain was made, if it is one of [`crate::srcu`].
    pub fn made_at(&self) -> Option<&'static Location<'static>> {
        self.open_sections().map(|sections| sections.site)
    }

    fn open_sections(&self) -> Option<&OpenSections> {
        match &self.waits_for {
            StalledReaders::ThreadReaders(_) => None,
            StalledReaders::Memb(sections) => Some(sections),
        }
    }

    /// Runs the hook.
    fn report(&self) {
        REPORTS.set(true);
        let reported = catch_unwind(AssertUnwindSafe(|| {
            // Cloned, so that the lock is free while it runs.
            let hook = hooks().clone();
            hook.map_or_else(|| by_default(self), |hook| hook(self));
        }));
        REPORTS.set(false);
        // The panic has reported itself. Its payload may be anything: dropping it might panic again.
        if let Err(payload) = reported {
            mem::forget(payload);
        }
    }
}

impl StalledReader {
    /// The thread's id, as of `gettid(2)`, and as it is called in `/proc`, in `top -H` and by debuggers.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// The thread's name, as the kernel has it: the first 15 bytes. Nothing if it cannot be had, as without `/proc`, or of a
    /// thread that has exited.
    pub fn thread_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Where the thread registered: the first call of [`enter`](crate::rcu::enter), [`register`](crate::rcu::register) or the like
    /// that it made in the domain, not the one that opened the section.
    pub fn registered_at(&self) -> &'static Location<'static> {
        self.registered_at
    }

    /// Returns `true` if the thread exited inside a section, or is exiting: it has leaked a guard, or a handle of
    /// [`crate::qsbr`], unless one of its last destructors ends the section.
    pub fn has_exited(&self) -> bool {
        self.has_exited
    }

    /// It has been inside for at least so long: since the grace period looked for it. It may have entered long before.
    pub fn inside_for(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, grace_period, waited, waits_for } = self;
        let readers = match waits_for {
            StalledReaders::ThreadReaders(readers) => readers,
            StalledReaders::Memb(OpenSections { count, site, inherited }) => {
                write!(
                    f,
                    "grace period {grace_period} of the {domain} that was made at {site} has waited {waited:.1?} for \
                     sections: {count} are open"
                )?;
                return if *inherited {
                    f.write_str("; those of threads that this process lost when it was forked never end")
                } else {
                    Ok(())
                };
            }
        };
        for (index, reader) in readers.iter().take(NAMED).enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(
                f,
                "{separator}grace period {grace_period} of {domain} has waited {waited:.1?} for {reader}"
            )?;
        }
        match readers.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "\ngrace period {grace_period} of {domain} waits for {more} more threads"),
        }
    }
}

impl fmt::Display for StalledReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.thread_id())?;
        if let Some(name) = self.thread_name() {
            write!(f, " ({name})")?;
        }
        write!(f, ", which registered at {}{}", self.registered_at(), self.owes)
    }
}

/// The default report.
fn by_default(stall: &Stall) {
    #[cfg(feature = "tracing")]
    if to_subscriber(stall) {
        return;
    }
    to_stderr(stall);
}

/// Makes an event of each line; false if no subscriber takes them.
#[cfg(feature = "tracing")]
fn to_subscriber(stall: &Stall) -> bool {
    use tracing::{Level, event_enabled, warn};
    const TARGET: &str = "stillpoint";

    let is_taken = event_enabled!(target: TARGET, Level::WARN);
    if is_taken {
        let (domain, number, waited) = (stall.domain, stall.grace_period, stall.waited);
        for line in stall.to_string().lines() {
            warn!(target: TARGET, domain, number, ?waited, "{line}");
        }
    }
    is_taken
}

fn to_stderr(stall: &Stall) {
    let mut text = String::new();
    for line in stall.to_string().lines() {
        text.extend(["stillpoint: ", line, "\n"]);
    }
    // Not `eprintln!`, which panics if it cannot write. In one piece, so that nothing comes between.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Counts of stalls, part of [`Stats`](crate::rcu::Stats); written by leaders.
#[derive(Debug)]
pub struct StallStats {
    reports: AtomicU64,
    /// Nanoseconds.
    longest_wait: AtomicU64,
}

impl StallStats {
    pub const fn new() -> Self {
        Self { reports: AtomicU64::new(0), longest_wait: AtomicU64::new(0) }
    }

    pub fn reports(&self) -> u64 {
        // Relaxed, as everywhere here: statistics only.
        self.reports.load(Relaxed)
    }

    pub fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_wait.load(Relaxed))
    }
}

/// What the leader of a grace period that sleeps asks when there is something to report.
#[derive(Debug)]
pub struct StallDetector<'a> {
    begun: Instant,
    /// The wait that is reported next.
    due: Duration,
    stats: &'a StallStats,
    domain: fn() -> &'static str,
    grace_period: u64,
}

impl<'a> StallDetector<'a> {
    /// For the grace period of this number, which begins to sleep now.
    pub fn new(stats: &'a StallStats, domain: fn() -> &'static str, grace_period: u64) -> Self {
        let due = Duration::from_nanos(LIMIT.load(Relaxed));
        Self { begun: Instant::now(), due, stats, domain, grace_period }
    }

    /// How long to sleep at most before the next [`check`](Self::check).
    pub fn next_report_in(&self) -> Duration {
        self.due.saturating_sub(self.begun.elapsed())
    }

    /// After a sleep: keeps the longest wait, and, when it is time, reports what the grace period `waits_for` still. That
    /// gets how long it has been, and returns nothing if all have just left.
    pub fn check(&mut self, waits_for: impl FnOnce(Duration) -> Option<StalledReaders>) {
        let waited = self.begun.elapsed();
        let nanoseconds = waited.as_nanos() as u64;
        if nanoseconds > self.stats.longest_wait.load(Relaxed) {
            self.stats.longest_wait.store(nanoseconds, Relaxed);
        }
        if waited < self.due {
            return;
        }
        self.due = waited.saturating_mul(2);
        let Some(waits_for) = waits_for(waited) else { return };
        self.stats.reports.fetch_add(1, Relaxed);
        Stall { domain: (self.domain)(), grace_period: self.grace_period, waited, waits_for }.report();
    }
}

/// `count` sections, of the domain made at `site`. Nothing if that is none.
pub(crate) fn open(count: u64, site: &'static Location<'static>, inherited: bool) -> Option<StalledReaders> {
    // Sums that others change meanwhile may be off by some.
    let count = u64::try_from(count.cast_signed()).unwrap_or(0);
    (count != 0).then_some(StalledReaders::Memb(OpenSections { count, site, inherited }))
}
