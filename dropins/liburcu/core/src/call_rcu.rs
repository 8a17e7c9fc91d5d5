//! `call_rcu`: worker threads, each with a queue of callbacks.
//!
//! A worker takes its queue and a cookie, lingers, and leads a grace period only if no other caller's has served the
//! cookie by then. Programs that call `call_rcu` and then `synchronize_rcu` would otherwise wait for the grace period
//! of the worker and for the next one.
//!
//! The default worker is part of the library, so `call_rcu` needs no memory. If its thread cannot be started,
//! callbacks stay in the queue until it can be, or until `rcu_barrier` runs them.

use core::ffi::{c_int, c_ulong};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use crate::cpu_table::CpuTable;
use crate::flavor::{Flavor, SignalsBlocked, in_section, offline};
use crate::generation::generation;
use crate::hooks::Hooks;
use crate::lock::Lock;
use crate::queue::{Batch, Function, RcuHead};
use crate::worker::{OWN_WORKER, PAUSE, PAUSED, STOP, STOPPED, Worker, get_thread_worker};

/// A flavor with `call_rcu`.
pub trait CallRcu: Flavor {
    fn workers() -> &'static Workers;
}

/// All workers of a flavor.
#[derive(Debug)]
pub struct Workers {
    pub(crate) lock: Lock,
    pub(crate) default: Worker,
    /// The list of the others, which the lock protects.
    first: AtomicPtr<Worker>,
    pub(crate) cpus: CpuTable,
    /// A thread holds it while it starts the default worker, perhaps with `lock`.
    pub(crate) starting: Lock,
    /// The thread in `rcu_barrier` holds it.
    pub(crate) barrier_lock: Lock,
    pub(crate) hooks: Hooks,
}

impl Workers {
    pub const fn new() -> Self {
        Self {
            lock: Lock::new(),
            default: Worker::new_default(),
            first: AtomicPtr::new(ptr::null_mut()),
            cpus: CpuTable::new(),
            starting: Lock::new(),
            barrier_lock: Lock::new(),
            hooks: Hooks::new(),
        }
    }

    /// Returns all workers but the default one. Under the lock.
    fn others(&self) -> impl Iterator<Item = &Worker> {
        let mut next = self.first.load(Relaxed);
        core::iter::from_fn(move || {
            // SAFETY: workers in the list are valid while the lock is held.
            let worker = unsafe { next.as_ref() }?;
            next = worker.next.load(Relaxed);
            Some(worker)
        })
    }

    /// Returns all workers that run in this process. Under the lock.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Worker> {
        core::iter::once(&self.default).chain(self.others()).filter(|worker| worker.is_running())
    }

    /// Returns all workers whose callbacks a barrier waits for. Under the lock.
    pub(crate) fn running_and_default(&self) -> impl Iterator<Item = &Worker> {
        core::iter::once(&self.default).chain(self.others().filter(|worker| worker.is_running()))
    }

    /// Returns `true` if no worker runs but paused ones. Under both locks.
    pub(crate) fn is_paused(&self) -> bool {
        // Acquire: as in `wait_for_status`.
        self.running().all(|worker| matches!(worker.status.load(Acquire), PAUSED | STOPPED))
    }
}

/// Starts the default worker, if it does not run. Returns `false` if that is impossible.
pub(crate) fn start_default<F: CallRcu>() -> bool {
    let workers = F::workers();
    if workers.default.is_running() {
        return true;
    }
    let _blocked = SignalsBlocked::during::<F>();
    let _held = workers.starting.hold();
    workers.default.is_running() || workers.default.start::<F>().is_ok()
}

/// Takes the callbacks of the default worker, with the number of the last request, if no thread can be started for
/// it. Under the lock.
pub(crate) fn take_without_thread<F: CallRcu>() -> Option<(u32, Batch)> {
    let default = &F::workers().default;
    let _held = F::workers().starting.hold();
    let has_thread = default.is_running() || !default.queue.is_empty() && default.start::<F>().is_ok();
    (!has_thread).then(|| (default.last_request(), default.queue.take()))
}

/// The callbacks that [`take_without_thread`] returned have been called. A thread that has been started since
/// completes the request itself.
pub(crate) fn complete_without_thread<F: CallRcu>(requested: u32) {
    let workers = F::workers();
    let _held = workers.starting.hold();
    if !workers.default.is_running() {
        workers.default.complete::<F>(requested);
    }
}

/// Returns the worker if it runs.
///
/// # Safety
///
/// `worker` is null, or is not freed during `'a`.
unsafe fn running<'a>(worker: *mut Worker) -> Option<&'a Worker> {
    // SAFETY: the caller's contract.
    unsafe { worker.as_ref() }.filter(|worker| worker.is_running())
}

/// `call_rcu`.
///
/// # Safety
///
/// `head` is valid, and the library's until the callback is called.
pub unsafe fn call<F: CallRcu>(head: *mut RcuHead, function: Function) {
    // SAFETY: the caller's contract.
    let is_flooded = unsafe { push::<F>(head, function) };
    if is_flooded {
        // SAFETY: has no preconditions.
        unsafe { libc::sched_yield() };
    }
}

/// Hands a callback to a worker. Returns `true` if the caller should yield.
///
/// # Safety
///
/// See [`call`].
#[inline]
unsafe fn push<F: CallRcu>(head: *mut RcuHead, function: Function) -> bool {
    let workers = F::workers();
    // SAFETY: the caller's contract; the program sets another worker, or none, before it frees the thread's.
    unsafe {
        if let Some(worker) = running(get_thread_worker::<F>()) {
            return worker.push(head, function);
        }
        let push = || running(workers.cpus.of_this_cpu()).map(|worker| worker.push(head, function));
        // The program frees the worker of a CPU a grace period after it has set another one.
        let has_cpu_workers = !workers.cpus.get().is_empty();
        if let Some(is_flooded) = has_cpu_workers.then(|| in_section::<F, _>(push)).flatten().flatten() {
            return is_flooded;
        }
        start_default::<F>();
        workers.default.push(head, function)
    }
}

/// `get_call_rcu_data`.
pub fn get_worker<F: CallRcu>() -> *mut Worker {
    for worker in [get_thread_worker::<F>(), F::workers().cpus.of_this_cpu()] {
        // SAFETY: the caller is inside a section, or the program frees no workers during the call.
        if unsafe { running(worker) }.is_some() {
            return worker;
        }
    }
    get_default_worker::<F>()
}

/// `get_default_call_rcu_data`.
pub fn get_default_worker<F: CallRcu>() -> *mut Worker {
    start_default::<F>();
    ptr::from_ref(&F::workers().default).cast_mut()
}

/// `get_call_rcu_thread`.
///
/// # Safety
///
/// `worker` is one that has not been freed.
pub unsafe fn thread_of(worker: *mut Worker) -> libc::pthread_t {
    // SAFETY: the caller's contract.
    unsafe { &*worker }.thread.load(Relaxed)
}

/// `create_call_rcu_data`. Returns null, and sets `errno`, if there is no memory or no thread.
pub fn create<F: CallRcu>(flags: c_ulong, cpu: c_int) -> *mut Worker {
    let workers = F::workers();
    // SAFETY: a plain allocation, which is initialized before use.
    let worker = unsafe {
        let worker = libc::malloc(size_of::<Worker>()).cast::<Worker>();
        if worker.is_null() {
            return ptr::null_mut();
        }
        worker.write(Worker::new(flags, cpu));
        &*worker
    };
    let _blocked = SignalsBlocked::during::<F>();
    let _held = workers.lock.hold();
    if let Err(error) = worker.start::<F>() {
        // SAFETY: no other thread has seen it.
        unsafe { libc::free(ptr::from_ref(worker).cast_mut().cast()) };
        set_errno(error);
        return ptr::null_mut();
    }
    let place = ptr::from_ref(worker).cast_mut();
    worker.next.store(workers.first.swap(place, Relaxed), Relaxed);
    place
}

/// `call_rcu_data_free`: waits for the callbacks that are queued, stops the thread, and moves what has been queued
/// since to the default worker.
///
/// Does not join the thread, as programs of liburcu 0.13 do that later. From 0.14 on, liburcu joins it, and programs
/// do not: then its stack stays mapped.
///
/// # Safety
///
/// `worker` is null, or one that has not been freed and that no thread uses.
pub unsafe fn free<F: CallRcu>(worker: *mut Worker) {
    // SAFETY: the caller's contract.
    unsafe { stop_and_free::<F>(worker) };
}

/// [`free`] for workers whose threads the program does not join.
///
/// # Safety
///
/// See [`free`].
pub(crate) unsafe fn free_and_join<F: CallRcu>(worker: *mut Worker) {
    // SAFETY: the caller's contract.
    if let Some(thread) = unsafe { stop_and_free::<F>(worker) } {
        offline::<F>(|_| join(thread));
    }
}

/// Returns the thread if there was one.
///
/// # Safety
///
/// See [`free`].
unsafe fn stop_and_free<F: CallRcu>(worker: *mut Worker) -> Option<libc::pthread_t> {
    let workers = F::workers();
    // SAFETY: the caller's contract.
    let worker = unsafe { worker.as_ref() }.filter(|worker| !ptr::eq(*worker, &workers.default))?;
    let thread = worker.is_running().then(|| worker.thread.load(Relaxed));
    if thread.is_some() {
        offline::<F>(|_| {
            worker.command(STOP);
            worker.wait_for_status::<F>(|status| status == STOPPED);
        });
    }
    {
        let _blocked = SignalsBlocked::during::<F>();
        let _held = workers.lock.hold();
        // A thread in `before_fork` holds the lock, and waits for no worker that has stopped.
        let mut link = &workers.first;
        while let Some(other) = worker_at(link) {
            if ptr::eq(other, worker) {
                link.store(worker.next.load(Relaxed), Relaxed);
                break;
            }
            link = &other.next;
        }
        take_over::<F>(worker);
    }
    if !workers.default.queue.is_empty() {
        start_default::<F>();
    }
    // SAFETY: allocated by `create`; in no list, and its thread has stopped.
    unsafe { libc::free(ptr::from_ref(worker).cast_mut().cast()) };
    thread
}

/// Waits until the thread has ended, also if the caller has been cancelled.
fn join(thread: libc::pthread_t) {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    }
    /// `PTHREAD_CANCEL_DISABLE`.
    const DISABLE: c_int = 1;
    let mut old = 0;
    // SAFETY: the place outlives the calls; the thread is joinable, and joined once.
    unsafe {
        pthread_setcancelstate(DISABLE, &mut old);
        libc::pthread_join(thread, ptr::null_mut());
        pthread_setcancelstate(old, &mut old);
    }
}

/// Returns the worker that `link` points to. Under the lock.
fn worker_at(link: &AtomicPtr<Worker>) -> Option<&Worker> {
    // SAFETY: workers in the list are valid while the lock is held.
    unsafe { link.load(Relaxed).as_ref() }
}

/// Moves the callbacks of a worker that has stopped to the default one. A barrier that waits for them then waits for
/// that one. Under the lock.
fn take_over<F: CallRcu>(worker: &Worker) {
    let workers = F::workers();
    if !worker.queue.is_empty() {
        workers.default.queue.take_over(&worker.queue);
        workers.default.request();
    }
    F::progress().event.notify();
}

/// Pauses all workers. The lock stays held.
pub(crate) fn pause<F: CallRcu>() {
    let workers = F::workers();
    for worker in workers.running() {
        worker.command(PAUSE);
    }
    for worker in workers.running() {
        worker.wait_for_status::<F>(|status| status == PAUSED || status == STOPPED);
    }
}

/// Ends the pause.
pub(crate) fn resume<F: CallRcu>() {
    let workers = F::workers();
    for worker in workers.running() {
        worker.commands.fetch_and(!PAUSE, Release);
        worker.event.notify();
    }
    // So that the next fork finds no old status.
    for worker in workers.running() {
        worker.wait_for_status::<F>(|status| status != PAUSED);
    }
}

/// Drops the workers that the child has lost, and moves their callbacks to a new default worker.
pub(crate) fn restart_in_child<F: CallRcu>() {
    let workers = F::workers();
    let was_used = workers.default.started_in.load(Relaxed) != 0 || !workers.first.load(Relaxed).is_null();
    if let Some(own) = F::own_if_any() {
        own.private[OWN_WORKER].store(ptr::null_mut(), Relaxed);
    }
    for place in workers.cpus.get() {
        place.store(ptr::null_mut(), Relaxed);
    }
    let mut next = workers.first.swap(ptr::null_mut(), Relaxed);
    // SAFETY: the only thread; workers in the list are valid.
    while let Some(worker) = unsafe { next.as_ref() } {
        next = worker.next.load(Relaxed);
        take_over::<F>(worker);
        // SAFETY: as in `stop_and_free`.
        unsafe { libc::free(ptr::from_ref(worker).cast_mut().cast()) };
    }
    if was_used {
        start_default::<F>();
    }
}

/// Makes the default worker one that does not run, in the child of a fork. A callback that forks continues in the
/// child, as does its worker.
pub(crate) fn reset_in_child<F: CallRcu>() {
    let workers = F::workers();
    workers.default.reset_in_child();
    // SAFETY: the thread's own worker is valid.
    let Some(worker) = (unsafe { get_thread_worker::<F>().as_ref() }) else { return };
    // SAFETY: has no preconditions.
    if worker.thread.load(Relaxed) == unsafe { libc::pthread_self() } {
        worker.reset_in_child();
        worker.started_in.store(generation(), Relaxed);
    }
}

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: the calling thread's variable.
    unsafe { *libc::__errno_location() = errno };
}
