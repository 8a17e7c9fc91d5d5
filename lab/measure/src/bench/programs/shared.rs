//! Programs whose threads share data under locks, and wait for nothing else.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use fastrand::Rng;

use super::Program;
use super::locks::Locks;
use crate::bench::lock::load::Work;

const ACCOUNTS: usize = 64;
/// Nanoseconds of work under a lock, and between two locks.
const LOCKED_NS: u32 = 100;
const PAUSE_NS: u32 = 300;
/// Mutexes that are tried, and for how long.
const SEATS: usize = 4;
const PATIENCE: Duration = Duration::from_micros(100);
/// Keys that are looked up, the values that a table keeps, and the nanoseconds that one takes to compute.
const KEYS: f32 = 4000.0;
const KEPT: usize = 2000;
const COMPUTED_NS: u32 = 1000;
/// Tasks of a thread at first.
const TASKS: u64 = 16;

/// Moves money between two of [`ACCOUNTS`] accounts, each under a mutex of its own.
pub(super) struct Transfers<L: Locks> {
    accounts: Vec<CachePadded<L::Mutex<i64>>>,
    work: Work,
}

impl<L: Locks> Transfers<L> {
    pub(super) fn transfer(&self, random: &mut Rng) {
        let (a, b) = (random.usize(..ACCOUNTS), random.usize(..ACCOUNTS - 1));
        // Two accounts, in the order of their numbers.
        let (a, b) = if b < a { (b, a) } else { (a, b + 1) };
        let mut from = L::lock(&self.accounts[a]);
        let mut to = L::lock(&self.accounts[b]);
        *from -= 1;
        *to += 1;
        self.work.run(LOCKED_NS, *to as u64);
    }
}

impl<L: Locks> Program for Transfers<L> {
    fn new(_: usize, work: Work) -> Self {
        Self { accounts: (0..ACCOUNTS).map(|_| CachePadded::new(L::mutex(0))).collect(), work }
    }

    fn step(&self, _: usize, random: &mut Rng) -> u64 {
        self.transfer(random);
        self.work.run(PAUSE_NS, 1);
        1
    }

    fn check(&self, _: u64) -> bool {
        self.accounts.iter().map(|account| *L::lock(account)).sum::<i64>() == 0
    }
}

/// Tries to take one of [`SEATS`] mutexes with a time limit. Counts the successes.
pub(super) struct Attempts<L: Locks> {
    /// How often each was taken, and a value.
    seats: Vec<CachePadded<L::Mutex<(u64, u64)>>>,
    work: Work,
}

impl<L: Locks> Program for Attempts<L> {
    fn new(_: usize, work: Work) -> Self {
        Self { seats: (0..SEATS).map(|_| CachePadded::new(L::mutex((0, 0)))).collect(), work }
    }

    fn step(&self, _: usize, random: &mut Rng) -> u64 {
        let seat = L::try_lock_for(&self.seats[random.usize(..SEATS)], PATIENCE);
        let taken = seat.is_some();
        if let Some(mut seat) = seat {
            *seat = (seat.0 + 1, self.work.run(LOCKED_NS, seat.1));
        }
        self.work.run(PAUSE_NS, 1);
        taken.into()
    }

    fn check(&self, operations: u64) -> bool {
        self.seats.iter().map(|seat| L::lock(seat).0).sum::<u64>() == operations
    }
}

/// A cache behind one mutex, whose entries move at each use.
pub(super) struct Cache<L: Locks> {
    /// How many, and a value.
    uses: CachePadded<L::Mutex<(u64, u64)>>,
    work: Work,
}

impl<L: Locks> Program for Cache<L> {
    fn new(_: usize, work: Work) -> Self {
        Self { uses: CachePadded::new(L::mutex((0, 0))), work }
    }

    fn step(&self, _: usize, _: &mut Rng) -> u64 {
        let mut uses = L::lock(&self.uses);
        *uses = (uses.0 + 1, self.work.run(LOCKED_NS, uses.1));
        drop(uses);
        self.work.run(LOCKED_NS, 1);
        1
    }

    fn check(&self, operations: u64) -> bool {
        L::lock(&self.uses).0 == operations
    }
}

/// A value behind a reader-writer lock, of whose accesses `WRITES` per cent change it.
pub(super) struct ReadMostly<L: Locks, const WRITES: u32> {
    /// A value, and how many writes have begun and ended.
    value: L::RwLock<(u64, u64, u64)>,
    work: Work,
}

impl<L: Locks, const WRITES: u32> Program for ReadMostly<L, WRITES> {
    fn new(_: usize, work: Work) -> Self {
        Self { value: L::rw_lock((0, 0, 0)), work }
    }

    fn step(&self, _: usize, random: &mut Rng) -> u64 {
        if random.u32(..100) < WRITES {
            L::write(&self.value, |value| {
                value.1 += 1;
                value.0 = self.work.run(LOCKED_NS, value.0);
                value.2 += 1;
            });
        } else {
            L::read(&self.value, |value| {
                self.work.run(LOCKED_NS, value.0);
                assert_eq!(value.1, value.2, "a write beside a read");
            });
        }
        self.work.run(PAUSE_NS, 1);
        1
    }

    fn check(&self, _: u64) -> bool {
        L::read(&self.value, |value| value.1 == value.2)
    }
}

/// A table of computed values behind a reader-writer lock.
pub(super) struct Memo<L: Locks> {
    values: L::RwLock<HashMap<u32, u64>>,
    work: Work,
}

impl<L: Locks> Program for Memo<L> {
    fn new(_: usize, work: Work) -> Self {
        Self { values: L::rw_lock(HashMap::new()), work }
    }

    fn step(&self, _: usize, random: &mut Rng) -> u64 {
        let key = (random.f32() * random.f32() * KEYS) as u32;
        if L::read(&self.values, |values| !values.contains_key(&key)) {
            let value = self.work.run(COMPUTED_NS, key.into());
            L::write(&self.values, |values| {
                if values.len() >= KEPT {
                    values.clear();
                }
                values.insert(key, value);
            });
        }
        self.work.run(PAUSE_NS, 1);
        1
    }

    fn check(&self, _: u64) -> bool {
        L::read(&self.values, |values| values.iter().count() == values.len() && values.len() <= KEPT)
    }
}

/// A queue of tasks for each thread, under a mutex. A thread without tasks steals; a quarter of the tasks that are
/// made are for the first thread.
pub(super) struct Stealing<L: Locks> {
    queues: Vec<CachePadded<L::Mutex<VecDeque<u64>>>>,
    work: Work,
}

impl<L: Locks> Program for Stealing<L> {
    fn new(threads: usize, work: Work) -> Self {
        let queue = |_| CachePadded::new(L::mutex((0..TASKS).collect()));
        Self { queues: (0..threads).map(queue).collect(), work }
    }

    fn step(&self, thread: usize, random: &mut Rng) -> u64 {
        let victim = random.usize(..self.queues.len());
        let own = L::lock(&self.queues[thread]).pop_back();
        let Some(task) = own.or_else(|| L::lock(&self.queues[victim]).pop_front()) else { return 0 };
        let task = self.work.run(PAUSE_NS, task);
        let to = if random.u32(..4) == 0 { 0 } else { thread };
        L::lock(&self.queues[to]).push_back(task);
        1
    }

    fn check(&self, _: u64) -> bool {
        let tasks: usize = self.queues.iter().map(|queue| L::lock(queue).len()).sum();
        tasks == self.queues.len() * TASKS as usize
    }
}
