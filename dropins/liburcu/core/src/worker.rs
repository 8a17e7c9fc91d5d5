//! A worker thread and its queue: `struct call_rcu_data`.

use core::ffi::{c_int, c_ulong, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};

use stillpoint::urcu::now;

use crate::flavor::{Flavor, SignalsBlocked, offline};
use crate::generation::generation;
use crate::lock::Event;
use crate::queue::{Function, Queue, RcuHead};

/// How long a worker waits for a grace period of another caller, in nanoseconds.
const LINGER_NS: u64 = 1_000_000;
/// How often a worker that callers do not wake checks its queue, in nanoseconds.
const POLL_NS: u64 = 10_000_000;

/// How many rounds a worker that has a CPU makes before it moves there again: the system may have moved it away, and
/// CPUs come and go.
const ROUNDS_PER_PIN: u32 = 256;

/// More callbacks than this in a queue are a flood: callers yield, and the worker does not linger.
const FLOOD: usize = 1 << 14;

/// `URCU_CALL_RCU_RT`: callers do not wake the worker.
const RT: c_ulong = 1;

// Commands for the worker.
pub(crate) const STOP: u32 = 1;
pub(crate) const PAUSE: u32 = 2;
/// Do not linger.
pub(crate) const URGENT: u32 = 4;

// The status of the worker.
pub(crate) const PAUSED: u32 = 1;
pub(crate) const STOPPED: u32 = 2;

/// `struct call_rcu_data`.
#[derive(Debug)]
pub struct Worker {
    pub(crate) queue: Queue,
    /// The length of the queue, roughly: callers that count at the same moment count once. 0 once the worker has
    /// taken the queue.
    len: AtomicUsize,
    pub(crate) commands: AtomicU32,
    pub(crate) status: AtomicU32,
    /// The worker sleeps, or is about to: callers wake it.
    pub(crate) is_idle: AtomicBool,
    pub(crate) event: Event,
    /// The library's own worker of the flavor, which leads polled grace periods.
    is_default: bool,
    flags: c_ulong,
    /// The CPU to run on, or -1.
    cpu: c_int,
    /// The library created the worker, for a CPU, and joins its thread.
    pub(crate) is_joined: AtomicBool,
    pub(crate) thread: AtomicU64,
    /// The [`generation`] in which the thread was started; 0 if it was not.
    pub(crate) started_in: AtomicU32,
    /// How often [`request`](Self::request) has been called, and the last call whose callbacks have been called.
    requested: AtomicU32,
    completed: AtomicU32,
    /// The next in `Workers::first`.
    pub(crate) next: AtomicPtr<Worker>,
    /// The next of those that `free_all_cpu_call_rcu_data` frees, or this one; null if it does not.
    pub(crate) next_freed: AtomicPtr<Worker>,
}

/// The first word of `InlinedReader::private`: the worker of a thread.
pub(crate) const OWN_WORKER: usize = 0;

impl Worker {
    pub(crate) const fn new_default() -> Self {
        Self { is_default: true, ..Self::new(0, -1) }
    }

    pub(crate) const fn new(flags: c_ulong, cpu: c_int) -> Self {
        Self {
            queue: Queue::new(),
            len: AtomicUsize::new(0),
            commands: AtomicU32::new(0),
            status: AtomicU32::new(0),
            is_idle: AtomicBool::new(false),
            event: Event::new(),
            is_default: false,
            flags,
            cpu,
            is_joined: AtomicBool::new(false),
            thread: AtomicU64::new(0),
            started_in: AtomicU32::new(0),
            requested: AtomicU32::new(0),
            completed: AtomicU32::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            next_freed: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns `true` if the worker's thread runs in this process.
    pub(crate) fn is_running(&self) -> bool {
        // Acquire: the thread's id; pairs with the Release in `start`.
        self.started_in.load(Acquire) == generation()
    }

    fn is_rt(&self) -> bool {
        self.flags & RT != 0
    }

    /// Appends a callback, and wakes the worker if it sleeps. Returns `true` if the caller should yield.
    ///
    /// # Safety
    ///
    /// See [`Queue::push`].
    pub(crate) unsafe fn push(&self, head: *mut RcuHead, function: Function) -> bool {
        // SAFETY: the caller's contract.
        if unsafe { self.queue.push(head, function) } && !self.is_rt() {
            self.wake_if_idle();
        }
        // Relaxed, here and below: a hint. No read-modify-write, which would cost as much as the push.
        let len = self.len.load(Relaxed) + 1;
        self.len.store(len, Relaxed);
        len > FLOOD && !self.is_own_thread()
    }

    /// Returns `true` in a callback of this worker.
    #[cold]
    fn is_own_thread(&self) -> bool {
        // SAFETY: has no preconditions.
        self.thread.load(Relaxed) == unsafe { libc::pthread_self() }
    }

    /// Wakes the worker if it sleeps, after the queue has become non-empty.
    pub(crate) fn wake_if_idle(&self) {
        // Either the worker sees the callback, or this thread sees that it is idle; pairs with the fence in `idle`.
        fence(SeqCst);
        if self.is_idle.load(Relaxed) {
            self.event.notify();
        }
    }

    pub(crate) fn command(&self, command: u32) {
        self.commands.fetch_or(command, Release);
        self.event.notify();
    }

    /// Asks the worker to call what is in the queue now, without lingering. Under the lock of the workers.
    pub(crate) fn request(&self) {
        // Release: what has been queued; pairs with the Acquire in `run`.
        self.requested.fetch_add(1, Release);
        self.command(URGENT);
    }

    /// Returns `true` if the worker has done what was requested. Under the lock of the workers.
    pub(crate) fn is_settled(&self) -> bool {
        // Acquire: the callbacks; pairs with the Release in `complete`.
        self.completed.load(Acquire) == self.requested.load(Relaxed)
    }

    /// Returns the number of the last request. What was queued before it is in the queue now, or has been taken.
    pub(crate) fn last_request(&self) -> u32 {
        // Acquire: pairs with the Release in `request`.
        self.requested.load(Acquire)
    }

    /// The callbacks that were in the queue at this request have been called.
    pub(crate) fn complete<F: Flavor>(&self, requested: u32) {
        if self.completed.load(Relaxed) != requested {
            // Release: pairs with the Acquire in `is_settled`.
            self.completed.store(requested, Release);
            F::progress().event.notify();
        }
    }

    /// Returns `true` if callers poll for a grace period that this worker must lead.
    fn is_polled<F: Flavor>(&self) -> bool {
        self.is_default && F::progress().is_polled(F::engine())
    }

    /// Drops the commands of threads that the child of a fork has lost.
    pub(crate) fn reset_in_child(&self) {
        self.commands.store(0, Relaxed);
        self.status.store(0, Relaxed);
        self.is_idle.store(false, Relaxed);
    }

    /// Sleeps until there is a callback or a command.
    fn idle<F: Flavor>(&self) {
        let seen = self.event.count();
        self.is_idle.store(true, Relaxed);
        // Pairs with the fence in `wake_if_idle`.
        fence(SeqCst);
        if self.queue.is_empty() && self.commands.load(Relaxed) == 0 && !self.is_polled::<F>() {
            self.event.wait(seen, self.is_rt().then(|| now() + POLL_NS));
        }
        self.is_idle.store(false, Relaxed);
    }

    /// Waits for a grace period of another caller, unless there is a command.
    fn linger(&self) {
        let until = now() + LINGER_NS;
        loop {
            let seen = self.event.count();
            if self.commands.load(Relaxed) != 0 || now() >= until {
                return;
            }
            self.event.wait(seen, Some(until));
        }
    }

    /// The life of the worker's thread.
    fn run<F: Flavor>(&self) {
        let engine = F::engine();
        let mut rounds = 0_u32;
        F::register_thread();
        // Callbacks queue callbacks for the same worker, unless they choose another one.
        set_thread_worker::<F>(ptr::from_ref(self).cast_mut());
        loop {
            if rounds % ROUNDS_PER_PIN == 0 {
                self.pin();
            }
            rounds = rounds.wrapping_add(1);
            // Acquire: pairs with the Release in `command`.
            let commands = self.commands.fetch_and(!URGENT, Acquire);
            let is_last = commands & STOP != 0;
            if commands & PAUSE != 0 {
                if is_last {
                    break;
                }
                let chosen = get_thread_worker::<F>();
                F::unregister_thread();
                self.set_status::<F>(PAUSED);
                self.event.wait_until(|| self.commands.load(Acquire) & PAUSE == 0);
                self.status.store(0, Relaxed);
                F::progress().event.notify();
                F::register_thread();
                set_thread_worker::<F>(chosen);
                continue;
            }
            let requested = self.last_request();
            let batch = self.queue.take();
            let is_flood = self.len.load(Relaxed) > FLOOD;
            self.len.store(0, Relaxed);
            if is_last && batch.is_empty() {
                break;
            }
            if batch.is_empty() && !self.is_polled::<F>() {
                self.complete::<F>(requested);
                offline::<F>(|_| self.idle::<F>());
                continue;
            }
            let cookie = engine.snapshot();
            let mut served = false;
            offline::<F>(|own| {
                if commands & URGENT == 0 && !is_flood {
                    self.linger();
                }
                served = engine.is_done(cookie);
                // The thread that waits for the pause may be one that a grace period waits for.
                if !served && self.commands.load(Relaxed) & PAUSE == 0 {
                    engine.wait_for(own, cookie);
                    served = true;
                }
            });
            if served {
                batch.run();
                self.complete::<F>(requested);
            } else {
                self.queue.put_back(batch);
            }
            if is_last {
                break;
            }
        }
        F::unregister_thread();
        self.set_status::<F>(STOPPED);
    }

    /// Moves the thread to its CPU, if it has one. After an error it runs anywhere: the CPU may be offline.
    fn pin(&self) {
        let Ok(cpu) = usize::try_from(self.cpu) else { return };
        // SAFETY: a set is plain data and outlives the calls; the CPU is within the set.
        unsafe {
            let mut set: libc::cpu_set_t = mem::zeroed();
            if cpu < 8 * size_of_val(&set) {
                libc::CPU_SET(cpu, &mut set);
                libc::sched_setaffinity(0, size_of_val(&set), &set);
            }
        }
    }

    /// Sets the status, as the last access if that is `STOPPED`: the worker may be freed then.
    fn set_status<F: Flavor>(&self, status: u32) {
        // Release: what the worker did; pairs with the Acquire in `wait_for_status`.
        self.status.store(status, Release);
        F::progress().event.notify();
    }

    pub(crate) fn wait_for_status<F: Flavor>(&self, condition: impl Fn(u32) -> bool) {
        F::progress().event.wait_until(|| condition(self.status.load(Acquire)));
    }

    /// Starts the thread, which is joinable. Returns an error number if that is impossible.
    pub(crate) fn start<F: Flavor>(&self) -> Result<(), c_int> {
        extern "C" fn main<F: Flavor>(worker: *mut c_void) -> *mut c_void {
            // SAFETY: a worker lives until its thread has stopped.
            unsafe { &*worker.cast::<Worker>() }.run::<F>();
            ptr::null_mut()
        }
        self.thread.store(start_thread(main::<F>, ptr::from_ref(self).cast_mut().cast())?, Relaxed);
        // Release: pairs with the Acquire in `is_running`.
        self.started_in.store(generation(), Release);
        Ok(())
    }
}

/// Starts a joinable thread, which blocks all signals. Returns an error number if that is impossible.
pub(crate) fn start_thread(
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> Result<libc::pthread_t, c_int> {
    // The thread inherits the mask.
    let _blocked = SignalsBlocked::always();
    // SAFETY: an identifier is a plain number, and its place outlives the call.
    unsafe {
        let mut thread: libc::pthread_t = mem::zeroed();
        match libc::pthread_create(&mut thread, ptr::null(), main, argument) {
            0 => Ok(thread),
            error => Err(error),
        }
    }
}

/// `get_thread_call_rcu_data`.
pub fn get_thread_worker<F: Flavor>() -> *mut Worker {
    F::own_if_any().map_or(ptr::null_mut(), |own| own.private[OWN_WORKER].load(Relaxed).cast())
}

/// `set_thread_call_rcu_data`.
pub fn set_thread_worker<F: Flavor>(worker: *mut Worker) {
    F::own().private[OWN_WORKER].store(worker.cast(), Relaxed);
}
