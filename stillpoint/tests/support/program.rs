//! Random programs over several threads, checked against a model, and made small where they fail.
//!
//! A program is a list of steps, each of one thread. It is run twice, by real threads:
//!
//! - *in step*: a step begins when the one before has ended, or waits for others, and the [`Model`] foretells which. So a
//!   program does the same each time, and one that fails can be made smaller;
//! - *freely*: every thread does its own steps again and again, as fast as it can. There the [`Scene`] itself notices what
//!   is wrong.
//!
//! `PROPTEST_CASES` is the number of programs, `PROPTEST_RNG_SEED` the seed; a failure names both program and seed.

#[path = "time_limit.rs"]
mod time_limit;

use std::cell::Cell;
use std::env;
use std::fmt::Debug;
use std::fs;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Barrier;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, Scope};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use crate::panics::message;
use time_limit::TIME_LIMIT;

pub const THREADS: usize = 3;
/// Steps of a program.
const MOST: usize = 40;
/// How often each thread does its steps in a free run.
const ROUNDS: usize = 20;
/// Programs of a test, and how long it goes on with them, unless the environment says how many.
const CASES: u32 = 48;
const LASTS: Duration = Duration::from_secs(3);
/// How often something broken is tried.
const ATTEMPTS: usize = 8;

/// What `thread` does.
#[derive(Debug, Clone)]
pub struct Step<O> {
    thread: usize,
    op: O,
}

/// What programs act upon.
pub trait Scene: Sync {
    type Op: Clone + Debug + Send + Sync;
    /// What a thread has seen in a step.
    type Seen: Debug + Send;
    /// What a thread holds.
    type Local<'a>
    where
        Self: 'a;

    /// A thread comes.
    fn come(&self, thread: usize) -> Self::Local<'_>;

    /// The thread does a step; nothing if that would make it wait for what it holds itself. It panics if something is wrong.
    fn act<'a>(&'a self, local: &mut Self::Local<'a>, op: &Self::Op) -> Self::Seen;

    /// After the threads have gone, and let go of everything. It panics if something is wrong.
    fn close(self);
}

/// Whether a step ends that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// It must not.
    Never,
    /// It may.
    Perhaps,
    /// It does, before anything else happens.
    Now,
    /// One of those of which this is expected does.
    OneOf,
}

/// What is right, one step after another.
pub trait Model {
    type Op;
    type Seen;

    /// The thread, which is at nothing, is to begin this. False if it is not to.
    fn begin(&mut self, thread: usize, op: &Self::Op) -> bool;

    /// What is expected of the thread, which is in the middle of a step.
    fn expect(&self, thread: usize) -> Expect;

    /// The step has ended.
    fn end(&mut self, thread: usize, op: &Self::Op, seen: Self::Seen) -> Result<(), String>;

    /// Looks at what steps have left behind.
    fn look(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// What the thread, which is at nothing, has to let go of before it may go.
    fn last(&self, thread: usize) -> Option<Self::Op>;
}

/// A thread that does what it is told.
struct Seat<O, T> {
    /// Its number, for the kernel.
    tid: i32,
    orders: Sender<O>,
    answers: Receiver<Result<T, String>>,
    /// What it is doing.
    busy: Option<O>,
}

type SeatOf<S> = Seat<<S as Scene>::Op, <S as Scene>::Seen>;

impl<O: Clone + Debug + Send, T: Send> Seat<O, T> {
    fn take<'scope, S>(scope: &'scope Scope<'scope, '_>, scene: &'scope S, thread: usize) -> Self
    where
        S: Scene<Op = O, Seen = T>,
        O: 'scope,
        T: 'scope,
    {
        let (orders, inbox) = mpsc::channel::<O>();
        let (outbox, answers) = mpsc::channel();
        let (name, named) = mpsc::channel();
        scope.spawn(move || {
            // SAFETY: a plain call.
            name.send(unsafe { libc::gettid() }).expect("somebody listens");
            let mut local = scene.come(thread);
            for op in inbox {
                let seen = caught(|| scene.act(&mut local, &op));
                if outbox.send(seen).is_err() {
                    break;
                }
            }
        });
        let tid = named.recv().expect("the thread has started");
        Self { tid, orders, answers, busy: None }
    }

    fn begin(&mut self, op: &O) {
        self.orders.send(op.clone()).expect("the thread listens");
        self.busy = Some(op.clone());
    }

    /// Until the thread sleeps, or has answered before it does: so that one that does not wait is found out at once.
    fn settles(&self) {
        let begin = Instant::now();
        let sleeps = || {
            let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", self.tid)).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
        };
        while !sleeps() && begin.elapsed() < *TIME_LIMIT {
            thread::yield_now();
        }
    }

    /// The answer, if it comes in time. `None` if it does not.
    fn answer(&mut self, time: Duration) -> Result<Option<(O, T)>, String> {
        match self.answers.recv_timeout(time) {
            Ok(seen) => Ok(Some((self.busy.take().expect("it was told"), seen?))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("a thread has gone".into()),
        }
    }
}

fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| message(&*payload).to_owned())
}

/// Those who run a program in step.
struct Crew<'a, S: Scene, M> {
    seats: Vec<SeatOf<S>>,
    model: M,
    /// Tells of a thread that does not come to an end.
    hangs: &'a dyn Fn(usize),
}

impl<S: Scene, M: Model<Op = S::Op, Seen = S::Seen>> Crew<'_, S, M> {
    fn run(&mut self, program: &[Step<S::Op>]) -> Result<(), String> {
        for Step { thread, op } in program {
            self.step(*thread, op)?;
        }
        while let Some((thread, op)) = self.last() {
            self.step(thread, &op)?;
        }
        match self.seats.iter().position(|seat| seat.busy.is_some()) {
            Some(thread) => Err(format!("the model has thread {thread} wait for ever")),
            None => Ok(()),
        }
    }

    fn last(&self) -> Option<(usize, S::Op)> {
        let idle = self.seats.iter().enumerate().filter(|(_, seat)| seat.busy.is_none());
        idle.map(|(thread, _)| thread).find_map(|thread| Some((thread, self.model.last(thread)?)))
    }

    fn step(&mut self, thread: usize, op: &S::Op) -> Result<(), String> {
        if self.seats[thread].busy.is_some() || !self.model.begin(thread, op) {
            return Ok(());
        }
        self.seats[thread].begin(op);
        if self.model.expect(thread) == Expect::Never {
            self.seats[thread].settles();
        }
        self.settle()
    }

    /// Until nothing more is expected to end.
    fn settle(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let mut expected = false;
            for thread in 0..THREADS {
                if self.seats[thread].busy.is_none() {
                    continue;
                }
                let expect = self.model.expect(thread);
                let time = match expect {
                    Expect::Now => *TIME_LIMIT,
                    Expect::OneOf => Duration::from_millis(1),
                    Expect::Never | Expect::Perhaps => Duration::ZERO,
                };
                match self.seats[thread].answer(time)? {
                    Some((op, _)) if expect == Expect::Never => {
                        return Err(format!("{op:?} of thread {thread} has ended too early"));
                    }
                    Some((op, seen)) => {
                        self.model.end(thread, &op, seen)?;
                        // Others may be expected to end by now.
                        expected = true;
                    }
                    None if expect == Expect::Now || begin.elapsed() > *TIME_LIMIT => (self.hangs)(thread),
                    None => expected |= expect == Expect::OneOf,
                }
            }
            self.model.look()?;
            if !expected {
                return Ok(());
            }
        }
    }
}

fn in_step<S: Scene, M: Model<Op = S::Op, Seen = S::Seen>>(
    scene: S,
    model: M,
    program: &[Step<S::Op>],
) -> Result<(), String> {
    let hangs = |thread| hang(&format!("in step, thread {thread}"), program);
    thread::scope(|scope| {
        let seats = (0..THREADS).map(|thread| Seat::take(scope, &scene, thread)).collect();
        Crew::<S, M> { seats, model, hangs: &hangs }.run(program)
    })?;
    caught(|| scene.close())
}

fn freely<S: Scene>(scene: S, program: &[Step<S::Op>]) -> Result<(), String> {
    let start = Barrier::new(THREADS);
    let (ended, all) = mpsc::channel();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (scene, start, ended) = (&scene, &start, ended.clone());
            scope.spawn(move || {
                let outcome = caught(|| {
                    let mut local = scene.come(thread);
                    start.wait();
                    for _ in 0..ROUNDS {
                        let own = program.iter().filter(|step| step.thread == thread);
                        own.for_each(|step| drop(scene.act(&mut local, &step.op)));
                    }
                });
                let _ = ended.send(outcome);
            });
        }
        // All of them, as they use the program.
        let outcomes: Vec<_> = (0..THREADS)
            .map(|_| all.recv_timeout(*TIME_LIMIT).unwrap_or_else(|_| hang("free", program)))
            .collect();
        outcomes.into_iter().collect::<Result<(), _>>()
    })?;
    caught(|| scene.close())
}

/// A program that hangs cannot be ended, so neither can it be made smaller.
fn hang<O: Debug>(how: &str, program: &[Step<O>]) -> ! {
    // Not `eprintln!`, whose output is kept for a test that ends.
    let limit = *TIME_LIMIT;
    let _ = writeln!(io::stderr(), "\n{how}: this has not ended after {limit:?}: {program:#?}");
    process::exit(101);
}

fn programs<O: Debug>(op: impl Strategy<Value = O>) -> impl Strategy<Value = Vec<Step<O>>> {
    vec((0..THREADS, op).prop_map(|(thread, op)| Step { thread, op }), 1..MOST)
}

/// What [`check`] does with a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    InStep,
    Freely,
}

/// Runs random programs of such `op`s, both ways; `make` says where, and what is right. The smallest program found that fails.
pub fn check<S: Scene, M: Model<Op = S::Op, Seen = S::Seen>>(
    hows: &[How],
    op: impl Strategy<Value = S::Op>,
    make: impl Fn(How) -> (S, M),
) -> Result<(), String> {
    let number = |name| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let asked = number("PROPTEST_CASES");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let seed = number("PROPTEST_RNG_SEED").unwrap_or(since.as_nanos() as u64);
    let mut runner = TestRunner::new(Config {
        cases: asked.map_or(CASES, |cases| cases as u32),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2000,
        max_shrink_time: 20_000,
        ..Config::default()
    });
    let (begin, failed) = (Instant::now(), Cell::new(false));
    let outcome = runner.run(&programs(op), |program| {
        if asked.is_none() && begin.elapsed() > LASTS && !failed.get() {
            return Ok(());
        }
        for &how in hows {
            let (scene, model) = make(how);
            let outcome = match how {
                How::InStep => in_step(scene, model, &program),
                How::Freely => freely(scene, &program),
            };
            outcome.map_err(|why| {
                failed.set(true);
                TestCaseError::fail(format!("{how:?}: {why}"))
            })?;
        }
        Ok(())
    });
    outcome.map_err(|failure| format!("{failure}\nPROPTEST_RNG_SEED={seed}"))
}

/// [`check`]s, and expects nothing to be wrong.
pub fn holds<S: Scene, M: Model<Op = S::Op, Seen = S::Seen>>(
    op: impl Strategy<Value = S::Op>,
    make: impl Fn(How) -> (S, M),
) {
    if let Err(failure) = check(&[How::InStep, How::Freely], op, make) {
        panic!("{failure}");
    }
}

/// [`check`]s something broken, in step, and expects that to be found: with some of these words, in a program of so many
/// steps. That may take a few attempts, as a step that should wait and does not is now and then taken for one that does.
pub fn is_found<S: Scene, M: Model<Op = S::Op, Seen = S::Seen>, O: Strategy<Value = S::Op>>(
    words: &[&str],
    steps: usize,
    ops: impl Fn() -> O,
    make: impl Fn(How) -> (S, M),
) {
    let mut failures = (0..ATTEMPTS).map(|_| {
        let Err(failure) = check(&[How::InStep], ops(), &make) else {
            panic!("nothing is found to be wrong")
        };
        failure
    });
    let small = |failure: &String| {
        words.iter().any(|words| failure.contains(words)) && failure.matches("thread: ").count() <= steps
    };
    assert!(failures.any(|failure| small(&failure)), "what is found is something else, or not small");
}
