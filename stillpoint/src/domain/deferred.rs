//! Deferred work at the boundary to the program: the threads that defer it, and the code of the program that runs. The
//! algorithm is in [`crate::reclaim::worker`].

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::fork;
use super::raw::{RawDomain, address, assert_may_wait, wait_in_worker};
use crate::grace_period::cookie::GpCookie;
use crate::grace_period::engine::{Engine, ReaderSet};
use crate::grace_period::stall;
use crate::reclaim::backlog::{Amount, MayWait};
use crate::reclaim::callback::{Callback, Panicked};
use crate::reclaim::host::{CallerContext, Denied, Host};
use crate::reclaim::options::DeferOptions;
use crate::reclaim::queue::{PushAction, Queue};
use crate::reclaim::word::Word;
use crate::reclaim::{running, worker_pool};

/// Callbacks and destructors that have panicked, in all domains.
static PANICS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn panics() -> u64 {
    PANICS.load(Relaxed)
}

impl<D: RawDomain> Host for D {
    #[inline(always)]
    fn engine(&self) -> &Engine<impl ReaderSet> {
        &self.core().engine
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        RawDomain::queues(self)
    }

    fn is_alone(&self) -> bool {
        self.core().engine.readers().no_other_readers(self.current_reader())
    }

    fn try_synchronize(&self) {
        // It panics if the kernel denies the heavy fence: the worker will report that.
        let try_synchronize = || self.core().engine.try_synchronize(self.current_reader());
        let _ = catch_unwind(AssertUnwindSafe(try_synchronize));
    }

    fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
        wait_in_worker(self, |own| self.core().engine.wait_for(own, cookie))
    }

    fn run(&self, callback: Callback) {
        let is_free_only = callback.is_free_only();
        // SAFETY: the contract of `Host::run`: the grace period has ended.
        let run = || unsafe { callback.run() };
        let panicked = if is_free_only { run() } else { running::run(address(self), run) };
        if let Some(panicked) = panicked {
            PANICS.fetch_add(1, Relaxed);
            report_panic(self, panicked());
        }
    }

    fn start_worker(&self) -> bool {
        // SAFETY: the task only waits for grace periods, and runs what was deferred.
        let domain = unsafe { self.worker_ref() };
        worker_pool::submit(move || domain.core().callbacks.work(&*domain, || false))
    }
}

/// Writes to the standard error what the panic's message does not say: which domain's callback it was.
#[cold]
fn report_panic(domain: &impl RawDomain, Panicked { what, name }: Panicked) {
    let site = domain.made_at().map_or(String::new(), |site| format!(", made at {site},"));
    let domain = domain.core().engine.domain();
    // Not `eprintln!`, which panics if it cannot write.
    let _ = writeln!(std::io::stderr(), "stillpoint: {what} in {domain}{site} has panicked: {name}");
}

/// Frees the value after a grace period.
///
/// # Safety
///
/// `value` is a word of `W`, has been unpublished, and is not used by the caller again. Any thread may drop it.
#[inline]
#[track_caller]
pub(crate) unsafe fn retire<W: Word>(domain: &impl RawDomain, value: NonNull<()>, options: DeferOptions) {
    // SAFETY: the caller's contract; callbacks run after a grace period.
    let callback =
        unsafe { Callback::free::<W>(value, W::bytes(value).saturating_add(options.bytes), options.local) };
    domain.defer(callback, options.lazy);
}

/// [`Domain::flush`](crate::Domain::flush) for `queue`, which is the calling thread's.
pub(crate) fn hand_over(domain: &impl RawDomain, queue: &Queue) -> bool {
    domain.core().callbacks.hand_over(queue, || domain.in_read_section(), domain)
}

/// After a push: does what the owner of the queue must do.
#[cold]
pub(crate) fn flush(domain: &impl RawDomain, queue: &Queue, action: PushAction) {
    let core = domain.core();
    if action == PushAction::ReclaimSome {
        return core.callbacks.reclaim_some(queue, domain);
    }
    core.callbacks.flush(queue, || context(domain), domain);
    // A destructor that has just run may have begun a section, or ended one.
    if domain.in_read_section() {
        core.engine.readers().defer_to_exit(domain.current_reader(), core.callbacks.must_throttle(queue));
    }
}

/// After a push to a queue that is not the calling thread's: counts what was pushed, and reduces the backlog if need
/// be.
#[cold]
pub(crate) fn reduce_backlog(domain: &impl RawDomain, queue: &Queue, reported: [Amount; 2]) {
    let callbacks = &domain.core().callbacks;
    callbacks.count(reported);
    callbacks.reduce_backlog(queue, context(domain), domain);
}

fn context<D: RawDomain>(domain: &D) -> CallerContext {
    let is_inside = domain.in_read_section();
    // Not in callbacks of other domains either: two workers would wait for each other's backlog to shrink until they
    // time out, although the program does not make them wait.
    let wait = if is_inside || running::is_any() || stall::is_reporting() {
        MayWait::No
    } else if D::MAY_BE_INSIDE || fork::in_read_section() {
        // Two threads, each inside a section of the domain that throttles the other, would wait for each other.
        MayWait::Briefly
    } else {
        MayWait::Yes
    };
    CallerContext { is_owner: domain.current_reader().is_some(), is_inside, wait }
}

/// The owner of the queue exits: reports what it has pushed, and is throttled if too much waits. The worker runs the
/// rest.
pub(crate) fn end_of_owner(domain: &impl RawDomain, queue: &Queue) {
    let callbacks = &domain.core().callbacks;
    callbacks.report(queue);
    callbacks.throttle_above_mark(None, context(domain).wait, domain);
}

/// Blocks until all callbacks have run that were deferred before.
///
/// # Panics
///
/// See [`Domain::barrier`](crate::Domain::barrier).
pub(crate) fn barrier(domain: &impl RawDomain) {
    assert_may_wait(domain, "barrier()");
    assert!(
        !running::is_of(address(domain)),
        "barrier() inside a callback of the same domain would wait for itself"
    );
    domain.register_for_fork();
    if domain.core().callbacks.barrier(domain).is_err() {
        panic!("barrier() would wait for ever: the kernel denies the heavy fence, which worked before");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};
    use std::time::Instant;

    use crate::Domain as _;
    use crate::deadline::deadline;
    use crate::reclaim::backlog::{Limits, THROTTLE_TIMEOUT};
    use crate::reclaim::blocks::BLOCK;

    /// Here, as callers of the library's own tests are throttled for a short time only.
    #[test]
    fn throttled_caller_holding_a_callbacks_lock_times_out() {
        crate::domain! { struct Own; }
        static LOCK: Mutex<u64> = Mutex::new(0);
        const LIMIT: u64 = 2 * BLOCK;
        let _running = deadline();
        Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
        let mut deferred = 0;
        let mut defer = || {
            deferred += 1;
            Own.call(|| *LOCK.lock().unwrap_or_else(PoisonError::into_inner) += 1);
        };
        for _ in 0..3 {
            let before = Own.stats().limit_overruns;
            let held = LOCK.lock().expect("no panic");
            let start = Instant::now();
            while Own.stats().limit_overruns == before {
                defer();
            }
            assert!(start.elapsed() >= THROTTLE_TIMEOUT);
            // From now on callers are throttled for a moment only.
            let start = Instant::now();
            for _ in 0..50 * BLOCK {
                defer();
            }
            assert!(start.elapsed() < 40 * THROTTLE_TIMEOUT, "{:?}", start.elapsed());
            assert!(Own.stats().limit_overruns >= before + 50);
            drop(held);
            // After progress they are throttled for longer again.
            Own.barrier();
            loop {
                let before = Own.stats();
                defer();
                let after = Own.stats();
                if after.limit_waits != before.limit_waits && after.limit_overruns == before.limit_overruns {
                    break;
                }
            }
            Own.barrier();
        }
        assert_eq!(*LOCK.lock().expect("no panic"), deferred);
    }
}
