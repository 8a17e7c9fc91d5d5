//! Programs whose threads wait for each other by condition variables.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::Program;
use super::locks::Locks;
use crate::bench::lock::load::Work;

/// Items that fit into a queue.
const ROOM: usize = 128;
/// Connections of a pool, how long a thread waits for one, and the nanoseconds for which it is used.
const CONNECTIONS: usize = 4;
const PATIENCE: Duration = Duration::from_millis(20);
const USE_NS: u32 = 2000;
/// Nanoseconds of work for a message, and for a line of a log.
const MESSAGE_NS: u32 = 200;
const LINE_NS: u32 = 500;
/// Bytes of a line, and those in a buffer that is written out.
const LINE: usize = 64;
const FULL: usize = 4096;

/// A queue with room for [`ROOM`] items, under one mutex, with a condition variable for each side.
pub(super) struct Queue<L: Locks> {
    /// The items, whether the program is over, and how many items were put.
    state: L::Mutex<(VecDeque<u64>, bool, u64)>,
    filled: L::Condvar,
    room: L::Condvar,
}

impl<L: Locks> Queue<L> {
    fn new() -> Self {
        let state = L::mutex((VecDeque::new(), false, 0));
        Self { state, filled: L::Condvar::default(), room: L::Condvar::default() }
    }

    fn put(&self, item: u64) -> u64 {
        let mut state = L::lock(&self.state);
        while state.0.len() >= ROOM && !state.1 {
            state = L::wait(&self.room, state);
        }
        if !state.1 {
            state.0.push_back(item);
            state.2 += 1;
        }
        drop(state);
        L::notify_one(&self.filled);
        0
    }

    /// Returns the number of items that were taken.
    fn take(&self) -> u64 {
        let mut state = L::lock(&self.state);
        while state.0.is_empty() && !state.1 {
            state = L::wait(&self.filled, state);
        }
        let taken = u64::from(state.0.pop_front().is_some());
        drop(state);
        L::notify_one(&self.room);
        taken
    }

    fn close(&self) {
        L::lock(&self.state).1 = true;
        L::notify_all(&self.filled);
        L::notify_all(&self.room);
    }

    fn check(&self, taken: u64) -> bool {
        let state = L::lock(&self.state);
        state.2 == taken + state.0.len() as u64
    }
}

/// Threads that produce and threads that consume: as many of each ([`HALF`]), or `CONSUMERS`. Counts the items that
/// are taken.
pub(super) struct Passing<L: Locks, const CONSUMERS: usize>(Queue<L>);

/// As many as producers.
pub(super) const HALF: usize = 0;

impl<L: Locks, const CONSUMERS: usize> Program for Passing<L, CONSUMERS> {
    const LEAST_THREADS: usize = 2;

    fn new(_: usize, _: Work) -> Self {
        Self(Queue::new())
    }

    fn step(&self, thread: usize, random: &mut Rng) -> u64 {
        let takes = if CONSUMERS == HALF { thread % 2 == 1 } else { thread < CONSUMERS };
        if takes { self.0.take() } else { self.0.put(random.u64(..)) }
    }

    fn close(&self) {
        self.0.close();
    }

    fn check(&self, operations: u64) -> bool {
        self.0.check(operations)
    }
}

/// A pool of connections: threads wait for one with a time limit, and use it. Counts the uses.
pub(super) struct Pool<L: Locks> {
    free: L::Mutex<Vec<usize>>,
    returned: L::Condvar,
    work: Work,
}

impl<L: Locks> Program for Pool<L> {
    fn new(_: usize, work: Work) -> Self {
        Self { free: L::mutex((0..CONNECTIONS).collect()), returned: L::Condvar::default(), work }
    }

    fn step(&self, _: usize, _: &mut Rng) -> u64 {
        let end = Instant::now() + PATIENCE;
        let mut free = L::lock(&self.free);
        let connection = loop {
            if let Some(connection) = free.pop() {
                break connection;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return 0;
            }
            free = L::wait_for(&self.returned, free, left);
        };
        drop(free);
        self.work.run(USE_NS, connection as u64);
        L::lock(&self.free).push(connection);
        L::notify_one(&self.returned);
        1
    }

    fn check(&self, _: u64) -> bool {
        let mut free = L::lock(&self.free);
        free.sort_unstable();
        free.iter().copied().eq(0..CONNECTIONS)
    }
}

/// Messages, and whether the program is over.
struct Mailbox<L: Locks> {
    state: L::Mutex<(VecDeque<u64>, bool)>,
    sent: L::Condvar,
}

/// A mailbox for each thread, which works on a message and sends it on. Counts the messages.
pub(super) struct Actors<L: Locks> {
    mailboxes: Vec<Mailbox<L>>,
    work: Work,
}

impl<L: Locks> Program for Actors<L> {
    fn new(threads: usize, work: Work) -> Self {
        let mailbox =
            |_| Mailbox { state: L::mutex((VecDeque::from([1, 2]), false)), sent: L::Condvar::default() };
        Self { mailboxes: (0..threads).map(mailbox).collect(), work }
    }

    fn step(&self, thread: usize, random: &mut Rng) -> u64 {
        let mailbox = &self.mailboxes[thread];
        let mut state = L::lock(&mailbox.state);
        let message = loop {
            if let Some(message) = state.0.pop_front() {
                break message;
            }
            if state.1 {
                return 0;
            }
            state = L::wait(&mailbox.sent, state);
        };
        drop(state);
        let message = self.work.run(MESSAGE_NS, message);
        let mailbox = &self.mailboxes[random.usize(..self.mailboxes.len())];
        L::lock(&mailbox.state).0.push_back(message);
        L::notify_one(&mailbox.sent);
        1
    }

    fn close(&self) {
        for mailbox in &self.mailboxes {
            L::lock(&mailbox.state).1 = true;
            L::notify_all(&mailbox.sent);
        }
    }

    fn check(&self, _: u64) -> bool {
        let messages: usize = self.mailboxes.iter().map(|mailbox| L::lock(&mailbox.state).0.len()).sum();
        messages == 2 * self.mailboxes.len()
    }
}

/// A log: the first thread writes out what the others have appended to a buffer. Counts the lines that it writes.
pub(super) struct Log<L: Locks> {
    /// The lines, whether the program is over, and the bytes that were appended.
    buffer: L::Mutex<(Vec<u8>, bool, usize)>,
    full: L::Condvar,
    work: Work,
}

impl<L: Locks> Program for Log<L> {
    const LEAST_THREADS: usize = 2;

    fn new(_: usize, work: Work) -> Self {
        Self { buffer: L::mutex((Vec::new(), false, 0)), full: L::Condvar::default(), work }
    }

    fn step(&self, thread: usize, _: &mut Rng) -> u64 {
        if thread == 0 {
            let mut buffer = L::lock(&self.buffer);
            while buffer.0.len() < FULL && !buffer.1 {
                buffer = L::wait(&self.full, buffer);
            }
            let lines = mem::take(&mut buffer.0);
            drop(buffer);
            self.work.run(lines.len() as u32, 1);
            return (lines.len() / LINE) as u64;
        }
        let byte = self.work.run(LINE_NS, thread as u64) as u8;
        let mut buffer = L::lock(&self.buffer);
        buffer.0.extend_from_slice(&[byte; LINE]);
        buffer.2 += LINE;
        let is_full = buffer.0.len() >= FULL;
        drop(buffer);
        if is_full {
            L::notify_one(&self.full);
        }
        0
    }

    fn close(&self) {
        L::lock(&self.buffer).1 = true;
        L::notify_all(&self.full);
    }

    fn check(&self, lines: u64) -> bool {
        let buffer = L::lock(&self.buffer);
        buffer.2 == lines as usize * LINE + buffer.0.len()
    }
}
