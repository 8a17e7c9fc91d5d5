//! Deferred work at the boundary to the program: the threads that defer it, and the code of the program that runs. The
//! algorithm is in [`crate::reclaim::worker`].

use core::any::type_name;
use core::mem;
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
use crate::reclaim::heap_bytes;
use crate::reclaim::host::{CallerContext, Denied, Host};
use crate::reclaim::options::DeferOptions;
use crate::reclaim::queue::{PushAction, Queue};
use crate::reclaim::word::Word;
use crate::reclaim::{lazy_timer, running, worker_pool};

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

    fn try_synchronize(&self) -> bool {
        // It panics if the kernel denies the heavy fence: the worker will report that.
        let try_synchronize = || self.core().engine.try_synchronize(self.current_reader());
        catch_unwind(AssertUnwindSafe(try_synchronize)).unwrap_or(false)
    }

    #[cfg(feature = "epoch")]
    fn has_active_owner(&self, index: usize) -> bool {
        RawDomain::has_active_owner(self, index)
    }

    fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
        wait_in_worker(self, |own| self.core().engine.wait_for(own, cookie))
    }

    #[inline(always)]
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

    fn park(&self, due: u64) -> bool {
        // SAFETY: as above.
        let domain = unsafe { self.worker_ref() };
        lazy_timer::park((due, address(self).addr()), move || domain.core().callbacks.resume(&*domain))
    }

    fn unpark(&self, due: u64) {
        lazy_timer::unpark((due, address(self).addr()));
    }

    fn is_parked(&self, due: u64) -> bool {
        lazy_timer::is_parked((due, address(self).addr()))
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
/// `value` is a word of `W`, has been unpublished, and is not used by the caller again. Any thread may drop it. It is
/// not borrowed mutably during this call.
#[inline]
#[track_caller]
pub(crate) unsafe fn retire<W: Word<Value: 'static>>(
    domain: &impl RawDomain,
    value: NonNull<()>,
    options: DeferOptions,
) {
    // SAFETY: the caller's contract. The types of `known` are `Sync`.
    let heap = options.heap(|| heap_bytes::known(unsafe { W::deref(value) }));
    // SAFETY: the caller's contract; callbacks run after a grace period.
    let callback = unsafe { Callback::free::<W>(value, W::bytes(value), heap, options.local) };
    domain.defer(callback, options.lazy);
}

/// Returns `weigh(value)`, a function of the program, or `None` if it panics: it must not keep the value from being
/// retired.
pub(crate) fn weigh<T: ?Sized>(domain: &impl RawDomain, weigh: fn(&T) -> usize, value: &T) -> Option<usize> {
    let result = catch_unwind(AssertUnwindSafe(|| weigh(value)));
    result
        .inspect_err(|_| {
            PANICS.fetch_add(1, Relaxed);
            report_panic(domain, Panicked { what: "a weigher", name: type_name::<T>() });
        })
        .map_err(mem::forget)
        .ok()
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
    } else if callbacks_throttle_shortly(domain) {
        MayWait::Shortly
    } else if D::MAY_BE_INSIDE || fork::in_read_section() {
        // Two threads, each inside a section of the domain that throttles the other, would wait for each other.
        MayWait::Briefly
    } else {
        MayWait::Yes
    };
    CallerContext { is_owner: domain.current_reader().is_some(), is_inside, wait }
}

/// Throttles the caller, which runs nothing meanwhile, if too much waits.
#[cfg(feature = "epoch")]
#[cold]
pub(crate) fn throttle(domain: &impl RawDomain) {
    domain.core().callbacks.throttle_above_mark(None, context(domain).wait, domain);
}

/// [`CallbackWorker::collect`], outside. Returns `true` if there are callbacks.
///
/// [`CallbackWorker::collect`]: crate::reclaim::worker::CallbackWorker::collect
#[cfg(feature = "epoch")]
pub(crate) fn collect(domain: &impl RawDomain, own: Option<&Queue>) -> bool {
    domain.core().callbacks.collect(own, domain, !running::is_any())
}

/// [`CallbackWorker::run_all_ready`]. Does nothing in a callback: the next one would run inside it, and so on.
///
/// [`CallbackWorker::run_all_ready`]: crate::reclaim::worker::CallbackWorker::run_all_ready
#[cfg(feature = "epoch")]
pub(crate) fn run_all_ready(domain: &impl RawDomain, own: Option<&Queue>) {
    if !running::is_any() {
        domain.core().callbacks.run_all_ready(own, domain, true);
    }
}

#[cfg(feature = "epoch")]
fn callbacks_throttle_shortly(domain: &impl RawDomain) -> bool {
    domain.core().callbacks.backlog().throttles_shortly()
}

#[cfg(not(feature = "epoch"))]
fn callbacks_throttle_shortly(_: &impl RawDomain) -> bool {
    false
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
#[track_caller]
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
