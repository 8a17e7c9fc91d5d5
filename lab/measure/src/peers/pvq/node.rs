//! Queue nodes: a static table, with a node for each thread that has waited.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;
use rustix::thread::futex;

/// The owner runs, or is about to.
pub(super) const RUNNING: u32 = 0;
/// The owner has halted behind the head.
pub(super) const HALTED: u32 = 1;
/// The node is the head and in the hash table, and its owner has halted.
pub(super) const HASHED: u32 = 2;
/// The node is in the hash table, and its owner spins after a wake-up that was not a kick.
pub(super) const HASHED_SPINNING: u32 = 3;

/// Nodes, of which the first is not used.
pub(super) const NODES: usize = 4096;

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    /// A futex.
    pub(super) state: AtomicU32,
    /// 1 if the node is the head.
    pub(super) locked: AtomicU32,
    /// The number of the next node, or 0.
    pub(super) next: AtomicU32,
    /// When a thread began to kick the owner, if kicks are timed; 0 before.
    pub(super) kicked_at: AtomicU64,
    /// How often the owner got its turn while it spun, less how often it halted, of late: 0 to [`LONG_HISTORY`].
    history: AtomicU32,
}

const LONG_HISTORY: u32 = 16;

static TABLE: [CachePadded<Node>; NODES] = [const {
    CachePadded::new(Node {
        state: AtomicU32::new(RUNNING),
        locked: AtomicU32::new(0),
        next: AtomicU32::new(0),
        kicked_at: AtomicU64::new(0),
        history: AtomicU32::new(LONG_HISTORY),
    })
}; NODES];

/// Returns the node with this number.
#[inline]
pub(super) fn get(id: u32) -> &'static Node {
    &TABLE[id as usize]
}

impl Node {
    /// Prepares the node, which is in no queue, for the next wait.
    pub(super) fn reset(&self) {
        // Relaxed, all: published by the exchange of the tail.
        self.state.store(RUNNING, Relaxed);
        self.locked.store(0, Relaxed);
        self.next.store(0, Relaxed);
        self.kicked_at.store(0, Relaxed);
    }

    /// Returns how long the owner spins: a sixteenth if it halted in most of its last waits.
    pub(super) fn patience(&self, threshold: u32) -> u32 {
        // Relaxed, here and below: only the owner uses it.
        if self.history.load(Relaxed) < LONG_HISTORY / 2 { threshold / 16 } else { threshold }
    }

    /// Remembers how a wait went.
    pub(super) fn remember(&self, got_its_turn: bool) {
        let history = self.history.load(Relaxed);
        let history = if got_its_turn { (history + 1).min(LONG_HISTORY) } else { history.saturating_sub(1) };
        self.history.store(history, Relaxed);
    }

    /// Parks the calling thread if the node is in `state`. May return early.
    pub(super) fn halt(&self, state: u32) {
        // A signal, or another state: the caller looks at the state again.
        let _ = futex::wait(&self.state, futex::Flags::PRIVATE, state, None);
    }

    /// Wakes the owner if it is parked.
    pub(super) fn kick(&self) {
        // Waking threads on a mapped word does not fail.
        let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
    }
}

/// The numbers that are free: those of exited threads, and those from `unused` on.
struct Free {
    returned: Vec<u32>,
    unused: u32,
}

/// The threads that have a node: the virtual CPUs.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Returns how many threads there are that have waited.
pub(super) fn threads() -> usize {
    THREADS.load(Relaxed)
}

static FREE: Mutex<Free> = Mutex::new(Free { returned: Vec::new(), unused: 1 });

/// A number that is free again when its thread exits.
struct Own(u32);

impl Own {
    fn new() -> Self {
        THREADS.fetch_add(1, Relaxed);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        Self(free.returned.pop().unwrap_or_else(|| {
            assert!((free.unused as usize) < NODES, "at most {} threads can wait", NODES - 1);
            free.unused += 1;
            free.unused - 1
        }))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Relaxed);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).returned.push(self.0);
    }
}

thread_local! {
    static OWN: Own = Own::new();
}

/// Calls `f` with the number of the calling thread's node.
pub(super) fn with_own<R>(f: impl FnOnce(u32) -> R) -> R {
    OWN.with(|own| f(own.0))
}
