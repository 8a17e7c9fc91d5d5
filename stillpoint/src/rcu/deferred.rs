//! Deferred work as a domain's users ask for it: the thread that asks, the worker that runs it, and what is done when there
//! is no memory or no thread. The algorithm is in [`super::callbacks`].

use core::mem;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::callbacks::{Caller, Host, MayWait};
use super::domain::{registered_reader, with_new_reader};
use super::engine::{Due, Engine, Orphaned, Readers as _};
use super::entry::{self, Data, Entry, Panicked, panicked};
use super::queue::{Amount, Chores, Queue};
use super::reader::Reader;
use super::world::{Static, World, address};
use super::{fork, running, stall, worker_pool};

/// What a caller says of deferred work, beyond what it is.
///
/// ```
/// use stillpoint::rcu::{self, Hints, Rcu};
///
/// let pages = Rcu::new(vec![0_u8; 1 << 20]);
/// let old = pages.replace(vec![1; 1 << 20]);
/// // The megabyte counts towards the limits, and may wait for company.
/// let hints = Hints::new().owning(old.len()).lazy();
/// old.retire_with(hints);
/// rcu::barrier();
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct Hints {
    lazy: bool,
    local: bool,
    bytes: usize,
}

impl Hints {
    /// None: to be done soon, and nothing owned but the value itself.
    pub const fn new() -> Self {
        Self { lazy: false, local: false, bytes: 0 }
    }

    /// It may wait until there is more to do: for other entries, for a few thousand of its kind or a quarter of the
    /// [`Limits`](super::Limits), for [`barrier`](super::barrier), or for ten seconds. Saves grace periods, and wake-ups of
    /// an idle process.
    pub const fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// The destructor of this value takes no locks and does nothing else that could harm the thread which retires it: so that
    /// thread may run it, in a later call of [`retire`](super::retire) or the like, when the grace period is over.
    ///
    /// As memory is then given back by the thread that took it, several times faster with most allocators: for nodes of lists,
    /// trees and tables whose values only own memory. Values without destructors are treated so anyway. Callbacks are not affected.
    ///
    /// What the thread has deferred afterwards waits for the destructor to return; what other threads have does not.
    pub const fn local(self) -> Self {
        Self { local: true, ..self }
    }

    /// It holds `bytes` of memory besides the value itself, which count towards the [`Limits`](super::Limits).
    pub const fn owning(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }
}

/// Callbacks and destructors that panicked, and entries that were lost, in all domains.
static PANICS: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);

pub(super) fn panics() -> u64 {
    PANICS.load(Relaxed)
}

pub(super) fn lost() -> u64 {
    LOST.load(Relaxed)
}

impl<W: World> Host for W {
    type Readers = W::Readers;

    const PATIENCE: Duration = W::PATIENCE;

    #[inline(always)]
    fn engine(&self) -> &Engine<W::Readers> {
        &self.core().engine
    }

    fn wait_for(&self, due: Due) -> Result<(), Orphaned> {
        if self.is_reading() {
            // A callback has leaked a guard: this thread would wait for itself.
            static TOLD: AtomicU64 = AtomicU64::new(0);
            if TOLD.swap(1, Relaxed) == 0 {
                // Not `eprintln!`, which panics if it cannot write.
                let _ = writeln!(
                    std::io::stderr(),
                    "stillpoint: a callback has left its worker {}: nothing deferred there can be done any more",
                    self.words().ends
                );
            }
            return Err(Orphaned);
        }
        let (own, engine) = (self.own(), self.engine());
        // A panic here is that of a heavy fence which the kernel denies.
        catch_unwind(AssertUnwindSafe(|| engine.wait_for(own, due))).unwrap_or(Err(Orphaned))
    }

    fn run(&self, entry: Entry) -> bool {
        let plain = entry.is_plain();
        // SAFETY: the callbacks give us entries whose grace period is over.
        let run = || unsafe { entry.run() };
        if plain {
            run();
            return true;
        }
        guarded(self, run)
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

    fn try_synchronize(&self, own: Option<&Reader>) -> bool {
        // A panic here is that of a heavy fence which the kernel denies: the worker will see to it.
        catch_unwind(AssertUnwindSafe(|| self.engine().try_synchronize(own))).unwrap_or(false)
    }
}

/// Runs a callback of the domain, whatever it does. False if it has forked, and this is the child.
fn guarded(world: &impl World, f: impl FnOnce()) -> bool {
    let forks = fork::count();
    if let Err(payload) = running::run(address(world), || catch_unwind(AssertUnwindSafe(f))) {
        // The panic hook has had it. The payload's destructor could panic too.
        mem::forget(payload);
        PANICS.fetch_add(1, Relaxed);
        report_panic(world);
    }
    fork::count() == forks
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
    let entry = unsafe { Entry::free(value, size_of::<T>().saturating_add(hints.bytes), hints.local) };
    world.defer(entry, hints.lazy);
}

/// Calls `f` after a grace period.
#[track_caller]
pub(crate) fn call(world: &impl World, f: impl FnOnce() + Send + 'static, hints: Hints) {
    match Entry::call(f, hints.bytes) {
        Ok(entry) => world.defer(entry, hints.lazy),
        Err(f) => wait_and_run(world, || entry::callback(f)),
    }
}

/// [`World::defer`], in the queue of the calling thread.
#[inline]
#[track_caller]
pub(super) fn defer_here<D: Static>(entry: Entry, lazy: bool) {
    match registered_reader::<D>() {
        None => with_new_reader::<D, _>(|reader| defer_to::<D>(reader, entry, lazy)),
        reader => defer_to::<D>(reader, entry, lazy),
    }
}

/// [`defer_here`], in the queue of the calling thread's reader, if it has one.
#[inline]
fn defer_to<D: Static>(reader: Option<&'static Reader>, entry: Entry, lazy: bool) {
    // SAFETY: the reader is this thread's.
    let Some(reader) = reader.filter(|reader| unsafe { reader.queue.reserve() }) else {
        let (run, data, weight) = entry.into_parts();
        return without_queue(&D::INSTANCE, run, data, weight);
    };
    // SAFETY: as above.
    let chores = unsafe { reader.queue.push(entry, lazy) };
    D::shared().core.callbacks.notify(lazy, &D::INSTANCE);
    if chores != Chores::None {
        settle(&D::INSTANCE, reader.queue, chores);
    }
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
        core.engine.readers().defer_to_exit(caller.own, core.callbacks.presses(queue));
    }
}

/// The same for a queue that is not the calling thread's, of which this was `reported`.
#[cold]
pub(crate) fn relieve(world: &impl World, queue: &Queue, reported: [Amount; 2]) {
    let callbacks = &world.core().callbacks;
    callbacks.count(reported);
    callbacks.relieve(queue, caller(world), world);
}

fn caller(world: &impl World) -> Caller<'static> {
    let is_inside = world.is_reading();
    // Not in callbacks of other domains either: two workers that waited for each other's backlog to shrink would do so until the
    // time is up, by no decision of the program, as limits and load make a caller wait.
    let wait = if is_inside || running::is_any() || stall::is_reporting() {
        MayWait::No
    } else if fork::is_reading() {
        // Two threads, each inside a section of the domain that the other waits in, would wait for each other.
        MayWait::Briefly
    } else {
        MayWait::Yes
    };
    Caller { own: world.own(), is_inside, wait }
}

/// The calling thread, which owns the queue, ends.
pub(super) fn end_of_owner(world: &impl World, queue: &Queue) {
    world.core().callbacks.end_of_owner(queue, caller(world).wait, world);
}

/// Has the worker look at the queues.
pub(crate) fn notify(world: &impl World) {
    world.core().callbacks.notify(false, world);
}

/// For an entry, in parts, that cannot be queued.
#[cold]
pub(crate) fn without_queue(world: &impl World, run: unsafe fn(Data), data: Data, weight: usize) {
    // SAFETY: the parts are those of one entry; it runs after a grace period.
    wait_and_run(world, move || unsafe { Entry::from_parts(run, data, weight).run() });
}

/// For who has no memory to queue `f`: waits for a grace period here, or, inside a section, gives up what `f` holds.
#[cold]
fn wait_and_run(world: &impl World, f: impl FnOnce()) {
    if world.wait_without_memory() {
        guarded(world, f);
        return;
    }
    mem::forget(f);
    if LOST.fetch_add(1, Relaxed) == 0 {
        // Not `eprintln!`, which panics if it cannot write.
        let _ = writeln!(
            std::io::stderr(),
            "stillpoint: no memory to queue deferred work, and no grace period to be had here: it is lost, see rcu::stats()"
        );
    }
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
        panic!("{}, or the heavy fence, which worked before, is denied", world.words().orphaned);
    }
}
