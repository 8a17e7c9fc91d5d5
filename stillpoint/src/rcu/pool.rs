//! Worker threads, shared by all domains.
//!
//! A job never waits behind another: one that is submitted gets a thread that has nothing else to do, the idle worker or a
//! new one. So a job may block for as long as it likes. A worker that has done its job becomes the idle one, or ends if
//! there is one already: an idle process keeps one thread, which nobody wakes.
//!
//! # States
//!
//! | state | meaning |
//! |---|---|
//! | `Nobody` | no worker is idle |
//! | `Sleeps` | one is |
//! | `Given` | one is, with a job waiting for it; the first worker that comes along takes it |
//!
//! `Sleeps` and `Given` stand for exactly one thread inside `Pool::sleep`.
//!
//! # Fork
//!
//! Workers are not counted and own nothing of the pool while they run a job. So [`reset_in_child`] only has to say that
//! nobody is idle; if it was a worker that forked, it goes on in the child, as the first worker there.

use core::ffi::c_void;
use core::{mem, ptr};
use std::io::Write;
use std::panic::catch_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::reclaim::callback::Data;
use crate::sync::ForkSafe;
use crate::sys::pin::is_pinned;
use crate::sys::signal::with_all_blocked;
use crate::sys::thread;

static POOL: ForkSafe<Pool> = ForkSafe::new(Pool::new());

/// Something to do in a worker, once: a function, and at most a word that it needs.
#[derive(Debug)]
pub struct Job {
    /// Takes the data; calls the function if the other argument is true.
    take: unsafe fn(Data, bool),
    data: Data,
}

// SAFETY: made of functions that are `Send` only.
unsafe impl Send for Job {}

impl Job {
    /// `run` should not panic: a worker survives it, but can do no more than report it. It is one word at most, so that a job
    /// needs no memory.
    pub fn new<F: FnOnce() + Send + 'static>(run: F) -> Self {
        const { assert!(size_of::<F>() <= size_of::<Data>() && align_of::<F>() <= align_of::<Data>()) };
        /// # Safety
        ///
        /// `data` holds an `F`, which is not used again.
        unsafe fn take<F: FnOnce()>(data: Data, runs: bool) {
            // SAFETY: the caller's contract.
            let run = unsafe { data.as_ptr().cast::<F>().read() };
            if runs {
                run();
            }
        }
        let mut data = Data::uninit();
        // SAFETY: it fits, and the place is aligned.
        unsafe { data.as_mut_ptr().cast::<F>().write(run) };
        Self { take: take::<F>, data }
    }

    /// Runs the job in a worker. False if it will not run, as no worker is idle and none can be started.
    ///
    /// Takes a lock for a moment, and may start a thread.
    #[must_use]
    pub fn submit(self) -> bool {
        match POOL.get().give(self) {
            Ok(()) => true,
            Err(job) => start_worker(job),
        }
    }

    fn run(self) {
        let job = mem::ManuallyDrop::new(self);
        // SAFETY: the data are those of the function, and not used again.
        if let Err(payload) = catch_unwind(|| unsafe { (job.take)(job.data, true) }) {
            // Its destructor could panic too.
            mem::forget(payload);
            // Not `eprintln!`, which panics if it cannot write.
            let _ =
                writeln!(std::io::stderr(), "stillpoint: a job of the library panicked; its worker goes on");
        }
    }
}

impl Drop for Job {
    /// It will not run.
    fn drop(&mut self) {
        // SAFETY: as in `run`, which does not get here.
        unsafe { (self.take)(self.data, false) };
    }
}

/// Forgets the workers: the child of a fork has none. Jobs that the parent's workers run, or were about to, will not run
/// in the child unless they are submitted again.
///
/// # Safety
///
/// The calling thread is the only one in the process, and was not in the middle of [`Job::submit`] when it forked.
pub unsafe fn reset_in_child() {
    // SAFETY: the caller's contract; outside `Job::submit` and `Pool::next` nobody holds a reference to the pool.
    unsafe { POOL.overwrite(Pool::new()) };
}

fn start_worker(first: Job) -> bool {
    // The worker sleeps in this code for as long as the process lives.
    if !is_pinned() {
        return false;
    }
    let first = Box::into_raw(Box::new(first));
    // The program's signals are not for this thread: it runs destructors, callbacks and wakers.
    let started = with_all_blocked(|| thread::spawn(work, first.cast()));
    if !started {
        // SAFETY: comes from a box, and no thread has it.
        drop(unsafe { Box::from_raw(first) });
    }
    started
}

/// A worker's life.
extern "C" fn work(first: *mut c_void) -> *mut c_void {
    thread::set_name(c"stillpoint-rcu");
    // SAFETY: `start_worker` made the pointer of a box, for this thread.
    let first = unsafe { Box::from_raw(first.cast::<Job>()) };
    (*first).run();
    // A new reference each time: the job may have forked.
    while let Some(job) = POOL.get().next() {
        job.run();
    }
    ptr::null_mut()
}

/// See the [module](self).
#[derive(Debug)]
struct Pool {
    idle: Mutex<Idle>,
    /// The idle worker sleeps here.
    given: Condvar,
}

#[derive(Debug)]
enum Idle {
    Nobody,
    Sleeps,
    Given(Job),
}

impl Pool {
    const fn new() -> Self {
        Self { idle: Mutex::new(Idle::Nobody), given: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        // Nothing under the lock panics.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the job to the idle worker; gives it back if there is none who has no job yet.
    fn give(&self, job: Job) -> Result<(), Job> {
        let mut idle = self.lock();
        if !matches!(*idle, Idle::Sleeps) {
            return Err(job);
        }
        *idle = Idle::Given(job);
        drop(idle);
        self.given.notify_one();
        Ok(())
    }

    /// What a worker does next; nothing if it is to end.
    fn next(&self) -> Option<Job> {
        let mut idle = self.lock();
        match mem::replace(&mut *idle, Idle::Sleeps) {
            Idle::Nobody => Some(self.sleep(idle)),
            Idle::Sleeps => None,
            // This worker is awake already; the other may sleep on.
            Idle::Given(job) => Some(job),
        }
    }

    /// The idle worker's sleep.
    fn sleep(&self, mut idle: MutexGuard<'_, Idle>) -> Job {
        loop {
            match mem::replace(&mut *idle, Idle::Nobody) {
                Idle::Given(job) => return job,
                _ => *idle = Idle::Sleeps,
            }
            idle = self.given.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
    use std::sync::{Arc, Barrier};
    use std::{fs, thread};

    use super::*;
    use crate::deadline::deadline;

    /// The pool belongs to the process: one test at a time.
    static ONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
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
        // A thread may end meanwhile.
        let names = tasks.flat_map(|task| fs::read_to_string(task.path().join("comm")));
        names.filter(|name| name.trim() == "stillpoint-rcu").count()
    }

    fn is_idle() -> bool {
        matches!(*POOL.get().lock(), Idle::Sleeps)
    }

    #[test]
    fn a_job_runs_in_a_worker_with_all_signals_blocked() {
        static RIGHT: AtomicBool = AtomicBool::new(false);
        let (_running, _alone) = (deadline(), alone());
        let job = Job::new(|| {
            let status = fs::read_to_string("/proc/thread-self/status").expect("a thread has a status");
            let blocked =
                status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a signal mask");
            let blocked = u64::from_str_radix(blocked.trim(), 16).expect("a number");
            let usr1 = 1 << (libc::SIGUSR1 - 1);
            RIGHT.store(is_worker() && blocked & usr1 != 0, Release);
        });
        assert!(job.submit());
        until(|| RIGHT.load(Acquire));
    }

    #[test]
    fn jobs_run_all_at_once_and_one_idle_worker_remains() {
        const JOBS: usize = 8;
        static ALL: Barrier = Barrier::new(JOBS + 1);
        let (_running, _alone) = (deadline(), alone());
        let job = || {
            Job::new(|| {
                ALL.wait();
            })
        };
        for _ in 0..20 {
            assert!((0..JOBS).all(|_| job().submit()));
            ALL.wait();
        }
        until(|| is_idle() && workers() == 1);
    }

    #[test]
    fn the_idle_worker_runs_what_comes_next() {
        static WHO: Mutex<Vec<thread::ThreadId>> = Mutex::new(Vec::new());
        let (_running, _alone) = (deadline(), alone());
        for round in 1..=10 {
            assert!(Job::new(|| WHO.lock().expect("no panic").push(thread::current().id())).submit());
            until(|| WHO.lock().expect("no panic").len() == round && is_idle());
        }
        let who = WHO.lock().expect("no panic");
        assert!(who.iter().all(|id| *id == who[0]), "{who:?}");
    }

    #[test]
    fn no_job_is_lost_or_run_twice_when_submits_race_with_workers_that_finish() {
        const SUBMITS: usize = 2000;
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let (_running, _alone) = (deadline(), alone());
        let job = || {
            Job::new(|| {
                RUNS.fetch_add(1, Release);
            })
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..SUBMITS).for_each(|_| assert!(job().submit())));
            }
        });
        until(|| RUNS.load(Acquire) == 2 * SUBMITS);
        until(|| is_idle() && workers() == 1);
        assert_eq!(RUNS.load(Acquire), 2 * SUBMITS);
    }

    #[test]
    fn a_job_lets_go_of_its_data_when_it_has_run_and_when_it_never_will() {
        let (_running, _alone) = (deadline(), alone());
        let data = Arc::new(());
        let job = || {
            let data = Arc::clone(&data);
            Job::new(move || drop(data))
        };
        drop(job());
        assert_eq!(Arc::strong_count(&data), 1);
        assert!(job().submit());
        until(|| Arc::strong_count(&data) == 1);
    }

    #[test]
    fn a_job_that_panics_does_not_end_its_worker() {
        static WHO: Mutex<Option<thread::ThreadId>> = Mutex::new(None);
        let (_running, _alone) = (deadline(), alone());
        let panics = || {
            Job::new(|| {
                *WHO.lock().expect("no panic under this lock") = Some(thread::current().id());
                panic!("on purpose");
            })
        };
        let who = || *WHO.lock().expect("no panic under this lock");
        assert!(panics().submit());
        until(|| who().is_some() && is_idle());
        let first = WHO.lock().expect("no panic under this lock").take();
        assert!(panics().submit());
        until(|| who().is_some());
        assert_eq!(who(), first);
    }

    /// Forks, and waits for the child to exit with 0, which `child` must see to.
    fn in_child(child: impl FnOnce()) {
        // SAFETY: glibc lets the child of a process with threads allocate and start threads.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: a plain call; a child that hangs is killed.
            unsafe { libc::alarm(50) };
            // SAFETY: the only thread, which is not inside the pool.
            unsafe { reset_in_child() };
            return child();
        }
        let mut status = -1;
        // SAFETY: `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0, "the child exits with 0");
    }

    fn exit(right: bool) {
        // SAFETY: ends the child without the destructors of the parent's test.
        unsafe { libc::_exit(i32::from(!right)) }
    }

    #[test]
    fn the_child_of_a_fork_starts_workers_of_its_own() {
        let (_running, _alone) = (deadline(), alone());
        assert!(Job::new(|| ()).submit());
        until(is_idle);
        in_child(|| {
            let started = Job::new(|| exit(is_worker())).submit();
            until(|| !started);
            exit(false);
        });
    }

    #[test]
    fn a_worker_that_forks_is_a_worker_in_the_child() {
        static FORKED: Mutex<Option<thread::ThreadId>> = Mutex::new(None);
        static DONE: AtomicBool = AtomicBool::new(false);
        let (_running, _alone) = (deadline(), alone());
        let forks = Job::new(|| {
            in_child(|| {
                *FORKED.lock().expect("no panic") = Some(thread::current().id());
                // In a second worker of the child: hands a job to the first one, when that has become idle.
                let started = Job::new(|| {
                    until(is_idle);
                    let started =
                        Job::new(|| exit(*FORKED.lock().expect("no panic") == Some(thread::current().id())))
                            .submit();
                    until(|| !started);
                    exit(false);
                })
                .submit();
                if !started {
                    exit(false);
                }
            });
            DONE.store(true, Release);
        });
        assert!(forks.submit());
        until(|| DONE.load(Acquire));
    }
}
