//! Random programs over several threads, which are checked against a model and reduced if they fail.
//!
//! A program is a list of steps, each of one thread. It is run twice, by real threads:
//!
//! - *in step*: a step begins when the one before has ended, or waits for other threads; the [`Model`] predicts
//!   which. So a program has the same effect each time, and one that fails can be reduced;
//! - *freely*: every thread runs its own steps again and again, as fast as it can. The [`System`] itself finds
//!   errors.
//!
//! `PROPTEST_CASES` is the number of programs, `PROPTEST_RNG_SEED` the seed. A failure prints the program and the
//! seed.

use std::cell::Cell;
use std::env;
use std::fmt::Debug;
use std::io::{self, Write as _};
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Barrier;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, Scope};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
#[cfg(fuzzing)]
use proptest::{strategy::ValueTree as _, test_runner::RngAlgorithm, test_runner::TestRng};

use support::asleep::{sleeps, tid};
use support::panics::message;
use support::time_limit::TIME_LIMIT;

pub const THREADS: usize = 3;
/// The most steps of a program.
const MOST: usize = 40;
/// How often each thread runs its steps in a free run.
const ROUNDS: usize = 20;
/// How many programs a test runs, and for how long at most, unless the environment says how many.
const CASES: u32 = 48;
const TIME: Duration = Duration::from_secs(3);

/// A step of `thread`.
#[derive(Debug, Clone)]
pub struct Step<O> {
    thread: usize,
    op: O,
}

/// The system under test.
pub trait System: Sync {
    type Op: Clone + Debug + Send + Sync;
    /// The result of a step.
    type Seen: Debug + Send;
    /// The state of a thread.
    type Local<'a>
    where
        Self: 'a;

    /// A thread starts.
    fn start_thread(&self, thread: usize) -> Self::Local<'_>;

    /// Runs a step of the thread, or nothing if it would wait for what it holds itself. Panics if it finds an error.
    fn run_step<'a>(&'a self, local: &mut Self::Local<'a>, op: &Self::Op) -> Self::Seen;

    /// Called after all threads have ended and released everything. Panics if it finds an error.
    fn finish(self);
}

/// What a step that has begun is expected to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// It must not end.
    Never,
    /// It may end.
    Perhaps,
    /// It ends before anything else happens.
    Now,
    /// One of the steps with this expectation ends.
    OneOf,
}

/// The correct behaviour, step by step.
pub trait Model {
    type Op;
    type Seen;

    /// The idle thread is about to begin a step. Returns `false` if it must not.
    fn begin(&mut self, thread: usize, op: &Self::Op) -> bool;

    /// Returns what the current step of the thread is expected to do.
    fn expect(&self, thread: usize) -> Expect;

    /// A step has ended.
    fn end(&mut self, thread: usize, op: &Self::Op, seen: Self::Seen) -> Result<(), String>;

    /// Checks the effects of all steps so far.
    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the next step by which the idle thread releases what it holds.
    fn last(&self, thread: usize) -> Option<Self::Op>;
}

/// A thread that runs the steps that it is sent.
struct Worker<O, T> {
    /// The kernel's thread id.
    tid: i32,
    ops: Sender<O>,
    answers: Receiver<Result<T, String>>,
    /// The current step.
    busy: Option<O>,
}

type WorkerOf<S> = Worker<<S as System>::Op, <S as System>::Seen>;

impl<O: Clone + Debug + Send, T: Send> Worker<O, T> {
    fn spawn<'scope, S>(scope: &'scope Scope<'scope, '_>, system: &'scope S, thread: usize) -> Self
    where
        S: System<Op = O, Seen = T>,
        O: 'scope,
        T: 'scope,
    {
        let (ops, inbox) = mpsc::channel::<O>();
        let (outbox, answers) = mpsc::channel();
        let (name, named) = mpsc::channel();
        scope.spawn(move || {
            name.send(tid()).expect("the coordinator listens");
            let mut local = system.start_thread(thread);
            for op in inbox {
                let seen = catch(|| system.run_step(&mut local, &op));
                if outbox.send(seen).is_err() {
                    break;
                }
            }
        });
        let tid = named.recv().expect("the thread has started");
        Self { tid, ops, answers, busy: None }
    }

    fn begin(&mut self, op: &O) {
        self.ops.send(op.clone()).expect("the thread listens");
        self.busy = Some(op.clone());
    }

    /// Waits until the thread sleeps: in its step, or, if that has ended, before the next one. So a step that must
    /// wait and does not is found at once.
    fn wait_until_asleep(&self) {
        let begin = Instant::now();
        while !sleeps(self.tid) && begin.elapsed() < *TIME_LIMIT {
            thread::yield_now();
        }
    }

    /// Returns the answer, or `None` if it does not come in time.
    fn answer(&mut self, time: Duration) -> Result<Option<(O, T)>, String> {
        match self.answers.recv_timeout(time) {
            Ok(seen) => Ok(Some((self.busy.take().expect("a step was sent"), seen?))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("a thread has ended".into()),
        }
    }
}

fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| message(&*payload).to_owned())
}

/// Runs a program in step.
struct Coordinator<'a, S: System, M> {
    workers: Vec<WorkerOf<S>>,
    model: M,
    /// Reports that a thread hangs.
    hangs: &'a dyn Fn(usize),
}

impl<S: System, M: Model<Op = S::Op, Seen = S::Seen>> Coordinator<'_, S, M> {
    fn run(&mut self, program: &[Step<S::Op>]) -> Result<(), String> {
        for Step { thread, op } in program {
            self.step(*thread, op)?;
        }
        while let Some((thread, op)) = self.last() {
            self.step(thread, &op)?;
        }
        match self.workers.iter().position(|worker| worker.busy.is_some()) {
            Some(thread) => Err(format!("in the model, thread {thread} waits for ever")),
            None => Ok(()),
        }
    }

    fn last(&self) -> Option<(usize, S::Op)> {
        let idle = self.workers.iter().enumerate().filter(|(_, worker)| worker.busy.is_none());
        idle.map(|(thread, _)| thread).find_map(|thread| Some((thread, self.model.last(thread)?)))
    }

    fn step(&mut self, thread: usize, op: &S::Op) -> Result<(), String> {
        if self.workers[thread].busy.is_some() || !self.model.begin(thread, op) {
            return Ok(());
        }
        self.workers[thread].begin(op);
        if self.model.expect(thread) == Expect::Never {
            self.workers[thread].wait_until_asleep();
        }
        self.settle()
    }

    /// Waits until no more steps are expected to end.
    fn settle(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let mut expected = false;
            for thread in 0..THREADS {
                if self.workers[thread].busy.is_none() {
                    continue;
                }
                let expect = self.model.expect(thread);
                let time = match expect {
                    Expect::Now => *TIME_LIMIT,
                    Expect::OneOf => Duration::from_millis(1),
                    Expect::Never | Expect::Perhaps => Duration::ZERO,
                };
                match self.workers[thread].answer(time)? {
                    Some((op, _)) if expect == Expect::Never => {
                        return Err(format!("{op:?} of thread {thread} has ended too early"));
                    }
                    Some((op, seen)) => {
                        self.model.end(thread, &op, seen)?;
                        // By now more steps may be expected to end.
                        expected = true;
                    }
                    None if expect == Expect::Now || begin.elapsed() > *TIME_LIMIT => (self.hangs)(thread),
                    None => expected |= expect == Expect::OneOf,
                }
            }
            self.model.check()?;
            if !expected {
                return Ok(());
            }
        }
    }
}

fn in_step<S: System, M: Model<Op = S::Op, Seen = S::Seen>>(
    system: S,
    model: M,
    program: &[Step<S::Op>],
) -> Result<(), String> {
    let hangs = |thread| hang(&format!("in step, thread {thread}"), program);
    thread::scope(|scope| {
        let workers = (0..THREADS).map(|thread| Worker::spawn(scope, &system, thread)).collect();
        Coordinator::<S, M> { workers, model, hangs: &hangs }.run(program)
    })?;
    catch(|| system.finish())
}

fn freely<S: System>(system: S, program: &[Step<S::Op>]) -> Result<(), String> {
    let start = Barrier::new(THREADS);
    let (ended, all) = mpsc::channel();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (system, start, ended) = (&system, &start, ended.clone());
            scope.spawn(move || {
                let outcome = catch(|| {
                    let mut local = system.start_thread(thread);
                    start.wait();
                    for _ in 0..ROUNDS {
                        let own = program.iter().filter(|step| step.thread == thread);
                        own.for_each(|step| drop(system.run_step(&mut local, &step.op)));
                    }
                });
                let _ = ended.send(outcome);
            });
        }
        // All outcomes, since the threads borrow the program.
        let outcomes: Vec<_> = (0..THREADS)
            .map(|_| all.recv_timeout(*TIME_LIMIT).unwrap_or_else(|_| hang("free", program)))
            .collect();
        outcomes.into_iter().collect::<Result<(), _>>()
    })?;
    catch(|| system.finish())
}

/// Ends the process: a program that hangs can be neither ended nor reduced.
fn hang<O: Debug>(how: &str, program: &[Step<O>]) -> ! {
    // Not `eprintln!`, whose output is captured until the test ends.
    let limit = *TIME_LIMIT;
    let _ = writeln!(io::stderr(), "\n{how}: this has not ended after {limit:?}: {program:#?}");
    process::exit(101);
}

fn programs<O: Debug>(op: impl Strategy<Value = O>) -> impl Strategy<Value = Vec<Step<O>>> {
    vec((0..THREADS, op).prop_map(|(thread, op)| Step { thread, op }), 1..MOST)
}

/// How [`check`] runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    InStep,
    Freely,
}

fn run<S: System, M: Model<Op = S::Op, Seen = S::Seen>>(
    how: How,
    (system, model): (S, M),
    program: &[Step<S::Op>],
) -> Result<(), String> {
    let outcome = match how {
        How::InStep => in_step(system, model, program),
        How::Freely => freely(system, program),
    };
    outcome.map_err(|why| format!("{how:?}: {why}"))
}

/// Runs random programs of `op`s. `make` returns the system and its model.
///
/// # Errors
///
/// The smallest program found that fails.
pub fn check<S: System, M: Model<Op = S::Op, Seen = S::Seen>>(
    hows: &[How],
    op: impl Strategy<Value = S::Op>,
    make: impl Fn(How) -> (S, M),
) -> Result<(), String> {
    let number = |name| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let cases = number("PROPTEST_CASES");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let seed = number("PROPTEST_RNG_SEED").unwrap_or(since.as_nanos() as u64);
    let mut runner = TestRunner::new(Config {
        cases: cases.map_or(CASES, |cases| cases as u32),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2000,
        max_shrink_time: 20_000,
        ..Config::default()
    });
    let (begin, failed) = (Instant::now(), Cell::new(false));
    let outcome = runner.run(&programs(op), |program| {
        if cases.is_none() && begin.elapsed() > TIME && !failed.get() {
            return Ok(());
        }
        for &how in hows {
            run(how, make(how), &program).map_err(|why| {
                failed.set(true);
                TestCaseError::fail(why)
            })?;
        }
        Ok(())
    });
    outcome.map_err(|failure| format!("{failure}\nPROPTEST_RNG_SEED={seed}"))
}

/// Runs the program that a fuzzer's bytes stand for, in the place of random numbers. Panics if it finds an error.
#[cfg(fuzzing)]
pub fn fuzz<S: System, M: Model<Op = S::Op, Seen = S::Seen>>(
    data: &[u8],
    op: impl Strategy<Value = S::Op>,
    make: impl Fn(How) -> (S, M),
) {
    let rng = TestRng::from_seed(RngAlgorithm::PassThrough, data);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    // Bytes that run out stand for no program.
    let Ok(tree) = programs(op).new_tree(&mut runner) else { return };
    let program = tree.current();
    for how in [How::InStep, How::Freely] {
        run(how, make(how), &program).unwrap_or_else(|why| panic!("{why}: {program:#?}"));
    }
}

/// Returns `true` if the systems are to have an error, so that it can be seen that a fuzzer finds it.
#[cfg(fuzzing)]
pub fn is_broken() -> bool {
    env::var_os("FUZZ_BROKEN").is_some()
}

/// Expects that [`check`] finds no error.
pub fn holds<S: System, M: Model<Op = S::Op, Seen = S::Seen>>(
    op: impl Strategy<Value = S::Op>,
    make: impl Fn(How) -> (S, M),
) {
    if let Err(failure) = check(&[How::InStep, How::Freely], op, make) {
        panic!("{failure}");
    }
}

/// Expects that [`check`] finds the error of a broken system: with one of `words` in the message, in a program of at
/// most `steps` steps. That may take many attempts: on a busy machine few programs run, and a step that should wait
/// and does not is now and then mistaken for one that does.
pub fn is_found<S: System, M: Model<Op = S::Op, Seen = S::Seen>, O: Strategy<Value = S::Op>>(
    words: &[&str],
    steps: usize,
    ops: impl Fn() -> O,
    make: impl Fn(How) -> (S, M),
) {
    let begin = Instant::now();
    let attempts = iter::repeat_with(|| check(&[How::InStep], ops(), &make).err());
    let mut failures = attempts.take_while(|_| begin.elapsed() < 10 * *TIME_LIMIT).flatten();
    let small = |failure: &String| {
        words.iter().any(|words| failure.contains(words)) && failure.matches("thread: ").count() <= steps
    };
    assert!(
        failures.any(|failure| small(&failure)),
        "no error is found, or another one, or the program is not small"
    );
}
