//! A program of several locks of each kind.

use std::collections::VecDeque;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use fastrand::Rng;

use super::Program;
use super::locks::Locks;
use super::shared::Transfers;
use crate::bench::lock::load::Work;

/// Nanoseconds of work under a lock, and between two things that a thread does.
const LOCKED_NS: u32 = 100;
const PAUSE_NS: u32 = 1000;
/// How long a thread waits for the queue, at most: all others may wait, too.
const PATIENCE: Duration = Duration::from_millis(1);

/// Numbers, and how many were appended and taken.
#[derive(Default)]
struct Queue {
    numbers: VecDeque<u64>,
    appended: usize,
    taken: usize,
}

/// Threads move money between accounts, look a number up in a cache or change it, append to a queue, or take from it,
/// and wait if it is empty.
pub(super) struct Bank<L: Locks> {
    transfers: Transfers<L>,
    cached: CachePadded<L::RwLock<u64>>,
    queue: CachePadded<L::Mutex<Queue>>,
    filled: L::Condvar,
    work: Work,
}

impl<L: Locks> Bank<L> {
    fn append(&self, number: u64) {
        let mut queue = L::lock(&self.queue);
        queue.numbers.push_back(self.work.run(LOCKED_NS, number));
        queue.appended += 1;
        drop(queue);
        L::notify_one(&self.filled);
    }

    fn take(&self) {
        let mut queue = L::lock(&self.queue);
        if queue.numbers.is_empty() {
            queue = L::wait_for(&self.filled, queue, PATIENCE);
        }
        let number = queue.numbers.pop_front();
        queue.taken += usize::from(number.is_some());
        self.work.run(LOCKED_NS, number.unwrap_or_default());
    }
}

impl<L: Locks> Program for Bank<L> {
    fn new(threads: usize, work: Work) -> Self {
        Self {
            transfers: Transfers::new(threads, work),
            cached: CachePadded::new(L::rw_lock(0)),
            queue: CachePadded::new(L::mutex(Queue::default())),
            filled: L::Condvar::default(),
            work,
        }
    }

    fn step(&self, _: usize, random: &mut Rng) -> u64 {
        match random.u32(..100) {
            0..40 => self.transfers.transfer(random),
            40..78 => L::read(&self.cached, |number| _ = self.work.run(LOCKED_NS, *number)),
            78..80 => L::write(&self.cached, |number| *number = self.work.run(LOCKED_NS, *number)),
            80..90 => self.append(random.u64(..)),
            _ => self.take(),
        }
        self.work.run(PAUSE_NS, 1);
        1
    }

    fn check(&self, operations: u64) -> bool {
        let queue = L::lock(&self.queue);
        queue.appended == queue.taken + queue.numbers.len() && self.transfers.check(operations)
    }
}
