//! Workers are scheduled as the program, not as the thread that defers first.

use std::hint::spin_loop;
use std::process::id;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use support::prelude::*;
use support::threads::deny;

/// How a thread is scheduled.
#[derive(Debug, PartialEq)]
struct Scheduling {
    cpus: usize,
    policy: libc::c_int,
    nice: i32,
}

fn main_thread() -> Option<Pid> {
    Pid::from_raw(id() as i32)
}

fn scheduling(thread: Option<Pid>) -> Scheduling {
    let number = thread.map_or(0, Pid::as_raw_pid);
    Scheduling {
        cpus: sched_getaffinity(thread).expect("the CPUs").count() as usize,
        // SAFETY: no pointers.
        policy: unsafe { libc::syscall(libc::SYS_sched_getscheduler, number) as libc::c_int },
        nice: getpriority_process(thread).expect("the nice value"),
    }
}

/// Returns how the worker is scheduled.
fn of_worker() -> Scheduling {
    let (sender, receiver) = channel();
    rcu::call(move || sender.send(scheduling(None)).expect("the test listens"));
    receiver.recv().expect("the callback runs")
}

/// Waits until the worker is scheduled so. It may run before the thread that has started it has set its CPUs.
fn until_worker_has(expected: &Scheduling) {
    until(|| of_worker() == *expected);
}

/// Binds a thread to one of its CPUs.
fn bind(thread: Option<Pid>) {
    let all = sched_getaffinity(thread).expect("the CPUs");
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).rfind(|&cpu| all.is_set(cpu)).expect("a CPU"));
    sched_setaffinity(thread, &one).expect("an allowed CPU");
}

/// Gives a thread, or the calling one if it is 0, a policy. (musl's function only returns an error.)
fn choose_policy(thread: u32, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // SAFETY: `struct sched_param` has one number, which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread a real-time priority. Returns `false` if that is not permitted.
fn be_real_time() -> bool {
    let result = choose_policy(0, libc::SCHED_FIFO, 10);
    if let Err(error) = &result {
        eprintln!("NOT CHECKED: real-time priorities: {error}");
    }
    result.is_ok()
}

/// Begins a test in a process of its own, which must have several CPUs.
macro_rules! alone_on_several_cpus {
    () => {
        alone!();
        if sched_getaffinity(None).expect("the CPUs").count() == 1 {
            return eprintln!("NOT CHECKED: the process may run on one CPU only");
        }
    };
}

#[test]
fn worker_started_by_a_bound_thread_is_not_bound() {
    alone_on_several_cpus!();
    bind(None);
    until_worker_has(&scheduling(main_thread()));
}

#[test]
fn worker_of_a_program_with_a_bound_main_thread_is_not_bound() {
    alone_on_several_cpus!();
    let before = scheduling(main_thread());
    bind(main_thread());
    bind(None);
    until_worker_has(&before);
}

#[test]
fn worker_of_a_restricted_program_keeps_the_restriction() {
    alone_on_several_cpus!();
    let all = sched_getaffinity(None).expect("the CPUs");
    if all.count() < 3 {
        return eprintln!("NOT CHECKED: a restriction to some of two CPUs");
    }
    let mut some = all;
    some.unset((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).expect("a CPU"));
    sched_setaffinity(main_thread(), &some).expect("allowed CPUs");
    until_worker_has(&scheduling(main_thread()));
}

#[test]
fn worker_started_by_a_real_time_thread_has_the_normal_policy() {
    alone_on_several_cpus!();
    bind(None);
    if be_real_time() {
        let expected = Scheduling { policy: libc::SCHED_OTHER, ..scheduling(main_thread()) };
        until_worker_has(&expected);
    }
}

#[test]
fn worker_of_a_program_in_the_background_stays_there() {
    alone!();
    [id(), 0].into_iter().for_each(|thread| choose_policy(thread, libc::SCHED_IDLE, 0).expect("permitted"));
    until_worker_has(&scheduling(main_thread()));
}

#[test]
fn worker_started_by_a_background_thread_has_the_normal_policy() {
    alone!();
    if scheduling(main_thread()).policy != libc::SCHED_OTHER {
        return eprintln!("NOT CHECKED: a program in the background");
    }
    choose_policy(0, libc::SCHED_BATCH, 0).expect("permitted");
    assert_eq!(of_worker().policy, libc::SCHED_OTHER);
}

#[test]
fn callback_of_a_polling_real_time_thread_runs_while_it_polls() {
    static CALLED: AtomicBool = AtomicBool::new(false);
    alone_on_several_cpus!();
    bind(None);
    if !be_real_time() {
        return;
    }
    let begin = Instant::now();
    rcu::call(|| CALLED.store(true, Release));
    // Not for ever: nothing else runs on this CPU until then.
    while !CALLED.load(Acquire) && begin.elapsed() < *TIME_LIMIT / 2 {
        spin_loop();
    }
    assert!(CALLED.load(Acquire), "the worker does not run");
}

#[test]
fn worker_has_the_nice_value_of_the_main_thread() {
    alone_on_several_cpus!();
    // A value that is lower than the thread's takes a privilege, this one does not.
    let nice = getpriority_process(None).expect("the nice value") + 3;
    setpriority_process(main_thread(), nice).expect("a higher value is allowed");
    assert_eq!(of_worker().nice, nice.min(19));
}

#[test]
fn worker_starts_where_its_scheduling_cannot_be_changed() {
    alone_on_several_cpus!();
    bind(None);
    let is_real_time = be_real_time();
    let calls = [libc::SYS_sched_setaffinity, libc::SYS_sched_setscheduler, libc::SYS_setpriority];
    deny(libc::EPERM, calls.map(|call| (call, vec![])));
    let policy = if is_real_time { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    let worker = of_worker();
    assert_eq!((worker.cpus, worker.policy), (1, policy));
}
