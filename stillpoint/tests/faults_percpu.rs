//! Faults at every point of every critical section preserve its results.
//!
//! Compiled with `--cfg stillpoint_faults` only (`ci/percpu.sh`): see `stillpoint::percpu::faults`. A thread that traps
//! at a point runs a signal handler in the middle of a section, which does what the test asks for.
#![cfg(stillpoint_faults)]

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Barrier, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;
use std::{hint, mem, process, ptr, thread};

use stillpoint::percpu::faults::{self, Fault, POINTS};
use stillpoint::percpu::{Counter, Histogram, Pool, RefCount};
use support::deadline::deadline;
use support::fork;
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
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: sigaction is plain data, for which zero is a value; the handler runs at the points only, where its thread
    // holds no lock of the program or of an allocator.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_trap as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_NODEFER | libc::SA_RESTART | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
    }
    CPUS.get_or_init(rseq::allowed_cpus);
    (0..POINTS).for_each(|point| faults::set(point, Fault::None));
    EVERY_TIME.store(false, Relaxed);
    one
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

struct Add(Counter);

impl Operation for Add {
    fn run(&self) {
        self.0.add(3);
    }
    fn check(&self, times: u64) {
        assert_eq!(self.0.sum(), 3 * times);
    }
}

struct Record(Histogram);

impl Operation for Record {
    fn run(&self) {
        self.0.record(1000);
    }
    fn check(&self, times: u64) {
        let seen = self.0.snapshot();
        assert_eq!((seen.count(), seen.sum()), (times, 1000 * times));
    }
}

/// An object that knows whether it has an owner.
#[derive(Debug, Default)]
struct Token(AtomicBool);

impl Token {
    fn take(&self) {
        assert!(!self.0.swap(true, AcqRel), "a token has two owners");
    }
    fn give(&self) {
        assert!(self.0.swap(false, AcqRel), "a token is given back twice");
    }
}

/// Pops and pushes some tokens.
struct Exchange {
    pool: Pool<Token>,
    made: AtomicUsize,
    count: usize,
}

impl Exchange {
    fn new(count: usize) -> Self {
        Self { pool: Pool::new(8), made: AtomicUsize::new(0), count }
    }

    fn take(&self) -> Box<Token> {
        let token = self.pool.pop();
        let token = token.inspect(|token| token.take());
        token.unwrap_or_else(|| {
            self.made.fetch_add(1, Relaxed);
            Box::new(Token(AtomicBool::new(true)))
        })
    }

    fn refuse(&self, token: Box<Token>) {
        token.take();
        drop(token);
        self.made.fetch_sub(1, Relaxed);
    }
}

impl Operation for Exchange {
    fn run(&self) {
        let mut tokens = Vec::new();
        while tokens.len() < self.count {
            tokens.push(self.take());
        }
        tokens.iter().for_each(|token| token.give());
        let refused = tokens.into_iter().filter_map(|token| self.pool.push(token).err());
        refused.for_each(|token| self.refuse(token));
    }

    fn check(&self, _times: u64) {
        let mut found = Vec::new();
        while let Some(token) = self.pool.pop() {
            token.take();
            found.push(token);
        }
        assert_eq!(found.len(), self.made.load(Relaxed), "tokens were lost or doubled");
    }
}

/// Gets references, of which it puts one less.
struct References(RefCount);

impl Operation for References {
    fn run(&self) {
        self.0.get();
        self.0.get();
        self.0.put();
    }
    fn check(&self, times: u64) {
        assert!(self.0.kill());
        for _ in 0..times {
            assert!(!self.0.is_zero(), "gets were lost");
            self.0.put();
        }
        assert!(self.0.is_zero(), "puts were lost");
    }
}

fn operations() -> [Box<dyn Operation>; 5] {
    [
        Box::new(References(RefCount::new())),
        Box::new(Add(Counter::new())),
        Box::new(Record(Histogram::new())),
        Box::new(Exchange::new(1)),
        Box::new(Exchange::new(12)),
    ]
}

/// Refutes: committed-early
#[test]
fn faults_at_every_point_preserve_results() {
    if !in_each_variant(faults_at_every_point_preserve_results) {
        return;
    }
    let _running = deadline();
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
    let _running = deadline();
    let _alone = alone();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    for point in 0..POINTS - 1 {
        for operation in operations() {
            interrupted_once(&*operation, point);
        }
    }
}

/// Refutes: not-armed
#[test]
fn migrated_add_restarts_on_the_new_cpu() {
    let _running = deadline();
    let _alone = alone();
    let cpus = rseq::allowed_cpus();
    let [first, _, ..] = cpus[..] else {
        return eprintln!("not checked on one CPU");
    };
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
    assert_eq!(counter.sum(), moved + others.into_inner(), "adds were lost");
}

/// Refutes: cpu-read-before-arming
#[test]
fn migrated_push_stores_on_the_new_cpu() {
    let _running = deadline();
    let _alone = alone();
    let cpus = rseq::allowed_cpus();
    let [first, second, ..] = cpus[..] else {
        return eprintln!("not checked on one CPU");
    };
    let pool = Pool::new(8);
    for cpu in [second, first] {
        // The first push on a CPU gives its stack a capacity.
        rseq::pin(&[cpu]);
        pool.push(Box::new(0)).expect("there is room");
    }
    for point in 0..5 {
        rseq::pin(&[first]);
        let before = pool.local_len(second);
        arm(point, Action::Move);
        pool.push(Box::new(point)).expect("there is room");
        assert_eq!(pool.local_len(second), before + 1, "moved at point {point}");
    }
}

/// Refutes: retried-forever
#[test]
fn always_interrupted_section_uses_the_fallback() {
    let _running = deadline();
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

/// Refutes: sign-not-checked
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
    let _running = deadline();
    let _alone = alone();
    let cpus = rseq::allowed_cpus();
    let [first, second, ..] = cpus[..] else {
        return eprintln!("not checked on one CPU");
    };
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
    assert_eq!(counter.sum(), 2 * ADDS, "adds were lost");
}

/// Refutes: interrupted-pop-finds-nothing
#[test]
fn interrupted_pop_is_retried() {
    let _running = deadline();
    let _alone = alone();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    for point in 1..5 {
        let pool = Pool::new(4);
        (0..4).for_each(|number| pool.push(Box::new(number)).expect("there is room"));
        // Interrupts the fast path, and the first retry.
        AGAIN.store(1, Relaxed);
        arm(point, Action::Nothing);
        let found: Vec<i32> = std::iter::from_fn(|| pool.pop()).map(|number| *number).collect();
        assert_eq!(found, [3, 2, 1, 0], "interrupted at point {point}");
        assert_eq!(AGAIN.load(Relaxed), 0);
    }
}

/// Forks while another thread has stopped the pool's area of this CPU, and runs `child` in the child.
fn in_child_with_area_stopped(pool: &Pool<u64>, child: impl FnOnce()) {
    let cpu = stillpoint::percpu::cpu();
    let (stopped, fork_may_come) = mpsc::channel();
    let (forked, may_open) = mpsc::channel::<()>();
    // Owns `forked`: the thread ends also if the child panics.
    thread::scope(move |scope| {
        scope.spawn(move || {
            pool.with_area_stopped(cpu, || {
                stopped.send(()).expect("the test receives it");
                let _ = may_open.recv();
            });
        });
        fork_may_come.recv().expect("the area is stopped");
        fork::in_child(child);
        forked.send(()).expect("the thread waits for it");
    });
}

/// Refutes: owner-never-dead, push-does-not-reopen
#[test]
fn push_reopens_an_area_stopped_at_fork() {
    let _running = deadline();
    let _alone = alone();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let (pool, cpus) = (Pool::new(4), stillpoint::percpu::report().cpus());
    in_child_with_area_stopped(&pool, || {
        let kept = (0..).take_while(|&number| pool.push(Box::new(number)).is_ok()).count();
        assert_eq!(kept, 4 * (1 + cpus), "the local stack, and all overflow arrays");
    });
}

/// Refutes: pop-does-not-reopen
#[test]
fn pop_reopens_an_area_stopped_at_fork() {
    let _running = deadline();
    let _alone = alone();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let pool = Pool::new(4);
    (0..4).for_each(|number| pool.push(Box::new(number)).expect("there is room"));
    in_child_with_area_stopped(&pool, || {
        let found: Vec<u64> = std::iter::from_fn(|| pool.pop()).map(|number| *number).collect();
        assert_eq!(found, [3, 2, 1, 0], "in the order of a stack, as nothing was stolen");
    });
}

/// Refutes: room-not-checked
#[test]
fn full_stack_refuses() {
    let _alone = alone();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let (pool, cpus) = (Pool::new(4), stillpoint::percpu::report().cpus());
    let kept = (0..100).filter(|&number| pool.push(Box::new(number)).is_ok()).count();
    assert!(kept <= 8 * cpus, "{kept} kept");
}

/// Refutes: stop-kept, stop-not-checked
#[test]
fn stopped_area_takes_nothing_until_it_is_reopened() {
    let _running = deadline();
    let _alone = alone();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let (pool, cpu) = (Pool::new(4), stillpoint::percpu::cpu());
    let push = |number| pool.push(Box::new(number)).expect("there is room");
    pool.with_area_stopped(cpu, || push(1));
    assert_eq!((pool.local_len(cpu), pool.len()), (0, 1));
    push(2);
    assert_eq!((pool.local_len(cpu), pool.len()), (1, 2));
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

/// Refutes: sections-not-interrupted
#[test]
fn kill_aborts_a_section_past_the_gate() {
    let _running = deadline();
    let _alone = alone();
    let cpus = rseq::allowed_cpus();
    if cpus.len() < 2 {
        return eprintln!("not checked on one CPU");
    }
    for _ in 0..repetitions(1000).max(100) {
        let (count, gets) = (RefCount::new(), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                rseq::pin(&cpus[..1]);
                arm(3, Action::Delay);
                while count.try_get() {
                    gets.fetch_add(1, Relaxed);
                }
                faults::disarm(3);
            });
            rseq::pin(&cpus[1..2]);
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

/// Refutes: not-interrupted
#[test]
fn drain_aborts_a_section_past_the_stop() {
    let _running = deadline();
    let _alone = alone();
    let cpus = rseq::allowed_cpus();
    if cpus.len() < 2 {
        return eprintln!("not checked on one CPU");
    }
    let pool: Pool<Token> = Pool::new(8);
    (0..8).for_each(|_| pool.push(Box::default()).expect("there is room"));
    let (stop, exchanges) = (AtomicBool::new(false), AtomicUsize::new(0));
    let exchange = || {
        if let Some(token) = pool.pop() {
            token.take();
            hint::spin_loop();
            token.give();
            pool.push(token).expect("there is room");
        }
    };
    /// Stops the other thread, also when this one panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            rseq::pin(&cpus[..1]);
            while !stop.load(Relaxed) {
                // Slow between the check of the stop and the commit.
                faults::set(3, Fault::Delay);
                exchange();
                exchanges.fetch_add(1, Relaxed);
            }
        });
        rseq::pin(&cpus[1..2]);
        let _stop = Stop(&stop);
        // Only drains during which the other thread runs count.
        let mut met = 0;
        while met < 4000 && !other.is_finished() {
            let before = exchanges.load(Relaxed);
            let tokens: Vec<_> = std::iter::from_fn(|| pool.pop()).collect();
            tokens.iter().for_each(|token| token.take());
            tokens.iter().for_each(|token| token.give());
            for token in tokens {
                pool.push(token).expect("the pool has as many tokens as before");
            }
            met += u32::from(exchanges.load(Relaxed) != before);
        }
    });
    faults::disarm(3);
}

#[test]
fn tests_notice_unarmed_sections() {
    // The control: shows that the tests above can fail.
    let me = std::env::current_exe().expect("the test knows its file");
    for test in [
        "interrupted_section_has_no_effect",
        "migrated_add_restarts_on_the_new_cpu",
        "faults_at_every_point_preserve_results",
    ] {
        let output = process::Command::new(&me)
            .args(["--exact", test, "--nocapture"])
            .env("STILLPOINT_MUTANT", "not-armed")
            .output()
            .expect("the child starts");
        assert!(!output.status.success(), "{test} does not notice that sections are not armed");
        let text = String::from_utf8_lossy(&output.stderr);
        let found = text.lines().find(|line| {
            ["left:", "lost", "two owners", "twice", "two threads", "torn"]
                .iter()
                .any(|word| line.contains(word))
        });
        eprintln!("{test}: {}", found.unwrap_or("ended by a signal").trim());
    }
}
