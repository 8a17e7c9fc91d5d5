//! Random programs of per-CPU containers: in each mode sums are exact, and objects have one owner.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

use crate::program::{Expect, How, Model, System, holds, is_found};
use proptest::prelude::*;
use stillpoint::percpu::{Counter, Histogram, Pool};
use support::variants::in_each_variant;

/// Capacity of the pool.
const CAPACITY: usize = 4;
/// The most boxes that a thread keeps.
const MAX_HELD: usize = 64;

#[derive(Debug, Clone)]
enum Op {
    Add(i32),
    Sum,
    Record(u64),
    Snapshot,
    /// Pushes a box to the pool: a new one, or one that was popped.
    Push,
    PushMany(usize),
    Pop,
    PopMany(usize),
    Len,
}

fn ops() -> impl Strategy<Value = Op> {
    use Op::*;
    prop_oneof![
        3 => any::<i32>().prop_map(Add),
        1 => Just(Sum),
        3 => prop_oneof![0..40_u64, any::<u64>()].prop_map(Record),
        1 => Just(Snapshot),
        4 => Just(Push),
        2 => (0..MAX_HELD / 2).prop_map(PushMany),
        4 => Just(Pop),
        2 => (0..MAX_HELD / 2).prop_map(PopMany),
        1 => Just(Len),
    ]
}

/// How a container is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// Some adds are lost.
    Counter,
    /// Large values are recorded as smaller ones.
    Histogram,
    /// One thread's boxes are dropped instead of being stored.
    Pool,
}

/// A box that detects two owners.
#[derive(Debug)]
struct Token {
    number: usize,
    drops: Arc<AtomicUsize>,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Relaxed);
    }
}

struct Containers {
    counter: Counter<i64>,
    histogram: Histogram,
    pool: Pool<Token>,
    /// The sum of all adds.
    sum: AtomicI64,
    recorded: AtomicU64,
    tokens: AtomicUsize,
    drops: Arc<AtomicUsize>,
    /// Numbers of the boxes in the pool.
    pooled: Mutex<BTreeSet<usize>>,
    broken: Option<Broken>,
}

impl Containers {
    fn new(broken: Option<Broken>) -> Self {
        Self {
            counter: Counter::new(),
            histogram: Histogram::new(),
            pool: Pool::new(CAPACITY),
            sum: AtomicI64::new(0),
            recorded: AtomicU64::new(0),
            tokens: AtomicUsize::new(0),
            drops: Arc::default(),
            pooled: Mutex::default(),
            broken,
        }
    }

    fn push(&self, token: Box<Token>) -> Result<(), Box<Token>> {
        let number = token.number;
        // First, as another thread may pop it at once.
        assert!(self.pooled().insert(number), "box {number} is in the pool already");
        self.pool.push(token).inspect_err(|_| {
            self.pooled().remove(&number);
        })
    }

    fn popped(&self, token: &Token) {
        assert!(self.pooled().remove(&token.number), "box {} has two owners", token.number);
    }

    fn pooled(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        self.pooled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The boxes of a thread.
struct HeldBoxes {
    thread: usize,
    #[allow(clippy::vec_box, reason = "boxes are what a pool takes and gives")]
    tokens: Vec<Box<Token>>,
}

/// What an operation returned.
#[derive(Debug)]
enum Seen {
    Nothing,
    Sum(i64),
    /// Lowest value, highest value and count of each bucket, and the sum of the values.
    Snapshot(Vec<(u64, u64, u64)>, u64),
    /// The number of boxes that were pushed or popped, and whether these were all.
    Moved(usize, bool),
    Len(usize),
}

impl System for Containers {
    type Op = Op;
    type Seen = Seen;
    type Local<'a> = HeldBoxes;

    fn start_thread(&self, thread: usize) -> HeldBoxes {
        HeldBoxes { thread, tokens: Vec::new() }
    }

    fn run_step(&self, held: &mut HeldBoxes, op: &Op) -> Seen {
        match *op {
            Op::Add(by) => {
                self.sum.fetch_add(by.into(), Relaxed);
                if self.broken != Some(Broken::Counter) || by % 4 != 1 {
                    self.counter.add(by.into());
                }
            }
            Op::Sum => return Seen::Sum(self.counter.get()),
            Op::Record(value) => {
                self.recorded.fetch_add(1, Relaxed);
                let wrong = self.broken == Some(Broken::Histogram) && value > 1000;
                self.histogram.record(if wrong { value / 2 } else { value });
            }
            Op::Snapshot => {
                let before = self.histogram.snapshot();
                let after = self.histogram.snapshot();
                assert!(before.count() <= after.count(), "a count has decreased");
                return Seen::Snapshot(after.buckets().collect(), after.sum());
            }
            Op::Push => {
                let token = held.tokens.pop().unwrap_or_else(|| self.token());
                let lost = self.broken == Some(Broken::Pool) && held.thread == 2;
                let kept = if lost { Ok(()) } else { self.push(token) };
                let done = kept.is_ok();
                held.tokens.extend(kept.err());
                return Seen::Moved(done.into(), done);
            }
            Op::PushMany(count) => {
                while held.tokens.len() < count {
                    held.tokens.push(self.token());
                }
                let some = held.tokens.split_off(held.tokens.len() - count);
                let refused: Vec<_> = some.into_iter().filter_map(|token| self.push(token).err()).collect();
                let (moved, all) = (count - refused.len(), refused.is_empty());
                held.tokens.extend(refused);
                return Seen::Moved(moved, all);
            }
            Op::Pop => {
                let token = self.pool.pop();
                token.iter().for_each(|token| self.popped(token));
                let moved = token.iter().count();
                held.keep(token);
                return Seen::Moved(moved, moved == 1);
            }
            Op::PopMany(most) => {
                let pop = || self.pool.pop().inspect(|token| self.popped(token));
                let some: Vec<_> = std::iter::from_fn(pop).take(most).collect();
                let count = some.len();
                held.keep(some);
                return Seen::Moved(count, count == most);
            }
            Op::Len => return Seen::Len(self.pool.len()),
        }
        Seen::Nothing
    }

    fn finish(self) {
        assert_eq!(self.counter.get(), self.sum.load(Relaxed), "the sum of what was added");
        assert_eq!(self.histogram.snapshot().count(), self.recorded.load(Relaxed), "values recorded");
        let pooled = self.pooled().len();
        assert_eq!(self.pool.len(), pooled, "boxes in the pool");
        let popped = std::iter::from_fn(|| self.pool.pop()).inspect(|token| self.popped(token)).count();
        assert_eq!(popped, pooled, "boxes that come out of the pool");
        let (drops, made) = (self.drops.load(Relaxed), self.tokens.load(Relaxed));
        assert_eq!(drops, made, "boxes dropped, and made");
    }
}

impl Containers {
    fn token(&self) -> Box<Token> {
        Box::new(Token { number: self.tokens.fetch_add(1, Relaxed), drops: self.drops.clone() })
    }
}

impl HeldBoxes {
    /// Keeps at most [`MAX_HELD`] boxes, and drops others.
    fn keep(&mut self, tokens: impl IntoIterator<Item = Box<Token>>) {
        self.tokens.extend(tokens);
        self.tokens.truncate(MAX_HELD);
    }
}

/// What the containers must contain.
#[derive(Debug, Default)]
struct ContainerModel {
    sum: i64,
    recorded: Vec<u64>,
    pooled: usize,
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, right: T) -> Result<(), String> {
    if seen == right { Ok(()) } else { Err(format!("{what}: {seen:?}, not {right:?}")) }
}

impl Model for ContainerModel {
    type Op = Op;
    type Seen = Seen;

    fn begin(&mut self, _thread: usize, _op: &Op) -> bool {
        true
    }

    fn expect(&self, _thread: usize) -> Expect {
        Expect::Now
    }

    fn end(&mut self, _thread: usize, op: &Op, seen: Seen) -> Result<(), String> {
        match (op, seen) {
            (Op::Add(by), _) => self.sum += i64::from(*by),
            (Op::Record(value), _) => self.recorded.push(*value),
            (Op::Sum, Seen::Sum(sum)) => same("the sum", sum, self.sum)?,
            (Op::Snapshot, Seen::Snapshot(buckets, sum)) => {
                let total: u64 = buckets.iter().map(|bucket| bucket.2).sum();
                same("values counted", total, self.recorded.len() as u64)?;
                for (low, high, count) in buckets {
                    let right = self.recorded.iter().filter(|value| (low..=high).contains(value)).count();
                    same("values in a bucket", count, right as u64)?;
                }
                let right = self.recorded.iter().fold(0_u64, |sum, value| sum.wrapping_add(*value));
                same("the sum of the values", sum, right)?;
            }
            (Op::Push | Op::PushMany(_), Seen::Moved(count, all)) => {
                self.pooled += count;
                if !all && self.pooled < CAPACITY {
                    return Err("a box is refused although there is room".into());
                }
            }
            (Op::Pop | Op::PopMany(_), Seen::Moved(count, all)) => {
                if !all && count != self.pooled {
                    return Err(format!("{count} of {} boxes in the pool are found", self.pooled));
                }
                self.pooled -= count;
            }
            (Op::Len, Seen::Len(len)) => same("boxes in the pool", len, self.pooled)?,
            (op, seen) => return Err(format!("{seen:?} after {op:?}")),
        }
        Ok(())
    }

    fn last(&self, _thread: usize) -> Option<Op> {
        None
    }
}

#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    let broken = crate::program::is_broken().then_some(Broken::Counter);
    crate::program::fuzz(data, ops(), |_| (Containers::new(broken), ContainerModel::default()));
}

#[test]
fn programs_of_containers_match_the_model() {
    if in_each_variant(programs_of_containers_match_the_model) {
        holds(ops(), |_| (Containers::new(None), ContainerModel::default()));
    }
}

#[test]
fn broken_containers_are_found() {
    for (broken, words) in
        [(Broken::Counter, "the sum"), (Broken::Histogram, "values in a bucket"), (Broken::Pool, "boxes")]
    {
        let make = |_: How| (Containers::new(Some(broken)), ContainerModel::default());
        is_found(&[words], 8, ops, make);
    }
}
