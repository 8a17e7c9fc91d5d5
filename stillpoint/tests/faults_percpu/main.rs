//! Faults at every point of every critical section preserve its results.
//!
//! Compiled with `--cfg stillpoint_faults` only (`ci/percpu.sh`): see `stillpoint::percpu::faults`. A thread that
//! traps at a point runs a signal handler in the middle of a section, which does what the test asks for.
#![cfg(stillpoint_faults)]

mod operations;
mod pool;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{hint, mem, process, ptr, thread};

use operations::operations;
use stillpoint::percpu::faults::{self, Fault, POINTS};
use stillpoint::percpu::{Counter, RefCount};
use support::deadline::deadline;
use support::rseq;
use support::time_limit::repetitions;
use support::variants::in_each_variant;

/// What a thread does at a fault point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Nothing,
    Yield,
    Sleep,
    /// Moves to another CPU, and stays there.
    Move,
    /// The same operation, on the same container.
    Same,
    /// A delay of some microseconds, which does not interrupt the section.
    Delay,
}

const ACTIONS: [Action; 6] =
    [Action::Nothing, Action::Yield, Action::Sleep, Action::Move, Action::Same, Action::Delay];

/// The fault point at which threads trap, and the action there.
static POINT: AtomicUsize = AtomicUsize::new(0);
static ACTION: AtomicUsize = AtomicUsize::new(0);
static TRAPS: AtomicU64 = AtomicU64::new(0);
/// Keeps the trap, so that it interrupts every attempt.
static EVERY_TIME: AtomicBool = AtomicBool::new(false);
/// Traps left, with [`EVERY_TIME`]: more than bounded tries explain.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// Traps that keep the point armed, before the one that disarms it.
static AGAIN: AtomicU64 = AtomicU64::new(0);
/// The CPUs of the process, whatever its threads are pinned to.
static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
/// The operation, for [`Action::Same`].
static SAME: AtomicPtr<&'static dyn Operation> = AtomicPtr::new(ptr::null_mut());

thread_local!(static IN_HANDLER: Cell<bool> = const { Cell::new(false) });

/// An operation whose runs can be counted in the state of its container.
trait Operation: Sync {
    fn run(&self);
    /// Panics unless the state is as after `times` runs.
    fn check(&self, times: u64);
}

extern "C" fn on_trap(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the context of this handler.
    unsafe { faults::step_over(context) };
    TRAPS.fetch_add(1, Relaxed);
    if EVERY_TIME.load(Relaxed) {
        if LEFT.fetch_sub(1, Relaxed) == 0 {
            process::exit(3);
        }
        return;
    }
    if AGAIN.load(Relaxed) != 0 {
        AGAIN.fetch_sub(1, Relaxed);
        return;
    }
    faults::disarm(POINT.load(Relaxed));
    if IN_HANDLER.replace(true) {
        return;
    }
    match ACTIONS[ACTION.load(Relaxed)] {
        Action::Nothing | Action::Delay => {}
        Action::Yield => thread::yield_now(),
        Action::Sleep => thread::sleep(Duration::from_micros(20)),
        Action::Move => {
            let here = stillpoint::percpu::cpu();
            let elsewhere = CPUS.get().and_then(|cpus| cpus.iter().find(|&&cpu| cpu != here));
            rseq::pin(&[*elsewhere.unwrap_or(&here)]);
        }
        Action::Same => {
            // SAFETY: points to an operation for as long as traps are set.
            let same = unsafe { SAME.load(Acquire).as_ref() };
            same.expect("an operation is set").run();
        }
    }
    IN_HANDLER.set(false);
}

/// Lets one test run at a time: faults belong to the process.
fn alone() -> impl Sized {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: sigaction is plain data, for which zero is a value; the handler runs at the points only, where its
    // thread holds no lock of the program or of an allocator.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_trap as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_NODEFER | libc::SA_RESTART | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
    }
    CPUS.get_or_init(rseq::allowed_cpus);
    (0..POINTS).for_each(|point| faults::set(point, Fault::None));
    EVERY_TIME.store(false, Relaxed);
    (one, deadline())
}

/// [`alone`], on the first CPU.
fn alone_on_one_cpu() -> impl Sized {
    let alone = alone();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    alone
}

/// Returns two CPUs, if the process may run on more than one.
fn two_cpus() -> Option<[usize; 2]> {
    let two = rseq::allowed_cpus().first_chunk().copied();
    if two.is_none() {
        eprintln!("not checked on one CPU");
    }
    two
}

/// Has the next thread at `point` do `action`.
fn arm(point: usize, action: Action) {
    POINT.store(point, Relaxed);
    ACTION.store(ACTIONS.iter().position(|known| *known == action).expect("a known one"), Relaxed);
    faults::set(point, if action == Action::Delay { Fault::Delay } else { Fault::Trap });
}

/// Counts the runs of an operation, those in handlers included.
struct Counted<'a> {
    operation: &'a dyn Operation,
    runs: AtomicU64,
}

impl Operation for Counted<'_> {
    fn run(&self) {
        self.runs.fetch_add(1, Relaxed);
        self.operation.run();
    }
    fn check(&self, times: u64) {
        self.operation.check(times);
    }
}

/// Runs `operation` in several threads, each now and then with a fault at `point`.
fn under_fault(operation: &dyn Operation, point: usize, action: Action, unregistered: fn(usize) -> bool) {
    const THREADS: usize = 3;
    let runs = repetitions(120).max(24);
    let counted = Counted { operation, runs: AtomicU64::new(0) };
    let dynamic: &dyn Operation = &counted;
    // SAFETY: only extends the lifetime; `SAME` is cleared below, when all threads have ended.
    let mut dynamic: &'static dyn Operation = unsafe { mem::transmute(dynamic) };
    SAME.store(&raw mut dynamic, Release);
    let cpus = rseq::allowed_cpus();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (counted, cpus) = (&counted, &cpus);
            scope.spawn(move || {
                if unregistered(thread) {
                    rseq::unregister();
                }
                for run in 0..runs {
                    if run % 4 == thread {
                        arm(point, action);
                    }
                    counted.run();
                    if run % 10 == 9 {
                        rseq::pin(cpus);
                    }
                }
            });
        }
    });
    faults::disarm(point);
    SAME.store(ptr::null_mut(), Release);
    operation.check(counted.runs.into_inner());
}

/// Refutes: committed-early
#[test]
fn faults_at_every_point_preserve_results() {
    if !in_each_variant(faults_at_every_point_preserve_results) {
        return;
    }
    let _alone = alone();
    // All threads are registered, none is, or some are.
    let kinds: [fn(usize) -> bool; 3] = [|_| false, |_| true, |thread| thread == 1];
    let mut combinations = 0;
    for point in 0..POINTS - 1 {
        for action in ACTIONS {
            for unregistered in kinds {
                for operation in operations() {
                    under_fault(&*operation, point, action, unregistered);
                    combinations += 1;
                }
            }
        }
    }
    eprintln!(
        "{combinations} combinations of operation, point, action and registration; {} traps; {}",
        TRAPS.load(Relaxed),
        stillpoint::percpu::report()
    );
}

/// Runs an operation that is interrupted at `point` by another run of it.
fn interrupted_once(operation: &dyn Operation, point: usize) {
    let counted = Counted { operation, runs: AtomicU64::new(0) };
    let dynamic: &dyn Operation = &counted;
    // SAFETY: only extends the lifetime; `SAME` is cleared below.
    let mut dynamic: &'static dyn Operation = unsafe { mem::transmute(dynamic) };
    SAME.store(&raw mut dynamic, Release);
    // Allocates the areas, and fills the pools.
    counted.run();
    arm(point, Action::Same);
    counted.run();
    faults::disarm(point);
    SAME.store(ptr::null_mut(), Release);
    operation.check(counted.runs.into_inner());
}

/// Refutes: not-armed
#[test]
fn interrupted_section_has_no_effect() {
    let _alone = alone_on_one_cpu();
    for point in 0..POINTS - 1 {
        for operation in operations() {
            interrupted_once(&*operation, point);
        }
    }
}

/// Refutes: not-armed
#[test]
fn migrated_add_restarts_on_the_new_cpu() {
    let _alone = alone();
    let Some([first, _]) = two_cpus() else { return };
    let counter = Counter::new();
    counter.prepare();
    let (stop, others) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut moved = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            rseq::pin(&[first]);
            let mut adds = 0;
            while !stop.load(Relaxed) {
                counter.add(1);
                adds += 1;
                if adds % 512 == 0 {
                    // Lets the other thread run.
                    thread::yield_now();
                }
            }
            others.store(adds, Relaxed);
        });
        // Migrates right before its commit, away from the CPU on which the other thread adds.
        for _ in 0..2000 {
            rseq::pin(&[first]);
            arm(3, Action::Move);
            counter.add(1);
            moved += 1;
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(counter.get(), moved + others.into_inner(), "adds were lost");
}

/// Refutes: retried-forever
#[test]
fn always_interrupted_section_uses_the_fallback() {
    let _alone = alone();
    for operation in operations() {
        for point in 1..5 {
            // More than the attempts of all sections of an operation.
            LEFT.store(1000, Relaxed);
            EVERY_TIME.store(true, Relaxed);
            arm(point, Action::Nothing);
            operation.run();
            faults::disarm(point);
            EVERY_TIME.store(false, Relaxed);
        }
        operation.check(4);
    }
}

/// Refutes: cpu-not-checked
#[test]
fn unregistered_thread_never_commits() {
    let _alone = alone();
    // A registered thread makes the choice.
    stillpoint::percpu::report();
    thread::spawn(|| {
        rseq::unregister();
        for operation in operations() {
            operation.run();
            operation.check(1);
        }
    })
    .join()
    .expect("the thread ends");
}

/// Refutes: plain-word-atomically
#[test]
fn unregistered_threads_add_to_atomic_words() {
    const ADDS: u64 = 500_000;
    let _alone = alone();
    let Some([first, second]) = two_cpus() else { return };
    let counter = Counter::new();
    counter.prepare();
    let started = Barrier::new(2);
    thread::scope(|scope| {
        let (counter, started) = (&counter, &started);
        let add = move || {
            started.wait();
            (0..ADDS).for_each(|_| counter.add(1));
        };
        scope.spawn(move || {
            rseq::unregister();
            rseq::pin(&[first]);
            add();
        });
        scope.spawn(move || {
            rseq::pin(&[second]);
            add();
        });
    });
    assert_eq!(counter.get(), 2 * ADDS, "adds were lost");
}

/// Refutes: gate-not-checked
#[test]
fn killed_count_changes_no_words() {
    let _alone = alone();
    let count = RefCount::new();
    count.get();
    count.get();
    count.kill();
    count.put();
    assert!(!count.is_zero());
    count.put();
    assert!(count.is_zero());
}

/// Refutes: sections-not-interrupted, closed-before-interrupt
#[test]
fn kill_aborts_a_section_past_the_gate() {
    let _alone = alone();
    let Some([first, second]) = two_cpus() else { return };
    for round in 0..repetitions(1000).max(100) {
        // Before it looks for the word, and before its commit.
        let point = 2 + round % 2;
        let (count, gets) = (RefCount::new(), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                rseq::pin(&[first]);
                arm(point, Action::Delay);
                while count.try_get() {
                    gets.fetch_add(1, Relaxed);
                }
                faults::disarm(point);
            });
            rseq::pin(&[second]);
            while gets.load(Relaxed) < 10 {
                hint::spin_loop();
            }
            count.kill();
        });
        for _ in 0..gets.into_inner() {
            assert!(!count.is_zero(), "gets were lost");
            count.put();
        }
        assert!(count.is_zero());
    }
}
