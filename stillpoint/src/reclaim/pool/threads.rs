//! Worker threads, shared by all domains, and the timer that gives parked domains a worker again.
//!
//! As many tasks of domains as there are CPUs get a thread each, which has nothing else to do: the idle worker or a
//! new one. So they may block for as long as they like. All others are parked. A worker that has finished its task
//! becomes the idle one, or ends if there is one already: an idle process keeps one thread, which sleeps until there
//! is a task for it.
//!
//! # The timer
//!
//! A worker that finds nothing but what hazard pointers keep *parks* its domain, and so does a thread that must not
//! start a worker, or cannot, or must not sleep: it leaves a task here that resumes at a certain time, and the
//! [state](crate::reclaim::worker::state) `PARKED` or `RETRYING`. A task of the pool, the *timer*, sleeps until the
//! first of these times. It hands the tasks that are due to another one, the *runner*, which runs one after the
//! other, and sleeps for no reader: it tries grace periods. Both stay while there are tasks, so that no threads start
//! and end all the time. Workers that have done their own task help it. Code of the program may block the runner for
//! as long as it likes: then the timer starts a further one.
//!
//! So there are at most *three threads more than CPUs*: the timer, the idle worker, and a runner; plus one for each
//! runner that runs code of the program for longer than [`PATIENCE`], and one for each that [resigns](resign) and
//! sleeps for readers, because they overlap: attempts would never end that domain's grace period. While there are
//! threads beyond the three, fewer domains have one.
//!
//! Tasks run in the order of their times. A domain that is parked for want of a worker is due [`HEAD_START`] ago, so
//! that it comes before grace periods that are tried again, even if those are late. These are tried the less often
//! the more domains are parked ([`RETRY_SHARE`]).
//!
//! 1. One lock orders all decisions. While a domain is parked, the pool has a timer, or wants one: that takes the
//!    lock again before it stops, and it ends only if no domain is parked.
//! 2. A parked domain has one task at most, with the time for which it was parked. Whichever thread takes the task
//!    out of the map runs it or drops it, outside the lock.
//! 3. The lock is not held by a thread that holds the pool's: only the other way round.
//!
//! # When no thread can be started
//!
//! A worker sleeps until readers have left only while there is a *spare*: the idle worker, or the timer, which never
//! sleeps for readers. Otherwise it parks its domain. The timer then has the grace period tried again and again, for
//! this domain and all others that have no worker. So stalled readers of one domain, or of as many as there are
//! threads, do not stop the others.
//!
//! If no worker is idle, the timer itself resumes the domains, in turn: until it has, the timer is *wanted*
//! ([`super::state`]), and so is every worker that could be it.
//!
//! After a failed start, no thread is started for [`RETRY_INTERVAL`]: an attempt takes as long as hundreds of pushes.
//! Later calls of the library try again: a push that finds no worker, a poll, and a thread in
//! `GracePeriod::wait_timeout`, from time to time ([`retry`]). Nothing else does. So when code of the program blocks
//! all workers that do not sleep for readers, what is parked waits for that code, or for such a call.
//!
//! # Fork
//!
//! Workers own nothing of the pool while they run a task. So [`reset_in_child`] only has to store a new one.

use core::cell::Cell;
use core::ffi::c_void;
use core::ops::ControlFlow;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::{mem, ptr};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::state::{PoolState, Submitted, Task};
use crate::sync::ordered::{Key, OrderedMap};
use crate::sync::{ForkSafe, now, process_cpus, try_box};
use crate::sys::pin::is_pinned;
use crate::sys::scheduling::take_nice_of_main;
use crate::sys::thread::{self, with_all_blocked};

/// Nanoseconds after a failed start of a thread before the next attempt.
const RETRY_INTERVAL: u64 = 4_000_000;
/// Nanoseconds for which code of the program may block the tasks that are due.
const PATIENCE: u64 = 10_000_000;
/// Nanoseconds for which the timer stays when there are no tasks.
const LINGER: u64 = 1_000_000_000;
/// Nanoseconds by which a task that has no thread is due earlier than others.
const HEAD_START: u64 = 50_000_000;
/// Nanoseconds between two attempts at a grace period for each task that is parked: several times what one takes.
const RETRY_SHARE: u64 = 20_000;

static POOL: ForkSafe<PoolState> = ForkSafe::new(PoolState::new());
static TIMER: ForkSafe<Timer> = ForkSafe::new(Timer::new());
/// See [`start_no_threads`].
static STARTS_NONE: AtomicBool = AtomicBool::new(false);

/// What the calling thread is.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// A thread of the program.
    None,
    Worker,
    Runner,
    /// A runner that runs code of the program.
    InCode,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::None) };
}

/// From now on, no thread is started, here and in children of forks.
pub fn start_no_threads() {
    // Relaxed: it orders nothing.
    STARTS_NONE.store(true, Relaxed);
}

/// Returns `true` after [`start_no_threads`].
pub fn starts_none() -> bool {
    // Relaxed: as above.
    STARTS_NONE.load(Relaxed)
}

/// Runs the task of a domain in a worker, if one may have it.
///
/// Takes a lock for a moment, and may start a thread. The task should not panic: a worker survives that, but can only
/// report it.
pub fn submit(task: impl FnOnce() + Send + 'static) -> Submitted {
    let Some(busy) = Busy::reserve() else {
        return if may_want_timer() { Submitted::Failed } else { Submitted::Full };
    };
    let is_started = try_box(busy.with(task)).is_ok_and(|task| try_submit(task).is_ok());
    if is_started { Submitted::Started } else { Submitted::Failed }
}

/// Has a thread run the task soon. Returns it if there is none.
pub fn submit_or_park(task: Task) -> Result<(), Task> {
    match Busy::reserve() {
        Some(busy) => try_submit(Box::new(busy.with(task))),
        None if may_want_timer() => Err(task),
        None => try_park((first_look() & !1, ptr::from_ref(&*task).addr() as u64), task),
    }
}

/// Runs the task in a worker. Returns it if no worker is idle and none can be started, or there is no memory.
fn try_submit(task: Task) -> Result<(), Task> {
    POOL.get().assign(task).or_else(start_worker)
}

/// One of the tasks of domains that have a thread: until it is dropped.
struct Busy;

impl Busy {
    fn reserve() -> Option<Self> {
        // Not `then_some`, which would drop one.
        POOL.get().reserve(process_cpus()).then(|| Self)
    }

    /// The worker that runs this helps the runner when it has done `task`.
    fn with(self, task: impl FnOnce()) -> impl FnOnce() {
        move || {
            let _busy = self;
            task();
            if ROLE.get() == Role::Worker {
                TIMER.get().run_all();
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        POOL.get().release();
    }
}

/// Returns when a domain without a worker is due.
pub fn first_look() -> u64 {
    now().saturating_sub(HEAD_START)
}

/// Returns until when the calling thread may try a grace period: as long as no task is due, for a millisecond at
/// most.
pub fn free_until() -> u64 {
    let most = now() + PATIENCE / 10;
    TIMER.get().lock().tasks.first_from((0, 0)).map_or(most, |(due, _)| due.min(most))
}

/// Returns after how many nanoseconds a grace period is to be tried again that has been waited for: a quarter of that
/// time, within bounds, or, where many are tried, more.
pub fn retry_delay(waited: u64, [least, most]: [u64; 2]) -> u64 {
    (waited / 4).clamp(least, most).max(RETRY_SHARE * TIMER.get().lock().tasks.len() as u64)
}

/// Tries to start a thread for the timer, if none could be started for it. Returns `true` if it is still wanted.
pub fn retry() -> bool {
    let pool = POOL.get();
    may_want_timer() && if pool.must_wait() { pool.is_timer_wanted() } else { pool.retry_timer(try_submit) }
}

/// Returns `true` if a thread could not be started, and the timer may be wanted. Takes one load.
pub fn may_want_timer() -> bool {
    // Relaxed: as in `start_worker`.
    POOL.get().retry_at.load(Relaxed) != 0
}

/// Returns `true` if the calling thread is one of the pool.
pub fn is_worker() -> bool {
    ROLE.get() != Role::None
}

/// Returns `true` if other tasks wait for the calling thread.
pub fn is_runner() -> bool {
    ROLE.get() == Role::Runner
}

/// Returns `true` if the calling thread may sleep for readers: it is none of the pool, or there is a spare, and no
/// other task waits for this thread.
pub fn may_sleep() -> bool {
    !is_worker() || !is_runner() && POOL.get().has_spare()
}

/// Returns `true` if the calling thread must give up what it does: it is a worker, and is to be the timer.
pub fn is_wanted() -> bool {
    is_worker() && POOL.get().is_timer_wanted()
}

/// The calling thread runs code of the program, until the result is dropped. If it does so for long, others run the
/// tasks that are due.
pub fn in_code() -> Option<InCode> {
    is_runner().then(|| {
        ROLE.set(Role::InCode);
        TIMER.get().lock().in_code += 1;
        InCode
    })
}

/// See [`in_code`].
pub struct InCode;

impl Drop for InCode {
    fn drop(&mut self) {
        ROLE.set(Role::Runner);
        let mut parked = TIMER.get().lock();
        parked.in_code = parked.in_code.saturating_sub(1);
    }
}

/// The calling thread is a runner no more, and may sleep for readers. Returns `false` if it is none, or if there is
/// no spare.
pub fn resign() -> bool {
    let may_resign = is_runner() && !is_wanted() && POOL.get().has_spare();
    if may_resign {
        TIMER.get().end_runner();
    }
    may_resign
}

/// Starts a spare. Returns `false` if this worker must not sleep for readers.
pub fn start_spare() -> bool {
    POOL.get().start_spare(|| start_worker(Box::new(|| ())).is_ok())
}

/// Returns `true` if there is no worker, and it is not time to try to start one.
pub fn is_stranded() -> bool {
    let pool = POOL.get();
    (starts_none() || pool.must_wait()) && pool.is_empty()
}

/// Forgets the workers: the child of a fork has none. Tasks that the parent's workers run, or were about to, and
/// those of parked domains will not run in the child unless they are submitted again.
///
/// # Safety
///
/// The calling thread is the only one in the process, and was not in the middle of another function of this module
/// when it forked.
pub unsafe fn reset_in_child() {
    // SAFETY: the caller's contract; references to both live only inside functions of this module that run no task.
    unsafe {
        POOL.overwrite(PoolState::new());
        TIMER.overwrite(Timer::new());
    }
}

/// Returns the task if no worker can be started.
fn start_worker(first: Task) -> Result<(), Task> {
    // The worker sleeps in this code for as long as the process lives.
    if starts_none() || POOL.get().must_wait() || !is_pinned() {
        return Err(first);
    }
    // A thread's argument is one word.
    let first = Box::into_raw(try_box(first)?);
    let pool = POOL.get();
    pool.starts();
    // The program's signals are not for this thread: it runs destructors, callbacks and wakers.
    if with_all_blocked(|| thread::spawn(c"stillpoint-rcu", work, first.cast())) {
        return Ok(());
    }
    // Relaxed: a hint.
    pool.retry_at.store(now() + RETRY_INTERVAL, Relaxed);
    pool.start_failed();
    // SAFETY: comes from a box, and no thread has it.
    Err(*unsafe { Box::from_raw(first) })
}

/// The main function of a worker.
extern "C" fn work(first: *mut c_void) -> *mut c_void {
    POOL.get().begin();
    ROLE.set(Role::Worker);
    take_nice_of_main();
    // SAFETY: `start_worker` made the pointer of a box, for this thread.
    let first = unsafe { Box::from_raw(first.cast::<Task>()) };
    run(*first);
    while let Some(task) = POOL.get().next() {
        run(task);
    }
    ptr::null_mut()
}

/// Runs the task. A panic is reported.
pub fn run(task: Task) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(task)) {
        // Its destructor could panic too.
        mem::forget(payload);
        // Not `eprintln!`, which panics if it cannot write.
        let _ =
            writeln!(std::io::stderr(), "stillpoint: a task of the library panicked; its worker continues");
    }
}

/// When a domain is due, in nanoseconds of [`now`], and its address. The time is odd for its poller, and else even.
pub type TimerKey = Key;

struct Timer {
    parked: Mutex<Parked>,
    /// The timer sleeps here.
    changed: Condvar,
    /// A runner sleeps here.
    resumed: Condvar,
}

struct Parked {
    tasks: OrderedMap<Task>,
    /// Runners that have not ended.
    runners: u64,
    /// Those of them that run code of the program.
    in_code: u64,
    /// One of them has nothing to do, until the timer clears this.
    waits: bool,
    /// When a runner last took a task, or was last started.
    last_progress: u64,
}

impl Timer {
    const fn new() -> Self {
        let parked =
            Parked { tasks: OrderedMap::new(), runners: 0, in_code: 0, waits: false, last_progress: 0 };
        Self { parked: Mutex::new(parked), changed: Condvar::new(), resumed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Parked> {
        // Nothing under the lock panics.
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the timer does next, after it has slept if need be.
    fn step(&self) -> ControlFlow<()> {
        let mut parked = self.lock();
        let now = now();
        let first = parked.tasks.first_from((0, 0));
        let until = match (first, parked.runners - parked.in_code) {
            (None, _) => parked.last_progress + LINGER,
            (Some((due, _)), 0) if parked.runners != 0 => due.max(parked.last_progress + PATIENCE),
            (Some((due, _)), 0) => due,
            (Some((due, _)), _) if parked.waits => due,
            _ => now + PATIENCE,
        };
        if now < until {
            let time = Duration::from_nanos(until - now);
            drop(self.changed.wait_timeout(parked, time));
            return ControlFlow::Continue(());
        }
        if mem::take(&mut parked.waits) {
            self.resumed.notify_one();
            return ControlFlow::Continue(());
        }
        if first.is_none() {
            POOL.get().end_timer();
            return ControlFlow::Break(());
        }
        parked.runners += 1;
        parked.last_progress = now;
        drop(parked);
        if try_submit(Box::new(run_due)).is_ok() {
            return ControlFlow::Continue(());
        }
        POOL.get().want_timer(Box::new(run_timer));
        // A runner that has gone to sleep meanwhile may be the timer.
        self.lock().waits = false;
        self.resumed.notify_one();
        self.be_runner(|| while is_runner() && self.run_one(now) {});
        // If another runner is blocked, there is no thread for a further one to wait for.
        self.lock().last_progress = 0;
        ControlFlow::Break(())
    }

    /// The calling worker is a runner, which the timer has counted, while it runs `f`.
    fn be_runner(&self, f: impl FnOnce()) {
        ROLE.set(Role::Runner);
        f();
        if is_runner() {
            self.end_runner();
        }
    }

    fn end_runner(&self) {
        ROLE.set(Role::Worker);
        self.lock().runners -= 1;
        self.changed.notify_one();
    }

    /// A runner sleeps until there are tasks that are due. Returns `false` if it is to end.
    fn wait(&self) -> bool {
        let mut parked = self.lock();
        let stays = !parked.waits && !parked.tasks.is_empty() && !is_wanted();
        if stays {
            parked.waits = true;
            self.changed.notify_one();
            drop(self.resumed.wait_while(parked, |parked| parked.waits));
        }
        stays
    }

    /// Runs the tasks that are due, unless the calling thread is wanted, or has resigned.
    fn run_all(&self) {
        let role = ROLE.get();
        while ROLE.get() == role && !is_wanted() && self.run_one(now()) {}
    }

    /// Runs a task that is due at the time `now`. Returns `false` if there is none.
    fn run_one(&self, now: u64) -> bool {
        let mut parked = self.lock();
        let first = parked.tasks.first_from((0, 0)).filter(|first| first.0 <= now);
        let Some(task) = first.and_then(|first| parked.tasks.remove(first)) else { return false };
        parked.last_progress = now;
        drop(parked);
        run(task);
        true
    }
}

/// Has `task` called at the time of `key`, but for delays by other tasks. Returns `false` if there is no thread,
/// or no memory for the task.
#[must_use]
pub fn park(key: TimerKey, task: impl FnOnce() + Send + 'static) -> bool {
    try_box(task).is_ok_and(|task| try_park(key, task).is_ok())
}

/// [`park`], which returns the task.
fn try_park(key: TimerKey, task: Task) -> Result<(), Task> {
    let timer = TIMER.get();
    let mut parked = timer.lock();
    if !POOL.get().ensure_timer(run_timer, try_submit) {
        return Err(task);
    }
    let replaced = parked.tasks.insert(key, task);
    let is_first = parked.tasks.first_from((0, 0)) == Some(key);
    drop(parked);
    drop(replaced);
    if is_first {
        timer.changed.notify_one();
    }
    Ok(())
}

/// Drops the task, if it has not been taken to be run.
pub fn unpark(key: TimerKey) {
    let task = TIMER.get().lock().tasks.remove(key);
    drop(task);
}

/// Returns `true` if the task has not been taken to be run, nor been dropped.
pub fn is_parked(key: TimerKey) -> bool {
    TIMER.get().lock().tasks.contains(key)
}

/// The timer's task.
fn run_timer() {
    POOL.get().begin_timer();
    while TIMER.get().step().is_continue() {}
}

/// A runner's task.
fn run_due() {
    let timer = TIMER.get();
    timer.be_runner(|| {
        timer.run_all();
        while is_runner() && timer.wait() {
            timer.run_all();
        }
    });
}

// These look at `/proc`.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
    use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
    use std::{fs, thread};

    use super::*;
    use support::deadline::deadline;

    /// The pool belongs to the process: one test at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn starts(task: impl FnOnce() + Send + 'static) -> bool {
        try_submit(Box::new(task)).is_ok()
    }

    fn is_worker() -> bool {
        fs::read_to_string("/proc/thread-self/comm").is_ok_and(|name| name.trim() == "stillpoint-rcu")
    }

    fn until(mut condition: impl FnMut() -> bool) {
        while !condition() {
            thread::yield_now();
        }
    }

    fn workers() -> usize {
        let tasks = fs::read_dir("/proc/self/task").expect("the process has threads").flatten();
        // A thread may end at any time.
        let names = tasks.flat_map(|task| fs::read_to_string(task.path().join("comm")));
        names.filter(|name| name.trim() == "stillpoint-rcu").count()
    }

    fn is_idle() -> bool {
        POOL.get().has_idle()
    }

    #[test]
    fn task_runs_in_a_worker_with_all_signals_blocked() {
        static RIGHT: AtomicBool = AtomicBool::new(false);
        let (_running, _alone) = (deadline(), alone());
        assert!(starts(|| {
            let status = fs::read_to_string("/proc/thread-self/status").expect("a thread has a status");
            let blocked =
                status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a signal mask");
            let blocked = u64::from_str_radix(blocked.trim(), 16).expect("a number");
            let usr1 = 1 << (libc::SIGUSR1 - 1);
            RIGHT.store(is_worker() && blocked & usr1 != 0, Release);
        }));
        until(|| RIGHT.load(Acquire));
    }

    #[test]
    fn tasks_run_at_once_and_leave_one_idle_worker() {
        const TASKS: usize = 8;
        static ALL: Barrier = Barrier::new(TASKS + 1);
        let (_running, _alone) = (deadline(), alone());
        for _ in 0..20 {
            assert!((0..TASKS).all(|_| starts(|| _ = ALL.wait())));
            ALL.wait();
        }
        until(|| is_idle() && workers() == 1);
    }

    #[test]
    fn submits_that_race_with_finishing_workers_run_each_task_once() {
        const SUBMITS: usize = 500;
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let (_running, _alone) = (deadline(), alone());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..SUBMITS).for_each(|_| assert!(starts(|| _ = RUNS.fetch_add(1, Release)))));
            }
        });
        until(|| RUNS.load(Acquire) == 2 * SUBMITS);
        until(|| is_idle() && workers() == 1);
        assert_eq!(RUNS.load(Acquire), 2 * SUBMITS);
    }

    #[test]
    fn idle_worker_runs_the_next_task_after_a_panic() {
        // Of this test alone: the workers of other tests would take the tasks.
        static OWN: PoolState = PoolState::new();
        static THREADS: Mutex<Vec<thread::ThreadId>> = Mutex::new(Vec::new());
        fn task() -> Task {
            Box::new(|| {
                THREADS.lock().expect("no panic under this lock").push(thread::current().id());
                panic!("on purpose");
            })
        }
        let _running = deadline();
        let worker = thread::spawn(|| {
            run(task());
            while let Some(task) = OWN.next() {
                run(task);
            }
        });
        for _ in 1..10 {
            until(|| OWN.has_idle());
            assert!(OWN.assign(task()).is_ok());
        }
        until(|| OWN.has_idle());
        assert_eq!(*THREADS.lock().expect("no panic under this lock"), [worker.thread().id(); 10]);
    }
}
