//! Stall reports: a grace period that waits too long names the readers that it waits for.
//!
//! The [detector](super::detector) decides when, and calls a hook with a [`Stall`]. The readers make the
//! [`StalledReaders`], plain values.
//!
//! No lock is held while the hook runs, but the grace period does not end before the hook returns.

use core::cell::Cell;
use core::fmt;
use core::mem;
use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sync::{ForkSafe, complain, now};

/// The number of readers that the default report names.
const NAMED: usize = 8;

/// With a shorter limit the leader would be busy with reports.
const MIN_LIMIT: Duration = Duration::from_millis(1);

/// Nanoseconds; `u64::MAX` is no limit.
pub(super) static LIMIT: AtomicU64 = AtomicU64::new(10_000_000_000);

static HOOK: ForkSafe<Mutex<Option<Hook>>> = ForkSafe::new(Mutex::new(None));

/// What the program gives.
type BoxedHook = Box<dyn Fn(&Stall) + Send + Sync>;

#[derive(Clone)]
enum Hook {
    Shared(Arc<BoxedHook>),
    /// A function, and what it gets: needs no memory.
    #[cfg(feature = "_capi")]
    Plain(fn(&Stall, [usize; 2]), [usize; 2]),
}

impl Hook {
    fn call(&self, stall: &Stall) {
        match self {
            Self::Shared(hook) => hook(stall),
            #[cfg(feature = "_capi")]
            Self::Plain(hook, argument) => hook(stall, *argument),
        }
    }
}

thread_local! {
    /// This thread runs the hook.
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// Sets how long a grace period waits for readers before it reports them. The default is 10 seconds; with `None` it
/// never reports.
///
/// For all domains, from the next grace period on; those that wait already keep their limit. Less than a millisecond
/// counts as one.
///
/// ```
/// use std::time::Duration;
/// use stillpoint::rcu;
///
/// rcu::set_stall_timeout(Some(Duration::from_secs(1)));
/// ```
pub fn set_stall_timeout(limit: Option<Duration>) {
    let limit =
        limit.map_or(u64::MAX, |limit| limit.max(MIN_LIMIT).as_nanos().try_into().unwrap_or(u64::MAX));
    // Relaxed: orders nothing else.
    LIMIT.store(limit, Relaxed);
}

/// Sets the hook that is called when a grace period stalls, in all domains.
///
/// The default writes a line for each reader to the standard error, of at most fifteen stalls a second; or, with the
/// feature `tracing`, makes an event of each line if a subscriber takes it.
///
/// The hook runs in a thread that waits for a grace period, a caller or one of the library's threads. It delays this
/// grace period and all threads that wait for it, so it should be short. It may read ([`enter`](crate::rcu::enter)).
/// Waiting for a grace period of any domain panics in it. A panic in the hook is caught. If the hook forks, the child
/// must `exec` or `_exit`: the grace period is the parent's.
///
/// ```
/// use stillpoint::rcu;
///
/// rcu::set_stall_hook(Box::new(|stall| {
///     eprintln!("{stall}");
///     for reader in stall.readers() {
///         println!("thread {} has blocked a grace period for {:?}", reader.thread_id(), stall.waited());
///     }
/// }));
/// ```
pub fn set_stall_hook(hook: Box<dyn Fn(&Stall) + Send + Sync + 'static>) {
    set(Some(Hook::Shared(Arc::new(hook))));
}

/// [`set_stall_hook`] for the C interface; `None` restores the default. Allocates nothing.
#[cfg(feature = "_capi")]
pub fn set_plain_stall_hook(hook: Option<fn(&Stall, [usize; 2])>, argument: [usize; 2]) {
    set(hook.map(|hook| Hook::Plain(hook, argument)));
}

fn set(hook: Option<Hook>) {
    // Dropped outside the lock: its destructor may be any code.
    let old = mem::replace(&mut *hooks(), hook);
    drop(old);
}

fn hooks() -> MutexGuard<'static, Option<Hook>> {
    // Nothing panics under the lock.
    HOOK.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the hook in the child of a fork, unless another thread was about to change it.
///
/// # Safety
///
/// The calling thread is the only one in the process, and not inside another function of this module.
pub(crate) unsafe fn reset_in_child() {
    let hook = HOOK.get().try_lock().map_or(None, |hook| hook.clone());
    // SAFETY: the caller's contract; references to the hook live no longer than a call of a function.
    unsafe { HOOK.overwrite(Mutex::new(hook)) };
}

/// Returns `true` in a hook: a grace period waits for the calling thread.
pub(crate) fn is_reporting() -> bool {
    REPORTING.get()
}

/// A grace period that has waited longer than the limit ([`set_stall_timeout`]).
///
/// `Display` gives a line for each of the first eight readers, or one for all open sections of a domain of
/// [`crate::srcu`].
#[derive(Debug, Clone)]
pub struct Stall {
    pub(super) domain: &'static str,
    pub(super) grace_period: u64,
    pub(super) waited: Duration,
    pub(super) waits_for: StalledReaders,
}

/// The readers that a grace period waits for.
#[derive(Debug, Clone)]
pub enum StalledReaders {
    /// At least one.
    Threads(Vec<StalledReader>),
    /// `count` open sections of the domain of [`crate::srcu`] that was made at `site`. If `inherited`, some may be
    /// sections of threads that the process lost when it was forked. `begun_at`: see [`Stall::sections_begun_at`].
    Sections { count: u64, begun_at: SiteCounts, site: &'static Location<'static>, inherited: bool },
}

/// Where open sections began, and how many there.
type SiteCounts = Vec<(&'static Location<'static>, u64)>;

/// A thread that blocks a grace period: it is inside a section, or has not reported. See [`Stall::readers`].
#[derive(Debug, Clone)]
pub struct StalledReader {
    pub(crate) thread_id: u32,
    pub(crate) name: Option<String>,
    pub(crate) registered_at: &'static Location<'static>,
    pub(crate) section_at: Option<&'static Location<'static>>,
    pub(crate) has_exited: bool,
    /// The end of the report.
    pub(crate) suffix: &'static str,
}

impl Stall {
    /// Returns the name of the domain's type. All domains of [`crate::srcu`] have the same: see
    /// [`made_at`](Self::made_at).
    pub fn domain(&self) -> &'static str {
        self.domain
    }

    /// Returns the number of the grace period in its domain, from 1. [`Stats::grace_periods`](crate::rcu::Stats) has
    /// this value when it ends.
    pub fn grace_period(&self) -> u64 {
        self.grace_period
    }

    /// Returns how long the grace period has waited for readers.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the threads that the grace period waits for, at least one. Each was inside when it was checked; some
    /// may have left since. Empty for a domain of [`crate::srcu`], whose sections do not belong to threads.
    pub fn readers(&self) -> &[StalledReader] {
        match &self.waits_for {
            StalledReaders::Threads(readers) => readers,
            StalledReaders::Sections { .. } => &[],
        }
    }

    /// Returns the number of sections of a domain of [`crate::srcu`] that the grace period waits for; 0 for another
    /// domain.
    pub fn sections(&self) -> u64 {
        match self.waits_for {
            StalledReaders::Threads(_) => 0,
            StalledReaders::Sections { count, .. } => count,
        }
    }

    /// Returns where the open sections of a domain of [`crate::srcu`] began, and how many at each place, the most
    /// frequent first. Empty without the feature `section-locations`, and for another domain.
    ///
    /// Contains all open sections, also those that began after the grace period.
    pub fn sections_begun_at(&self) -> &[(&'static Location<'static>, u64)] {
        match &self.waits_for {
            StalledReaders::Threads(_) => &[],
            StalledReaders::Sections { begun_at, .. } => begun_at,
        }
    }

    /// Returns where the domain was made, if it is one of [`crate::srcu`].
    pub fn made_at(&self) -> Option<&'static Location<'static>> {
        match self.waits_for {
            StalledReaders::Threads(_) => None,
            StalledReaders::Sections { site, .. } => Some(site),
        }
    }

    /// Calls the hook. Catches a panic, which has reported itself.
    pub(super) fn report(&self) {
        REPORTING.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            // Cloned, so that the lock is free while the hook runs.
            let hook = hooks().clone();
            hook.map_or_else(|| report_by_default(self), |hook| hook.call(self));
        }));
        REPORTING.set(false);
        // The payload may be of any type: dropping it might panic again.
        if let Err(payload) = result {
            mem::forget(payload);
        }
    }
}

impl StalledReader {
    /// Returns the thread's id, as of `gettid(2)`, in `/proc`, in `top -H` and in debuggers.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// Returns the thread's name as the kernel has it: the first 15 bytes. `None` without `/proc`, and for a thread
    /// that has exited.
    pub fn thread_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns where the thread registered: its first call of [`enter`](crate::rcu::enter),
    /// [`register`](crate::rcu::register) or the like in the domain, not the one that opened the section.
    pub fn registered_at(&self) -> &'static Location<'static> {
        self.registered_at
    }

    /// Returns where the section began, the outermost one if there are several. `None` without the feature
    /// `section-locations`, in [`crate::qsbr`], and for sections of C code.
    pub fn section_at(&self) -> Option<&'static Location<'static>> {
        self.section_at
    }

    /// Returns `true` if the thread exited inside a section, or is exiting. It has leaked a guard, or a handle of
    /// [`crate::qsbr`], unless one of its last destructors ends the section.
    pub fn has_exited(&self) -> bool {
        self.has_exited
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Lines(self, "\n").fmt(f)
    }
}

/// The lines of a report, and what is between two of them.
struct Lines<'a>(&'a Stall, &'a str);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Stall { domain, grace_period, waited, waits_for }, between) = self;
        match waits_for {
            StalledReaders::Sections { count, begun_at, site, inherited } => {
                write!(
                    f,
                    "grace period {grace_period} of the {domain} that was made at {site} has waited {waited:.1?} for \
                     sections: {count} are open"
                )?;
                write_sites(f, begun_at)?;
                if *inherited {
                    f.write_str("; those of threads that this process lost when it was forked never end")?;
                }
                Ok(())
            }
            StalledReaders::Threads(readers) => {
                for (index, reader) in readers.iter().take(NAMED).enumerate() {
                    let separator = if index == 0 { "" } else { between };
                    write!(
                        f,
                        "{separator}grace period {grace_period} of {domain} has waited {waited:.1?} for {reader}"
                    )?;
                }
                match readers.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => {
                        write!(
                            f,
                            "{between}grace period {grace_period} of {domain} waits for {more} more threads"
                        )
                    }
                }
            }
        }
    }
}

/// Writes where sections began, if that is known.
fn write_sites(f: &mut fmt::Formatter<'_>, begun_at: &[(&Location<'_>, u64)]) -> fmt::Result {
    let (named, others) = begun_at.split_at(begun_at.len().min(NAMED));
    for (index, (site, count)) in named.iter().enumerate() {
        let separator = if index == 0 { ", begun" } else { "," };
        write!(f, "{separator} at {site} ({count})")?;
    }
    if others.is_empty() { Ok(()) } else { write!(f, ", and at {} other places", others.len()) }
}

impl fmt::Display for StalledReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.thread_id())?;
        if let Some(name) = self.thread_name() {
            write!(f, " ({name})")?;
        }
        write!(f, ", which registered at {}", self.registered_at())?;
        if let Some(site) = self.section_at() {
            write!(f, " and began its section at {site}")?;
        }
        f.write_str(self.suffix)
    }
}

/// A second, and how many reports it has had, in the bits of [`REPORTS`]. Relaxed: carries nothing.
static PRINTED: AtomicU64 = AtomicU64::new(0);

/// How many reports a second may print: thousands of domains may stall at once.
const REPORTS: u64 = 15;

/// Counts a report in [`PRINTED`], unless the second has had all of its reports.
fn count_report(printed: u64, second: u64) -> Option<u64> {
    let this_second = second << REPORTS.count_ones();
    if printed < this_second {
        Some(this_second + 1)
    } else {
        (printed & REPORTS != REPORTS).then(|| printed + 1)
    }
}

/// The default report: events if a subscriber takes them, else lines on the standard error.
fn report_by_default(stall: &Stall) {
    #[cfg(feature = "tracing")]
    if tracing::event_enabled!(target: "stillpoint", tracing::Level::WARN) {
        let (domain, number, waited) = (stall.domain, stall.grace_period, stall.waited);
        for line in stall.to_string().lines() {
            tracing::warn!(target: "stillpoint", domain, number, ?waited, "{line}");
        }
        return;
    }
    let second = now() / 1_000_000_000;
    let mut counted = None;
    let count = |printed| {
        counted = count_report(printed, second);
        counted
    };
    _ = PRINTED.fetch_update(Relaxed, Relaxed, count);
    let Some(counted) = counted else { return };
    let rest = if counted & REPORTS == REPORTS {
        "\nstillpoint: more stalls of this second are only counted, unless there is a stall hook"
    } else {
        ""
    };
    complain(format_args!("{}{rest}", Lines(stall, "\nstillpoint: ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_reports_of_a_second_are_limited() {
        let mut printed = 0;
        for second in [7, 7, 8] {
            let before = printed;
            while let Some(counted) = count_report(printed, second) {
                printed = counted;
            }
            assert_eq!(printed, (second << 4) + REPORTS, "after {before}");
        }
    }

    #[test]
    fn stall_timeout_is_a_millisecond_at_least() {
        let before = LIMIT.load(Relaxed);
        for (limit, nanoseconds) in [
            (Some(Duration::ZERO), 1_000_000),
            (Some(Duration::from_secs(3)), 3_000_000_000),
            (Some(Duration::MAX), u64::MAX),
            (None, u64::MAX),
        ] {
            set_stall_timeout(limit);
            assert_eq!(LIMIT.load(Relaxed), nanoseconds);
        }
        LIMIT.store(before, Relaxed);
    }
}
