//! Stalls: grace periods that wait too long say for whom.
//!
//! A grace period that sleeps for longer than a limit looks which readers have not answered its request, and reports them
//! to a hook, in the thread that leads it: at the limit, then each time it has waited twice as long as at the report
//! before. Readers pay nothing for this: they wrote who they are when they registered, and the name is the kernel's.
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

use super::events;
use super::reader::{Owner, Reader};
use crate::sync::ForkSafe;
use crate::sys;

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
/// everybody who waits for it: it should be short. It may read ([`enter`](super::enter)). A panic in it is caught. Waiting for a grace period in it, of any
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
pub(super) unsafe fn reset_in_child() {
    let hook = HOOK.get().try_lock().map_or(None, |hook| hook.clone());
    // SAFETY: the caller's contract; references to the hook live no longer than a call of a function.
    unsafe { HOOK.overwrite(Mutex::new(hook)) };
}

/// Whether the calling thread runs a hook: a grace period waits for it.
pub(super) fn is_reporting() -> bool {
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
    blockers: Blockers,
}

/// A thread that keeps a grace period from ending: it is inside a section, or has not reported. See [`Stall::readers`].
#[derive(Debug, Clone)]
pub struct StalledReader {
    owner: Owner,
    name: Option<String>,
    waited: Duration,
    /// What it has not done, for the report.
    owes: &'static str,
}

impl Stall {
    /// The name of the domain's type. All domains of [`crate::srcu`] have the same: see [`made_at`](Self::made_at).
    pub fn domain(&self) -> &'static str {
        self.domain
    }

    /// Which grace period of the domain, counted from 1: what [`Stats::grace_periods`](super::Stats) will be when it ends.
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
        &self.blockers.readers
    }

    /// How many sections of a domain of [`crate::srcu`] it waits for, of those that were open; 0 for another domain.
    pub fn sections(&self) -> u64 {
        self.blockers.sections.as_ref().map_or(0, |sections| sections.count)
    }

    /// Where the domain was made, if it is one of [`crate::srcu`].
    pub fn made_at(&self) -> Option<&'static Location<'static>> {
        self.blockers.sections.as_ref().map(|sections| sections.site)
    }

    /// Runs the hook.
    pub(super) fn report(&self) {
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
        self.owner.thread
    }

    /// The thread's name, as the kernel has it: the first 15 bytes. Nothing if it cannot be had, as without `/proc`.
    pub fn thread_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Where the thread registered: the first call of [`enter`](super::enter), [`register`](super::register) or the like
    /// that it made in the domain, not the one that opened the section.
    pub fn registered_at(&self) -> &'static Location<'static> {
        self.owner.site
    }

    /// It has been inside for at least so long: since the grace period looked for it. It may have entered long before.
    pub fn inside_for(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, grace_period, waited, blockers: Blockers { readers, sections } } = self;
        if let Some(Sections { count, site, inherited }) = sections {
            write!(
                f,
                "grace period {grace_period} of the {domain} that was made at {site} has waited {waited:.1?} for sections: \
                 {count} are open"
            )?;
            return if *inherited {
                f.write_str("; those of threads that this process lost when it was forked never end")
            } else {
                Ok(())
            };
        }
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
    if !events::tell_stall(stall) {
        to_stderr(stall);
    }
}

fn to_stderr(stall: &Stall) {
    let mut text = String::new();
    for line in stall.to_string().lines() {
        text.extend(["stillpoint: ", line, "\n"]);
    }
    // Not `eprintln!`, which panics if it cannot write. In one piece, so that nothing comes between.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The leader's view of a grace period that sleeps.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Instant,
    /// The wait that is reported next.
    due: Duration,
}

impl Watch {
    pub fn begin() -> Self {
        Self { begun: Instant::now(), due: Duration::from_nanos(LIMIT.load(Relaxed)) }
    }

    pub fn waited(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How long to sleep until there may be something to report.
    pub fn patience(&self) -> Duration {
        self.due.saturating_sub(self.waited())
    }

    /// What there is to report after having `waited`, if there are `blockers` still.
    pub fn stall(
        &mut self,
        waited: Duration,
        domain: fn() -> &'static str,
        grace_period: u64,
        blockers: impl FnOnce(Duration) -> Option<Blockers>,
    ) -> Option<Stall> {
        if waited < self.due {
            return None;
        }
        self.due = waited.saturating_mul(2);
        let blockers = blockers(waited)?;
        Some(Stall { domain: domain(), grace_period, waited, blockers })
    }
}

/// Who keeps a grace period from ending.
#[derive(Debug, Clone)]
pub struct Blockers {
    readers: Vec<StalledReader>,
    sections: Option<Sections>,
}

/// Sections that belong to nobody.
#[derive(Debug, Clone)]
struct Sections {
    count: u64,
    site: &'static Location<'static>,
    /// Some may be those of threads that a fork has left behind.
    inherited: bool,
}

/// `count` sections, of the domain made at `site`. Nothing if that is none.
pub(crate) fn open(count: u64, site: &'static Location<'static>, inherited: bool) -> Option<Blockers> {
    // Sums that others change meanwhile may be off by some.
    let count = u64::try_from(count.cast_signed()).unwrap_or(0);
    (count != 0)
        .then(|| Blockers { readers: Vec::new(), sections: Some(Sections { count, site, inherited }) })
}

/// Of `readers`, those that the leader waits for still, after having `waited`. Nothing if all have just left, and are about to
/// say so.
pub(super) fn awaited(
    readers: impl Iterator<Item = &'static Reader>,
    waited: Duration,
    owes: &'static str,
) -> Option<Blockers> {
    let look = |owner: Owner| StalledReader { owner, name: sys::thread_name(owner.thread), waited, owes };
    let readers: Vec<_> = readers.filter_map(|reader| reader.while_awaited(look)).collect();
    (!readers.is_empty()).then_some(Blockers { readers, sections: None })
}
