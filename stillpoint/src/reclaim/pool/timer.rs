//! The tasks of domains: as many as there are CPUs have a thread, and a timer gives the others one in turn.
//!
//! As many tasks of domains as there are CPUs get a thread each, which has nothing else to do: the idle worker or a
//! new one. So they may block for as long as they like. All others are parked.
//!
//! # The timer
//!
//! A domain is *parked* if only hazard pointers keep what is in its queues, or if its thread must not sleep, or must
//! not start a worker, or cannot: a task here resumes it at a certain time, and until then it has the
//! [state](crate::reclaim::worker::state) `PARKED` or `RETRYING`. A task of the pool, the *timer*, sleeps until the
//! first of these times. It hands the tasks that are due to another one, the *runner*, which runs one after the
//! other, and sleeps for no reader: it tries grace periods. Both stay while there are tasks, so that no threads start
//! and end all the time. Workers that have done their own task help it. Code of the program may block the runner for
//! as long as it likes: when all runners have run such code for longer than [`PATIENCE`], the timer starts as many
//! more. So a thousand domains whose code blocks delay another one by ten times that, and not by a thousand times.
//!
//! So there are at most *three threads more than CPUs*: the timer, the idle worker, and a runner; plus one for each
//! runner that runs code of the program for longer than [`PATIENCE`], and as many again until they find no task that
//! is due, which ends all but one; and one for each that [resigns](resign): where readers overlap all the time,
//! attempts alone would not end a grace period, so it sleeps for them. While there are threads beyond the three, fewer
//! domains have one.
//!
//! Tasks run in the order of their times. A domain that is parked for want of a worker gets a time [`HEAD_START`] in
//! the past, so that it comes before grace periods that are tried again, even if those are late. These are tried the
//! less often the more domains are parked ([`RETRY_SHARE`]).
//!
//! 1. One lock orders all decisions. While a domain is parked, the pool has a timer, or wants one: that takes the
//!    lock again before it stops, and it ends only if no domain is parked.
//! 2. A parked domain has one task at most, with the time for which it was parked. Whichever thread takes the task
//!    out of the map runs it or drops it, outside the lock.
//! 3. A thread may take the pool's lock while it holds this one, but never the reverse.
//!
//! # Fork
//!
//! Workers own nothing of the pool while they run a task. So [`reset_in_child`] only has to store a new one.

use core::ops::ControlFlow;
use core::{mem, ptr};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::state::{PoolState, Submitted, Task};
use super::threads::{POOL, ROLE, Role, is_runner, is_wanted, may_want_timer, must_wait, run, try_submit};
use crate::reclaim::callback::is_any_running;
use crate::sync::ordered::{Key, OrderedMap};
use crate::sync::{ForkSafe, now, process_cpus, try_box};

/// Nanoseconds for which code of the program may block the tasks that are due.
const PATIENCE: u64 = 10_000_000;
/// Nanoseconds for which the timer stays when there are no tasks.
const LINGER: u64 = 1_000_000_000;
/// Nanoseconds by which a task that has no thread is due earlier than others.
const HEAD_START: u64 = 50_000_000;
/// Nanoseconds between two attempts at a grace period for each task that is parked: several times what one takes.
const RETRY_SHARE: u64 = 20_000;

static TIMER: ForkSafe<Timer> = ForkSafe::new(Timer::new());

/// Runs the task of a domain in a worker, if one may have it.
///
/// Takes a lock for a moment, and may start a thread. The task should not panic: a worker survives that, but can only
/// report it.
pub fn submit(task: impl FnOnce() + Send + 'static) -> Submitted {
    try_box(task).map_or(Submitted::Failed, |task| submit_boxed(task))
}

fn submit_boxed(task: Task) -> Submitted {
    let Some(busy) = Busy::reserve() else {
        return if has_failed() { Submitted::Failed } else { Submitted::Full };
    };
    let is_started = try_box(busy.with(task)).is_ok_and(|task| try_submit(task).is_ok());
    if is_started { Submitted::Started } else { Submitted::Failed }
}

/// Has a thread run the task soon. Returns it if there is none.
pub fn submit_or_park(task: Task) -> Result<(), Task> {
    match Busy::reserve() {
        Some(busy) => try_submit(Box::new(busy.with(task))),
        None if has_failed() => Err(task),
        None => try_park((first_look() & !1, ptr::from_ref(&*task).addr() as u64), task),
    }
}

/// Returns `true` if a thread could not be started, also after another attempt some time later.
fn has_failed() -> bool {
    must_wait() || retry()
}

/// One of the tasks of domains that have a thread: until it is dropped.
struct Busy;

impl Busy {
    fn reserve() -> Option<Self> {
        // Not `then_some`, which would drop one.
        POOL.get().reserve(process_cpus()).then(|| Self)
    }

    /// The worker that runs this helps the runner when it has done `task`. Not one that could not submit it, and calls
    /// it in the middle of another domain's callback: those of the tasks that are due may wait for that one.
    fn with(self, task: impl FnOnce()) -> impl FnOnce() {
        move || {
            let _busy = self;
            task();
            if ROLE.get() == Role::Worker && !is_any_running() {
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

/// Tries to start a thread for the timer, if none could be started for it. Returns `true` if it is still wanted.
pub fn retry() -> bool {
    let pool = POOL.get();
    if !may_want_timer() {
        return false;
    }
    if must_wait() {
        return pool.is_timer_wanted();
    }
    let is_wanted = pool.retry_timer(try_submit);
    if is_wanted {
        // A runner that has gone to sleep meanwhile may be the timer.
        let timer = TIMER.get();
        timer.resume(&mut timer.lock());
    }
    is_wanted
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
    /// One of them has nothing to do, and waits until it is resumed.
    waits: bool,
    /// How often one has been resumed. It may see this only after another one has begun to wait.
    resumes: u64,
    /// When a runner last took a task, or was last started.
    last_progress: u64,
}

impl Timer {
    const fn new() -> Self {
        let parked = Parked {
            tasks: OrderedMap::new(),
            runners: 0,
            in_code: 0,
            waits: false,
            resumes: 0,
            last_progress: 0,
        };
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
        if self.resume(&mut parked) {
            return ControlFlow::Continue(());
        }
        if first.is_none() {
            POOL.get().end_timer();
            return ControlFlow::Break(());
        }
        // None runs, or each runs code of the program, and has done so for `PATIENCE`.
        let more = parked.in_code.clamp(1, parked.tasks.len() as u64);
        parked.runners += more;
        parked.last_progress = now;
        drop(parked);
        let started = (0..more).take_while(|_| try_submit(Box::new(run_due)).is_ok()).count() as u64;
        if started == more {
            return ControlFlow::Continue(());
        }
        // This thread takes the place of one of them.
        self.lock().runners -= more - started - 1;
        POOL.get().want_timer(Box::new(run_timer));
        // A runner that has gone to sleep meanwhile may be the timer.
        self.resume(&mut self.lock());
        self.be_runner(|| while is_runner() && self.run_one(now) {});
        // The next timer acts at once: it must not wait for a runner that is blocked.
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
            let resumes = parked.resumes;
            drop(self.resumed.wait_while(parked, |parked| parked.resumes == resumes));
        }
        stays
    }

    /// Resumes the runner that waits. Returns `false` if none does.
    fn resume(&self, parked: &mut Parked) -> bool {
        let waits = mem::take(&mut parked.waits);
        parked.resumes += u64::from(waits);
        // All: one that was resumed earlier may still be about to see it.
        self.resumed.notify_all();
        waits
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Instant;

    use super::*;
    use crate::reclaim::callback::listed;

    /// Refutes: resumed-runner-sees-next
    #[test]
    fn runner_is_resumed_although_another_one_begins_to_wait() {
        let timer: &Timer = Box::leak(Box::new(Timer::new()));
        timer.lock().tasks.insert((u64::MAX, 0), Box::new(|| ()));
        let runner = thread::spawn(|| timer.wait());
        while !timer.lock().waits {
            thread::yield_now();
        }
        let mut parked = timer.lock();
        assert!(timer.resume(&mut parked));
        parked.waits = true;
        drop(parked);
        let begin = Instant::now();
        while !runner.is_finished() {
            assert!(begin.elapsed() < Duration::from_secs(30), "it sleeps on");
            thread::yield_now();
        }
    }

    /// Another one may be a callback that waits for this one.
    ///
    /// Refutes: callback-runs-other-tasks
    #[test]
    fn task_that_a_callback_calls_runs_no_others() {
        const TASKS: u64 = 1000;
        let (sender, receiver) = channel();
        ROLE.set(Role::Worker);
        for task in 0..TASKS {
            let sender = sender.clone();
            assert!(POOL.get().reserve(u32::MAX));
            assert!(park((task, 1), move || _ = sender.send(thread::current().id())));
            listed(ptr::null(), || Busy.with(|| ())());
        }
        ROLE.set(Role::None);
        let this = thread::current().id();
        (0..TASKS).for_each(|_| assert_ne!(receiver.recv().expect("it runs"), this));
    }
}
