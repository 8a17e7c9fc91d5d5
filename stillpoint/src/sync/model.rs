//! The shim under loom.
//!
//! # The exact model of a process-wide fence
//!
//! `membarrier(2)` makes every running thread of the process execute a full fence at some point between the call and
//! its return, and a context switch counts as one. loom knows nothing of this, so it is acted out as an inter-processor
//! interrupt. `fence::light` is nothing. `fence::heavy` posts a request ([`interrupt_all`]), and every atomic operation
//! of a thread that runs under [`reader`] may take the interrupt just before it: it then executes a fence and
//! acknowledges. loom's scheduler and the freedom of its relaxed load decide where the interrupt lands, so every
//! program point of every reader is tried.
//!
//! The fences in the handshake are `AcqRel`. loom over-synchronizes `SeqCst` fences and does not treat them as
//! scheduling points, which hides real races; it treats `SeqCst` accesses as `AcqRel`.
//!
//! A thread that sleeps in the model's futex, or has ended, is off the processor: it counts as fenced, and the exchange
//! that says so orders it like the context switch does.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::atomic::AtomicU32 as AtomicU32Std;
use std::time::Duration;

pub use loom::cell::UnsafeCell;
use loom::sync::Condvar;
use loom::sync::atomic::{self, Ordering, Ordering::*};
pub use loom::sync::{Mutex, MutexGuard};
use loom::thread;

use super::orderings::weaken;

/// Reader threads a model may have (loom allows five threads in all).
const READERS: usize = 3;

/// Acknowledgement of a thread that is off the processor.
const OFF: u64 = u64::MAX;

/// How often algorithms spin before they sleep, set by each model.
static BUDGET: AtomicU32Std = AtomicU32Std::new(0);

/// Sets the number that [`budget`] returns.
pub fn set_budget(rounds: u32) {
    BUDGET.store(rounds, Relaxed);
}

/// The model's number, whatever the machine's is.
pub fn budget(_machine: u32) -> u32 {
    BUDGET.load(Relaxed)
}

/// The model's number, however long that is.
pub fn spin_iterations(_ns: u32) -> u32 {
    BUDGET.load(Relaxed)
}

/// Nothing: every order of threads is tried anyhow.
pub fn yield_now() {}

/// Yields to the other model threads.
pub fn spin_loop() {
    thread::yield_now();
}

struct Interrupts {
    /// Number of the newest request.
    request: atomic::AtomicU64,
    /// Newest request each reader has acknowledged; [`OFF`] while it is off the processor.
    acknowledged: [atomic::AtomicU64; READERS],
}

loom::lazy_static! {
    static ref INTERRUPTS: Interrupts = Interrupts {
        request: atomic::AtomicU64::new(0),
        acknowledged: std::array::from_fn(|_| atomic::AtomicU64::new(OFF)),
    };
}

loom::thread_local! {
    /// Index of this thread among the readers, and the newest request it has seen.
    static READER: Cell<Option<(usize, u64)>> = Cell::new(None);
}

/// An interrupt may land here. Models put it between loading a pointer and reading through it; elsewhere every atomic
/// operation does it.
pub fn poll() {
    READER.with(|cell| {
        let Some((index, seen)) = cell.get() else { return };
        let request = INTERRUPTS.request.load(Relaxed);
        if request != seen {
            cell.set(Some((index, request)));
            atomic::fence(AcqRel);
            INTERRUPTS.acknowledged[index].store(request, Relaxed);
        }
    });
}

fn switch_out(index: usize) {
    INTERRUPTS.acknowledged[index].swap(OFF, AcqRel);
}

fn switch_in(index: usize) -> u64 {
    // Acknowledges the request that it sees. Whoever found this thread off the processor did so by a read-modify-write;
    // the one below reads from it, so what that thread did before its fence is visible from here on.
    let request = INTERRUPTS.request.load(Relaxed);
    atomic::fence(AcqRel);
    INTERRUPTS.acknowledged[index].swap(request, AcqRel);
    request
}

/// Runs `body` as reader number `index`: a thread that the heavy fences of others interrupt.
pub fn reader<R>(index: usize, body: impl FnOnce() -> R) -> R {
    READER.with(|cell| cell.set(Some((index, switch_in(index)))));
    let result = body();
    READER.with(|cell| cell.set(None));
    switch_out(index);
    result
}

/// Always the same time.
pub fn now() -> u64 {
    0
}

/// Interrupts all other readers; returns when each has executed a fence. Several requests may be in flight: a reader
/// that acknowledges one acknowledges the earlier ones, as the requests are a chain of read-modify-writes.
pub fn interrupt_all() {
    let own = READER.with(|cell| cell.get().map(|(index, _)| index));
    atomic::fence(AcqRel);
    let request = INTERRUPTS.request.fetch_add(1, Relaxed) + 1;
    for (index, acknowledged) in INTERRUPTS.acknowledged.iter().enumerate() {
        while Some(index) != own {
            match acknowledged.load(Relaxed) {
                // A read-modify-write, so that a thread that is switched in later has this one's past: see `switch_in`.
                OFF if acknowledged.compare_exchange(OFF, OFF, AcqRel, Relaxed).is_ok() => break,
                OFF => {}
                seen if seen >= request => break,
                _ => {
                    // Another thread may wait for this one.
                    poll();
                    thread::yield_now();
                }
            }
        }
    }
    atomic::fence(AcqRel);
}

/// A fence; none, if it is to be weakened.
#[track_caller]
pub fn fence(order: Ordering) {
    match weaken(order, "order") {
        Relaxed => {}
        order => atomic::fence(order),
    }
}

/// A loom atomic whose every operation is a point where an interrupt may land, and whose orderings may be weakened.
macro_rules! interruptible {
    ($name:ident $(<$t:ident>)?, $inner:ty, $value:ty,
        [$($method:ident($($arg:ident: $type:ty),*; $($order:ident),+) -> $ret:ty;)*]) => {
        #[derive(Debug)]
        pub struct $name $(<$t>)? ($inner);

        impl $(<$t>)? $name $(<$t>)? {
            #[track_caller]
            pub fn new(value: $value) -> Self {
                Self(<$inner>::new(value))
            }
            $(
                #[track_caller]
                pub fn $method(&self, $($arg: $type,)* $($order: Ordering),+) -> $ret {
                    poll();
                    self.0.$method($($arg,)* $(weaken($order, stringify!($order))),+)
                }
            )*
        }
    };
}

interruptible!(AtomicU64, atomic::AtomicU64, u64, [
    load(; order) -> u64;
    store(value: u64; order) -> ();
    fetch_add(value: u64; order) -> u64;
    fetch_sub(value: u64; order) -> u64;
    fetch_or(value: u64; order) -> u64;
    swap(value: u64; order) -> u64;
    compare_exchange(old: u64, new: u64; success, failure) -> Result<u64, u64>;
]);
interruptible!(AtomicU32, atomic::AtomicU32, u32, [
    load(; order) -> u32;
    store(value: u32; order) -> ();
    swap(value: u32; order) -> u32;
    fetch_add(value: u32; order) -> u32;
    fetch_sub(value: u32; order) -> u32;
    fetch_or(value: u32; order) -> u32;
    fetch_and(value: u32; order) -> u32;
    compare_exchange(old: u32, new: u32; success, failure) -> Result<u32, u32>;
]);
interruptible!(AtomicUsize, atomic::AtomicUsize, usize, [
    load(; order) -> usize;
    compare_exchange(old: usize, new: usize; success, failure) -> Result<usize, usize>;
]);
interruptible!(AtomicPtr<T>, atomic::AtomicPtr<T>, *mut T, [
    load(; order) -> *mut T;
    store(value: *mut T; order) -> ();
    swap(value: *mut T; order) -> *mut T;
    compare_exchange(old: *mut T, new: *mut T; success, failure) -> Result<*mut T, *mut T>;
]);

/// CPUs that a model has.
pub(crate) const CPUS: usize = 2;

loom::thread_local! {
    /// The CPU that this thread is on.
    static CPU: Cell<usize> = Cell::new(0);
}

/// Moves the calling thread to a CPU.
pub fn run_on(cpu: usize) {
    CPU.with(|cell| cell.set(cpu));
}

/// The CPU that the calling thread is on.
pub(crate) fn current_cpu() -> usize {
    CPU.with(Cell::get)
}

/// A futex word: the kernel's queue is a list under a mutex, like the bucket lock of `futex(2)`.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU64,
    /// Ticket and mask of every sleeper, in order of arrival; the next ticket.
    sleepers: Mutex<(Vec<(u64, u32)>, u64)>,
    woken: Condvar,
}

impl Futex {
    pub fn new(value: u64) -> Self {
        Self { word: AtomicU64::new(value), sleepers: Mutex::new((Vec::new(), 0)), woken: Condvar::new() }
    }

    pub fn wait(&self, expected: u64, mask: NonZeroU32) {
        let mut sleepers = self.sleepers.lock().unwrap();
        // The kernel compares the low half.
        if self.word.load(Relaxed) as u32 != expected as u32 {
            return;
        }
        let ticket = sleepers.1;
        sleepers.1 += 1;
        sleepers.0.push((ticket, mask.get()));
        let own = READER.with(|cell| cell.get().map(|(index, _)| index));
        own.map(switch_out);
        while sleepers.0.iter().any(|&(t, _)| t == ticket) {
            sleepers = self.woken.wait(sleepers).unwrap();
        }
        if let Some(index) = own {
            READER.with(|cell| cell.set(Some((index, switch_in(index)))));
        }
    }

    /// [`wait`](Self::wait): the time never comes, so that a model which needs it to come is found to hang.
    pub fn wait_timeout(&self, expected: u64, mask: NonZeroU32, _timeout: Duration) {
        self.wait(expected, mask);
    }

    pub fn wake(&self, count: u32, mask: NonZeroU32) {
        let mut sleepers = self.sleepers.lock().unwrap();
        let mut left = count;
        sleepers.0.retain(|&(_, m)| {
            let hit = left > 0 && m & mask.get() != 0;
            left -= u32::from(hit);
            !hit
        });
        self.woken.notify_all();
    }
}

impl Deref for Futex {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.word
    }
}

/// A futex word of 32 bits: as [`Futex`], with sleepers that need no masks.
#[derive(Debug)]
pub struct Futex32 {
    word: AtomicU32,
    /// Ticket of every sleeper, in order of arrival; the next ticket.
    sleepers: Mutex<(Vec<u64>, u64)>,
    woken: Condvar,
}

impl Futex32 {
    pub fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value), sleepers: Mutex::new((Vec::new(), 0)), woken: Condvar::new() }
    }

    /// A sleep with an end is over at once: that is a moment like any other, as threads stop anywhere.
    pub fn wait(&self, expected: u32, until: Option<u64>) -> bool {
        let mut sleepers = self.sleepers.lock().unwrap();
        if self.word.load(Relaxed) != expected {
            return false;
        }
        if until.is_some() {
            drop(sleepers);
            thread::yield_now();
            return true;
        }
        let ticket = sleepers.1;
        sleepers.1 += 1;
        sleepers.0.push(ticket);
        while sleepers.0.contains(&ticket) {
            sleepers = self.woken.wait(sleepers).unwrap();
        }
        false
    }

    pub fn wake(&self, count: u32) -> usize {
        let mut sleepers = self.sleepers.lock().unwrap();
        let woken = sleepers.0.len().min(count as usize);
        sleepers.0.drain(..woken);
        self.woken.notify_all();
        woken
    }
}

impl Deref for Futex32 {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

/// Stands for memory, of which loom checks the accesses.
#[derive(Debug)]
pub struct LoomAccess(UnsafeCell<()>);

impl LoomAccess {
    #[track_caller]
    pub fn new() -> Self {
        Self(UnsafeCell::new(()))
    }

    #[track_caller]
    pub fn shared(&self) {
        self.0.with(|_| ());
    }

    #[track_caller]
    pub fn exclusive(&self) {
        self.0.with_mut(|_| ());
    }
}

// SAFETY: loom checks every use; there is nothing in it.
unsafe impl Sync for LoomAccess {}
// SAFETY: as above.
unsafe impl Send for LoomAccess {}
