//! `call_rcu`: worker threads, each with a queue of callbacks.
//!
//! A worker takes its queue and a cookie, lingers, and leads a grace period only if no other caller's has served the
//! cookie meanwhile. Programs that call `call_rcu` and then `synchronize_rcu` would otherwise wait for the grace period
//! of the worker and for the next one.
//!
//! The default worker is part of the library, so `call_rcu` needs no memory. If its thread cannot be started, callbacks
//! stay in the queue until it can be, or until `rcu_barrier` runs them.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_ulong, c_void};
use core::mem::{self, offset_of};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence};

use crate::flavor::{Domain, Flavor, SignalsBlocked, is_misused, offline, synchronize};
use crate::fork::{Hooks, generation};
use crate::queue::{Function, Queue, RcuHead};
use crate::sync::{Event, Lock};

/// How long a worker waits for a grace period of another caller, in nanoseconds.
const LINGER_NS: u64 = 1_000_000;
/// How often a worker that callers do not wake checks its queue, in nanoseconds.
const POLL_NS: u64 = 10_000_000;

/// `URCU_CALL_RCU_RT`: callers do not wake the worker.
const RT: c_ulong = 1;

// What the worker is told.
const STOP: u32 = 1;
const PAUSE: u32 = 2;
/// Do not linger.
const URGENT: u32 = 4;

// What the worker tells.
const PAUSED: u32 = 1;
const STOPPED: u32 = 2;

/// `struct call_rcu_data`.
#[derive(Debug)]
pub struct Worker {
    queue: Queue,
    commands: AtomicU32,
    status: AtomicU32,
    /// The worker sleeps, or is about to: callers wake it.
    is_idle: AtomicBool,
    event: Event,
    flags: c_ulong,
    /// The CPU to run on, or -1.
    cpu: c_int,
    thread: AtomicU64,
    /// The [`generation`] in which the thread was started; 0 if it was not.
    started_in: AtomicU32,
    /// The owner, and a barrier in progress.
    references: AtomicU32,
    /// The next in `Workers::first`.
    next: AtomicPtr<Worker>,
    barrier: UnsafeCell<RcuHead>,
}

/// All workers of a flavor.
#[derive(Debug)]
pub struct Workers {
    pub(crate) lock: Lock,
    default: Worker,
    /// The list of the others, which the lock protects.
    first: AtomicPtr<Worker>,
    /// The worker of each CPU; null until one is set.
    cpus: AtomicPtr<AtomicPtr<Worker>>,
    /// A worker has paused or stopped.
    progress: Event,
    /// Held by the thread in `rcu_barrier`.
    pub(crate) barrier_lock: Lock,
    /// The number of callbacks that the barrier waits for, and its own share.
    barrier_pending: AtomicU32,
    barrier_done: Event,
    pub(crate) hooks: Hooks,
}

// SAFETY: callbacks are memory of the program that it hands over; everything else is atomic or constant.
unsafe impl Sync for Worker {}
// SAFETY: as above.
unsafe impl Send for Worker {}

/// The first word of `InlinedReader::private`: the worker of a thread.
const OWN_WORKER: usize = 0;

impl Worker {
    const fn new(flags: c_ulong, cpu: c_int) -> Self {
        Self {
            queue: Queue::new(),
            commands: AtomicU32::new(0),
            status: AtomicU32::new(0),
            is_idle: AtomicBool::new(false),
            event: Event::new(),
            flags,
            cpu,
            thread: AtomicU64::new(0),
            started_in: AtomicU32::new(0),
            references: AtomicU32::new(1),
            next: AtomicPtr::new(ptr::null_mut()),
            barrier: UnsafeCell::new(RcuHead::new()),
        }
    }

    /// Returns `true` if the worker's thread runs in this process.
    fn is_running(&self) -> bool {
        // Acquire: the thread's id; pairs with the Release in `start`.
        self.started_in.load(Acquire) == generation()
    }

    fn is_rt(&self) -> bool {
        self.flags & RT != 0
    }

    /// Appends a callback, and wakes the worker if it sleeps.
    ///
    /// # Safety
    ///
    /// See [`Queue::push`].
    unsafe fn push(&self, head: *mut RcuHead, function: Function) {
        // SAFETY: the caller's contract.
        if unsafe { self.queue.push(head, function) } && !self.is_rt() {
            self.wake_if_idle();
        }
    }

    /// Wakes the worker if it sleeps, after the queue has become non-empty.
    fn wake_if_idle(&self) {
        // Either the worker sees the callback, or this thread sees that it is idle; pairs with the fence in `idle`.
        fence(SeqCst);
        if self.is_idle.load(Relaxed) {
            self.event.notify();
        }
    }

    fn command(&self, command: u32) {
        self.commands.fetch_or(command, Release);
        self.event.notify();
    }

    /// Sleeps until there is a callback or a command.
    fn idle(&self) {
        let seen = self.event.count();
        self.is_idle.store(true, Relaxed);
        // Pairs with the fence in `wake_if_idle`.
        fence(SeqCst);
        if self.queue.is_empty() && self.commands.load(Relaxed) & (STOP | PAUSE) == 0 {
            self.event.wait(seen, self.is_rt().then_some(POLL_NS));
        }
        self.is_idle.store(false, Relaxed);
    }

    /// Waits for a grace period of another caller, unless there is a command.
    fn linger(&self) {
        let mut left = LINGER_NS;
        let start = now();
        loop {
            let seen = self.event.count();
            if self.commands.load(Relaxed) != 0 {
                return;
            }
            self.event.wait(seen, Some(left));
            match LINGER_NS.checked_sub(now().saturating_sub(start)) {
                None | Some(0) => return,
                Some(rest) => left = rest,
            }
        }
    }

    /// Registers the worker's thread, whose callbacks queue callbacks for the same worker.
    fn register<F: Flavor>(&self) {
        F::register_thread();
        set_thread_worker::<F>(ptr::from_ref(self).cast_mut());
    }

    /// The life of the worker's thread.
    fn run<F: Flavor>(&self) {
        let domain = F::domain();
        if self.cpu >= 0 {
            pin_to(self.cpu);
        }
        self.register::<F>();
        loop {
            // Acquire: what was queued before an urgent request; pairs with the Release in `command`.
            let commands = self.commands.fetch_and(!URGENT, Acquire);
            if commands & STOP != 0 {
                break;
            }
            if commands & PAUSE != 0 {
                F::unregister_thread();
                self.tell(domain, PAUSED);
                self.event.wait_until(|| self.commands.load(Acquire) & PAUSE == 0);
                self.status.store(0, Relaxed);
                domain.workers.progress.notify();
                self.register::<F>();
                continue;
            }
            let batch = self.queue.take();
            if batch.is_empty() {
                offline::<F>(|_| self.idle());
                continue;
            }
            let cookie = domain.engine.snapshot();
            offline::<F>(|own| {
                if commands & URGENT == 0 {
                    self.linger();
                }
                if !domain.engine.is_done(cookie) {
                    domain.engine.wait_for(own, cookie);
                }
            });
            batch.run();
        }
        F::unregister_thread();
        self.tell(domain, STOPPED);
    }

    /// Sets the status, as the last access if that is `STOPPED`: the worker may be freed then.
    fn tell<F: Flavor>(&self, domain: &Domain<F>, status: u32) {
        // Release: what the worker did; pairs with the Acquire in `wait_for_status`.
        self.status.store(status, Release);
        domain.workers.progress.notify();
    }

    fn wait_for_status<F: Flavor>(&self, condition: impl Fn(u32) -> bool) {
        F::domain().workers.progress.wait_until(|| condition(self.status.load(Acquire)));
    }

    /// Starts the thread, which is joinable. Returns an error number if that is impossible.
    fn start<F: Flavor>(&self) -> Result<(), c_int> {
        extern "C" fn main<F: Flavor>(worker: *mut c_void) -> *mut c_void {
            // SAFETY: a worker lives until its thread has stopped.
            unsafe { &*worker.cast::<Worker>() }.run::<F>();
            ptr::null_mut()
        }
        // The thread inherits the mask.
        let _blocked = SignalsBlocked::always();
        let argument = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: an identifier is a plain number, and the places outlive the call.
        let (error, thread) = unsafe {
            let mut thread: libc::pthread_t = mem::zeroed();
            (libc::pthread_create(&mut thread, ptr::null(), main::<F>, argument), thread)
        };
        if error != 0 {
            return Err(error);
        }
        self.thread.store(thread, Relaxed);
        // Release: pairs with the Acquire in `is_running`.
        self.started_in.store(generation(), Release);
        Ok(())
    }

    /// Gives up a reference. The last one frees the worker.
    fn drop_reference(&self) {
        // AcqRel: all uses of the worker come before it is freed.
        if self.references.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: allocated by `create`; the default worker keeps its own reference.
            unsafe { libc::free(ptr::from_ref(self).cast_mut().cast()) };
        }
    }
}

impl Workers {
    pub const fn new() -> Self {
        Self {
            lock: Lock::new(),
            default: Worker::new(0, -1),
            first: AtomicPtr::new(ptr::null_mut()),
            cpus: AtomicPtr::new(ptr::null_mut()),
            progress: Event::new(),
            barrier_lock: Lock::new(),
            barrier_pending: AtomicU32::new(0),
            barrier_done: Event::new(),
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
    fn running(&self) -> impl Iterator<Item = &Worker> {
        core::iter::once(&self.default).chain(self.others()).filter(|worker| worker.is_running())
    }

    /// Returns the table of the CPUs, if there is one.
    fn cpus(&self) -> &[AtomicPtr<Worker>] {
        // Acquire: the table; pairs with the AcqRel in `cpus_or_new`.
        let table = self.cpus.load(Acquire);
        // SAFETY: a table is never freed.
        if table.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(table, cpu_count()) } }
    }

    fn cpus_or_new(&self) -> Option<&[AtomicPtr<Worker>]> {
        if self.cpus.load(Relaxed).is_null() {
            // SAFETY: zeros are null pointers. A table that another thread has set first stays.
            unsafe {
                let table = libc::calloc(cpu_count(), size_of::<AtomicPtr<Worker>>());
                if table.is_null() {
                    return None;
                }
                if self.cpus.compare_exchange(ptr::null_mut(), table.cast(), AcqRel, Acquire).is_err() {
                    libc::free(table);
                }
            }
        }
        Some(self.cpus())
    }

    /// Returns the worker of the CPU that the thread runs on, if one has been set.
    fn of_this_cpu(&self) -> *mut Worker {
        let cpus = self.cpus();
        if cpus.is_empty() {
            return ptr::null_mut();
        }
        // SAFETY: has no preconditions.
        let cpu = unsafe { libc::sched_getcpu() };
        usize::try_from(cpu)
            .ok()
            .and_then(|cpu| cpus.get(cpu))
            .map_or(ptr::null_mut(), |cpu| cpu.load(Acquire))
    }
}

/// Starts the default worker, if it does not run. Returns `false` if that is impossible.
pub(crate) fn start_default<F: Flavor>() -> bool {
    let workers = &F::domain().workers;
    if workers.default.is_running() {
        return true;
    }
    let _blocked = SignalsBlocked::during::<F>();
    let _held = workers.lock.hold();
    workers.default.is_running() || workers.default.start::<F>().is_ok()
}

/// Returns the worker for the calling thread: its own, its CPU's, or the default one.
fn choose<F: Flavor>() -> &'static Worker {
    let workers = &F::domain().workers;
    for worker in [get_thread_worker::<F>(), workers.of_this_cpu()] {
        // SAFETY: the program sets another worker, or none, before it frees this one.
        if let Some(worker) = unsafe { worker.as_ref() }.filter(|worker| worker.is_running()) {
            return worker;
        }
    }
    start_default::<F>();
    &workers.default
}

/// `call_rcu`.
///
/// # Safety
///
/// `head` is valid, and the library's until the callback is called.
pub unsafe fn call<F: Flavor>(head: *mut RcuHead, function: Function) {
    // SAFETY: the caller's contract.
    unsafe { choose::<F>().push(head, function) };
}

/// `get_call_rcu_data`.
pub fn get_worker<F: Flavor>() -> *mut Worker {
    ptr::from_ref(choose::<F>()).cast_mut()
}

/// `get_default_call_rcu_data`.
pub fn get_default_worker<F: Flavor>() -> *mut Worker {
    start_default::<F>();
    ptr::from_ref(&F::domain().workers.default).cast_mut()
}

/// `get_thread_call_rcu_data`.
pub fn get_thread_worker<F: Flavor>() -> *mut Worker {
    F::own_if_any().map_or(ptr::null_mut(), |own| own.private[OWN_WORKER].load(Relaxed).cast())
}

/// `set_thread_call_rcu_data`.
pub fn set_thread_worker<F: Flavor>(worker: *mut Worker) {
    F::own().private[OWN_WORKER].store(worker.cast(), Relaxed);
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
pub fn create<F: Flavor>(flags: c_ulong, cpu: c_int) -> *mut Worker {
    let workers = &F::domain().workers;
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
        worker.drop_reference();
        set_errno(error);
        return ptr::null_mut();
    }
    let place = ptr::from_ref(worker).cast_mut();
    worker.next.store(workers.first.swap(place, Relaxed), Relaxed);
    place
}

/// `call_rcu_data_free`: stops the thread, and moves what is left to the default worker.
///
/// # Safety
///
/// `worker` is null, or one that has not been freed and that no thread uses.
pub unsafe fn free<F: Flavor>(worker: *mut Worker) {
    let workers = &F::domain().workers;
    // SAFETY: the caller's contract.
    let Some(worker) = (unsafe { worker.as_ref() }).filter(|worker| !ptr::eq(*worker, &workers.default))
    else {
        return;
    };
    if worker.is_running() {
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
    worker.drop_reference();
}

/// Returns the worker that `link` points to. Under the lock.
fn worker_at(link: &AtomicPtr<Worker>) -> Option<&Worker> {
    // SAFETY: workers in the list are valid while the lock is held.
    unsafe { link.load(Relaxed).as_ref() }
}

/// Moves the callbacks of a worker that has stopped to the default one.
fn take_over<F: Flavor>(worker: &Worker) {
    let default = &F::domain().workers.default;
    if default.queue.take_over(&worker.queue) {
        default.wake_if_idle();
    }
}

/// Returns the number of CPUs that may ever be there.
fn cpu_count() -> usize {
    // SAFETY: has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1)
}

/// `get_cpu_call_rcu_data`.
pub fn get_cpu_worker<F: Flavor>(cpu: c_int) -> *mut Worker {
    let cpus = F::domain().workers.cpus();
    // Acquire: the worker; pairs with the AcqRel in `set_cpu_worker`.
    usize::try_from(cpu).ok().and_then(|cpu| cpus.get(cpu)).map_or(ptr::null_mut(), |cpu| cpu.load(Acquire))
}

/// `set_cpu_call_rcu_data`: 0, or a negative error number, which `errno` has as well.
pub fn set_cpu_worker<F: Flavor>(cpu: c_int, worker: *mut Worker) -> c_int {
    let Some(index) = usize::try_from(cpu).ok().filter(|&cpu| cpu < cpu_count()) else {
        return fail(libc::EINVAL);
    };
    let Some(place) = F::domain().workers.cpus_or_new().and_then(|cpus| cpus.get(index)) else {
        return fail(libc::ENOMEM);
    };
    if worker.is_null() {
        place.store(worker, Release);
        return 0;
    }
    match place.compare_exchange(ptr::null_mut(), worker, AcqRel, Relaxed) {
        Ok(_) => 0,
        Err(_) => fail(libc::EEXIST),
    }
}

/// `create_all_cpu_call_rcu_data`.
pub fn create_cpu_workers<F: Flavor>(flags: c_ulong) -> c_int {
    for cpu in 0..cpu_count() as c_int {
        if !get_cpu_worker::<F>(cpu).is_null() {
            continue;
        }
        let worker = create::<F>(flags, cpu);
        if worker.is_null() {
            return fail(libc::ENOMEM);
        }
        let result = set_cpu_worker::<F>(cpu, worker);
        if result != 0 {
            // SAFETY: no other thread has seen it.
            unsafe { free::<F>(worker) };
            if result != -libc::EEXIST {
                return fail(-result);
            }
        }
    }
    0
}

/// `free_all_cpu_call_rcu_data`.
pub fn free_cpu_workers<F: Flavor>() {
    for place in F::domain().workers.cpus() {
        let worker = place.swap(ptr::null_mut(), AcqRel);
        if !worker.is_null() {
            // Callers inside sections may be using it.
            synchronize::<F>();
            // SAFETY: the program creates it and hands it over; no caller uses it any more.
            unsafe { free::<F>(worker) };
        }
    }
}

/// `rcu_barrier`: waits for all callbacks that have been queued.
pub fn barrier<F: Flavor>() {
    if is_misused::<F>("rcu_barrier") {
        return;
    }
    offline::<F>(|_| {
        let workers = &F::domain().workers;
        let _held = workers.barrier_lock.hold();
        workers.barrier_pending.store(1, Relaxed);
        let default_runs = workers.default.queue.is_empty() || start_default::<F>();
        {
            let _blocked = SignalsBlocked::during::<F>();
            let _held = workers.lock.hold();
            for worker in workers.running() {
                worker.references.fetch_add(1, Relaxed);
                workers.barrier_pending.fetch_add(1, Relaxed);
                let head = worker.barrier.get();
                // SAFETY: the reference keeps the callback valid. It is in no queue, as only one barrier is in progress.
                unsafe { worker.push(head, barrier_callback::<F>) };
                worker.command(URGENT);
            }
        }
        if !default_runs {
            let batch = workers.default.queue.take();
            synchronize::<F>();
            batch.run();
        }
        end_share::<F>();
        workers.barrier_done.wait_until(|| workers.barrier_pending.load(Acquire) == 0);
    });
}

/// Runs after all callbacks that were in the worker's queue before.
unsafe extern "C" fn barrier_callback<F: Flavor>(head: *mut RcuHead) {
    // SAFETY: the callback is part of a worker, to which the barrier has a reference.
    unsafe { (*head.byte_sub(offset_of!(Worker, barrier)).cast::<Worker>()).drop_reference() };
    end_share::<F>();
}

fn end_share<F: Flavor>() {
    let workers = &F::domain().workers;
    // AcqRel: the callbacks come before the end of the barrier.
    if workers.barrier_pending.fetch_sub(1, AcqRel) == 1 {
        workers.barrier_done.notify();
    }
}

/// Pauses all workers. The lock stays held.
pub(crate) fn pause<F: Flavor>() {
    let workers = &F::domain().workers;
    for worker in workers.running() {
        worker.command(PAUSE);
    }
    for worker in workers.running() {
        worker.wait_for_status::<F>(|status| status == PAUSED || status == STOPPED);
    }
}

/// Ends the pause.
pub(crate) fn resume<F: Flavor>() {
    let workers = &F::domain().workers;
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
pub(crate) fn restart_in_child<F: Flavor>() {
    let workers = &F::domain().workers;
    let was_used = workers.default.started_in.load(Relaxed) != 0 || !workers.first.load(Relaxed).is_null();
    if let Some(own) = F::own_if_any() {
        own.private[OWN_WORKER].store(ptr::null_mut(), Relaxed);
    }
    for place in workers.cpus() {
        place.store(ptr::null_mut(), Relaxed);
    }
    let mut next = workers.first.swap(ptr::null_mut(), Relaxed);
    // SAFETY: the only thread; workers in the list are valid.
    while let Some(worker) = unsafe { next.as_ref() } {
        next = worker.next.load(Relaxed);
        take_over::<F>(worker);
        worker.references.store(1, Relaxed);
        worker.drop_reference();
    }
    if was_used {
        start_default::<F>();
    }
}

/// Makes the default worker one that does not run, in the child of a fork.
pub(crate) fn reset_in_child<F: Flavor>() {
    let workers = &F::domain().workers;
    workers.lock.reset_in_child();
    workers.barrier_lock.reset_in_child();
    workers.default.commands.store(0, Relaxed);
    workers.default.status.store(0, Relaxed);
    workers.default.is_idle.store(false, Relaxed);
    workers.default.references.store(1, Relaxed);
}

/// Sets `errno`. Returns the negative number.
fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    -errno
}

fn set_errno(errno: c_int) {
    // SAFETY: the calling thread's variable.
    unsafe { *libc::__errno_location() = errno };
}

fn pin_to(cpu: c_int) {
    let Ok(cpu) = usize::try_from(cpu) else { return };
    // SAFETY: a set is plain data and outlives the calls; the CPU is within the set. After an error the worker runs
    // anywhere.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        if cpu < 8 * size_of_val(&set) {
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
        }
    }
}

/// Returns the time of the monotonic clock in nanoseconds.
fn now() -> u64 {
    // SAFETY: `now` outlives the call.
    unsafe {
        let mut now: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}
