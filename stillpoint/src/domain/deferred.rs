//! Deferred work as a domain's users ask for it: the thread that asks, and the worker that runs it. The algorithm is in
//! [`crate::reclaim::worker`].

use core::mem;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::fork;
use super::raw::{World, address};
use crate::grace_period::cookie::Due;
use crate::grace_period::engine::{Engine, Readers as _};
use crate::grace_period::stall;
use crate::reclaim::backlog::{Amount, MayWait};
use crate::reclaim::callback::{Entry, Panicked, panicked};
use crate::reclaim::options::Hints;
use crate::reclaim::queue::{Chores, Queue};
use crate::reclaim::worker::{Caller, Denied, Host};
use crate::reclaim::{running, worker_pool};

/// Callbacks and destructors that panicked, in all domains.
static PANICS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn panics() -> u64 {
    PANICS.load(Relaxed)
}

impl<W: World> Host for W {
    type Readers = W::Readers;
    type Queues = W::Queues;

    #[inline(always)]
    fn engine(&self) -> &Engine<W::Readers> {
        &self.core().engine
    }

    fn queues(&self) -> &W::Queues {
        World::queues(self)
    }

    fn is_alone(&self) -> bool {
        self.engine().readers().is_alone(self.own())
    }

    fn wait_for(&self, due: Due) -> Result<(), Denied> {
        // If a callback has leaked a guard, this thread is inside: a section to wait for, as that of any other thread.
        let own = self.own().filter(|_| !self.is_reading());
        let engine = self.engine();
        // A panic here is that of a heavy fence which the kernel denies.
        catch_unwind(AssertUnwindSafe(|| engine.wait_for(own, due))).map_err(|_| Denied)
    }

    fn run(&self, entry: Entry) {
        let plain = entry.is_plain();
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

    fn is_reporting(&self) -> bool {
        stall::is_reporting()
    }

    fn start_worker(&self) -> bool {
        // SAFETY: the task waits for grace periods, and runs what was deferred.
        let world = unsafe { self.keep() };
        worker_pool::submit(move || world.core().callbacks.work(&*world, || false))
    }

    fn try_synchronize(&self) -> bool {
        // A panic here is that of a heavy fence which the kernel denies: the worker will see to it.
        catch_unwind(AssertUnwindSafe(|| self.engine().try_synchronize(self.own()))).unwrap_or(false)
    }
}

/// Says on the standard error what the panic does not: which domain's callback it was.
#[cold]
fn report_panic(world: &impl World) {
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
pub(crate) unsafe fn retire<T: Send + 'static>(world: &impl World, value: NonNull<T>, hints: Hints) {
    // SAFETY: the caller's contract; entries run after a grace period.
    let entry = unsafe { Entry::free(value, size_of::<T>().saturating_add(hints.bytes()), hints.is_local()) };
    world.defer(entry, hints.is_lazy());
}

/// Calls `f` after a grace period.
#[track_caller]
pub(crate) fn call(world: &impl World, f: impl FnOnce() + Send + 'static, hints: Hints) {
    world.defer(Entry::call(f, hints.bytes()), hints.is_lazy());
}

/// What the owner of a queue does now and then, where it has just deferred something.
#[cold]
pub(crate) fn settle(world: &impl World, queue: &Queue, chores: Chores) {
    if chores == Chores::Step {
        return world.core().callbacks.step(queue, world);
    }
    let core = world.core();
    core.callbacks.settle(queue, || caller(world), world);
    // A destructor that has just run may have begun a section, or ended one.
    let caller = caller(world);
    if caller.is_inside {
        core.engine.readers().defer_to_exit(world.own(), core.callbacks.presses(queue));
    }
}

/// The same for a queue that is not the calling thread's, of which this was `reported`.
#[cold]
pub(crate) fn relieve(world: &impl World, queue: &Queue, reported: [Amount; 2]) {
    let callbacks = &world.core().callbacks;
    callbacks.count(reported);
    callbacks.relieve(queue, caller(world), world);
}

fn caller<W: World>(world: &W) -> Caller {
    let is_inside = world.is_reading();
    // Not in callbacks of other domains either: two workers that waited for each other's backlog to shrink would do so until the
    // time is up, by no decision of the program, as limits and load make a caller wait.
    let wait = if is_inside || running::is_any() || stall::is_reporting() {
        MayWait::No
    } else if W::MAY_BE_INSIDE || fork::is_reading() {
        // Two threads, each inside a section of the domain that the other waits in, would wait for each other.
        MayWait::Briefly
    } else {
        MayWait::Yes
    };
    Caller { is_owner: world.own().is_some(), is_inside, wait }
}

/// The calling thread, which owns the queue, ends.
pub(crate) fn end_of_owner(world: &impl World, queue: &Queue) {
    world.core().callbacks.end_of_owner(queue, caller(world).wait, world);
}

/// Waits until all that was deferred before has been done.
pub(crate) fn barrier(world: &impl World) {
    assert!(!world.is_reading(), "{}", world.words().inside_barrier);
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
