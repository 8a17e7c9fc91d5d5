//! Deferred work as a domain's users ask for it: the thread that asks, and the worker that runs it. The algorithm is in
//! [`crate::reclaim::worker`].

use core::mem;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::fork;
use super::raw::{RawDomain, address};
use crate::grace_period::cookie::GpCookie;
use crate::grace_period::engine::{Engine, ReaderSet};
use crate::grace_period::stall;
use crate::reclaim::backlog::{Amount, MayWait};
use crate::reclaim::callback::{Callback, Panicked, panicked};
use crate::reclaim::options::DeferOptions;
use crate::reclaim::queue::{PushAction, Queue};
use crate::reclaim::worker::{CallbackQueues, Caller, Denied, Host};
use crate::reclaim::{running, worker_pool};

/// Callbacks and destructors that panicked, in all domains.
static PANICS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn panics() -> u64 {
    PANICS.load(Relaxed)
}

impl<W: RawDomain> Host for W {
    #[inline(always)]
    fn engine(&self) -> &Engine<impl ReaderSet> {
        &self.core().engine
    }

    fn queues(&self) -> &impl CallbackQueues {
        RawDomain::queues(self)
    }

    fn is_alone(&self) -> bool {
        self.core().engine.readers().no_other_readers(self.current_reader())
    }

    fn wait_for(&self, due: GpCookie) -> Result<(), Denied> {
        // If a callback has leaked a guard, this thread is inside: a section to wait for, as that of any other thread.
        let own = self.current_reader().filter(|_| !self.in_read_section());
        let engine = &self.core().engine;
        // A panic here is that of a heavy fence which the kernel denies.
        catch_unwind(AssertUnwindSafe(|| engine.wait_for(own, due))).map_err(|_| Denied)
    }

    fn run(&self, entry: Callback) {
        let plain = entry.is_free_only();
        // SAFETY: the callbacks give us entries whose grace period is over.
        let run = || unsafe { entry.run() };
        if plain {
            return run();
        }
        if let Err(payload) = running::run(address(self), || catch_unwind(AssertUnwindSafe(run))) {
            // The panic hook has had it. The payload's destructor could panic too.
            mem::forget(payload);
            PANICS.fetch_add(1, Relaxed);
            report_panic(self);
        }
    }

    fn fence(&self) {
        // If the kernel denies it, an entry that was appended this moment may wait for the next one.
        let _ = catch_unwind(crate::fence::heavy);
    }

    fn start_worker(&self) -> bool {
        // SAFETY: the task waits for grace periods, and runs what was deferred.
        let world = unsafe { self.worker_ref() };
        worker_pool::submit(move || world.core().callbacks.work(&*world, || false))
    }

    fn try_synchronize(&self) {
        // A panic here is that of a heavy fence which the kernel denies: the worker will see to it.
        let try_synchronize = || self.core().engine.try_synchronize(self.current_reader());
        let _ = catch_unwind(AssertUnwindSafe(try_synchronize));
    }
}

/// Says on the standard error what the panic does not: which domain's callback it was.
#[cold]
fn report_panic(world: &impl RawDomain) {
    let Some(Panicked { what, name }) = panicked() else { return };
    let domain = world.core().engine.domain();
    let mut stderr = std::io::stderr();
    // Not `eprintln!`, which panics if it cannot write.
    let _ = match world.made_at() {
        None => writeln!(stderr, "stillpoint: {what} in {domain} has panicked: {name}"),
        Some(site) => {
            writeln!(stderr, "stillpoint: {what} in {domain}, made at {site}, has panicked: {name}")
        }
    };
}

/// Frees the box after a grace period.
///
/// # Safety
///
/// `value` comes from a `Box`, has been unpublished, and is not used by the caller again.
#[inline]
#[track_caller]
pub(crate) unsafe fn retire<T: Send + 'static>(
    world: &impl RawDomain,
    value: NonNull<T>,
    hints: DeferOptions,
) {
    // SAFETY: the caller's contract; entries run after a grace period.
    let entry = unsafe { Callback::free(value, size_of::<T>().saturating_add(hints.bytes), hints.local) };
    world.defer(entry, hints.lazy);
}

/// Calls `f` after a grace period.
#[track_caller]
pub(crate) fn call(world: &impl RawDomain, f: impl FnOnce() + Send + 'static, hints: DeferOptions) {
    world.defer(Callback::call(f, hints.bytes), hints.lazy);
}

/// What the owner of a queue does now and then, where it has just deferred something.
#[cold]
pub(crate) fn flush(world: &impl RawDomain, queue: &Queue, chores: PushAction) {
    if chores == PushAction::ReclaimSome {
        return world.core().callbacks.reclaim_some(queue, world);
    }
    let core = world.core();
    core.callbacks.flush(queue, || caller(world), world);
    // A destructor that has just run may have begun a section, or ended one.
    let caller = caller(world);
    if caller.is_inside {
        core.engine.readers().defer_to_exit(world.current_reader(), core.callbacks.must_throttle(queue));
    }
}

/// The same for a queue that is not the calling thread's, of which this was `reported`.
#[cold]
pub(crate) fn reduce_backlog(world: &impl RawDomain, queue: &Queue, reported: [Amount; 2]) {
    let callbacks = &world.core().callbacks;
    callbacks.count(reported);
    callbacks.reduce_backlog(queue, caller(world), world);
}

fn caller<W: RawDomain>(world: &W) -> Caller {
    let is_inside = world.in_read_section();
    // Not in callbacks of other domains either: two workers that waited for each other's backlog to shrink would do so until the
    // time is up, by no decision of the program, as limits and load make a caller wait.
    let wait = if is_inside || running::is_any() || stall::is_reporting() {
        MayWait::No
    } else if W::MAY_BE_INSIDE || fork::in_read_section() {
        // Two threads, each inside a section of the domain that the other waits in, would wait for each other.
        MayWait::Briefly
    } else {
        MayWait::Yes
    };
    Caller { is_owner: world.current_reader().is_some(), is_inside, wait }
}

/// The calling thread, which owns the queue, ends.
pub(crate) fn end_of_owner(world: &impl RawDomain, queue: &Queue) {
    world.core().callbacks.end_of_owner(queue, caller(world).wait, world);
}

/// Waits until all that was deferred before has been done.
pub(crate) fn barrier(world: &impl RawDomain) {
    assert!(!world.in_read_section(), "{}", world.messages().inside_barrier);
    assert!(
        !stall::is_reporting(),
        "barrier() in a stall hook: the grace period that stalls waits for the hook"
    );
    assert!(
        !running::is_of(address(world)),
        "barrier() inside a callback of the same domain would wait for itself"
    );
    if world.core().callbacks.barrier(world).is_err() {
        panic!("barrier() would wait for ever: the kernel denies the heavy fence, which worked before");
    }
}
