//! The shim under loom.
//!
//! # The model of a process-wide fence
//!
//! `membarrier(2)` makes every running thread of the process execute a full fence at some point between the call and
//! its return; a context switch counts as a full fence. loom knows nothing of this, so the model acts it out as an
//! inter-processor interrupt. `fence::light` is nothing. `fence::heavy` posts a request ([`interrupt_all`]). Every
//! atomic operation of a thread that runs under [`reader`] may take the interrupt just before it: the thread then
//! executes a fence and acknowledges the request. loom's scheduler and its free choice of what a relaxed load reads
//! decide where the interrupt lands, so every program point of every reader is tried.
//!
//! The fences in the handshake are `AcqRel`. loom over-synchronizes `SeqCst` fences and does not treat them as
//! scheduling points, which hides real races; it treats `SeqCst` accesses as `AcqRel`.
//!
//! A thread that sleeps in the model's futex, or has ended, is off the processor: it counts as fenced, and the
//! exchange that records this orders it like a context switch.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32 as AtomicU32Std};
use std::time::Duration;

pub use loom::cell::UnsafeCell;
use loom::sync::atomic::{self, Ordering, Ordering::*};
pub use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread;

use super::orderings::weaken;
use super::step;

/// Reader threads a model may have (loom allows five threads in all).
pub(crate) const READERS: usize = 3;

/// Acknowledgement of a thread that is off the processor.
const OFF: u64 = u64::MAX;

/// How often algorithms spin before they sleep; set by each model.
static BUDGET: AtomicU32Std = AtomicU32Std::new(0);

pub fn set_budget(rounds: u32) {
    BUDGET.store(rounds, Relaxed);
}

/// See [`light_is_compiler_fence`].
static LIGHT_IS_COMPILER_FENCE: AtomicBool = AtomicBool::new(true);

/// Makes the fence one whose light half is a full fence, for all models of the process. The model has no light fences
/// then: its readers are inside sections already when their threads start. Threads that do not run under [`reader`]
/// are not interrupted, so that nothing orders their exits against the leader.
pub fn set_full_light_fence() {
    LIGHT_IS_COMPILER_FENCE.store(false, Relaxed);
}

pub fn light_is_compiler_fence() -> bool {
    LIGHT_IS_COMPILER_FENCE.load(Relaxed)
}

pub fn budget(_machine: u32) -> u32 {
    BUDGET.load(Relaxed)
}

pub fn spin_iterations(_ns: u32) -> u32 {
    BUDGET.load(Relaxed)
}

std::thread_local! {
    /// The yields in this model, whose threads are one of the machine's.
    static YIELDS: Cell<u32> = const { Cell::new(0) };
}

/// Counts: loom tries every order of threads.
pub fn yield_now() {
    YIELDS.set(YIELDS.get() + 1);
}

/// Returns the calls of [`yield_now`] since the last call of this.
pub fn take_yields() -> u32 {
    YIELDS.take()
}

pub fn has_normal_policy() -> bool {
    true
}

/// The threads of models have a CPU each.
pub fn is_bound() -> bool {
    false
}

pub fn process_cpus() -> u32 {
    u32::MAX
}

std::thread_local! {
    /// The CPUs of this model, whose threads are one of the machine's.
    static USABLE_CPUS: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Sets the number of CPUs, for [`outnumber_cpus`] only.
pub fn set_cpus(cpus: u32) {
    USABLE_CPUS.set(cpus);
}

pub fn outnumber_cpus(threads: u32) -> bool {
    threads > USABLE_CPUS.get()
}

/// Yields to the other model threads.
pub fn spin_loop() {
    thread::yield_now();
}

std::thread_local! {
    /// The reading of the clock in this model, whose threads are one of the machine's.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Sets the clock. Otherwise time stands still, at 0.
pub fn set_now(nanoseconds: u64) {
    NOW.set(nanoseconds);
}

pub fn now() -> u64 {
    NOW.get()
}

pub use now as last_tick;

pub fn thread_name(_tid: u32) -> Option<String> {
    None
}

pub fn write_error(text: &[u8]) {
    eprint!("{}", String::from_utf8_lossy(text));
}

struct Interrupts {
    /// Number of the newest request.
    request: atomic::AtomicU64,
    /// Newest request each reader has acknowledged; [`OFF`] while it is off the processor.
    acknowledged: [atomic::AtomicU64; READERS],
    /// Threads that have had guards or hazard pointers. Not an atomic of loom: the order of numbers is irrelevant.
    threads: AtomicU32Std,
}

loom::lazy_static! {
    static ref INTERRUPTS: Interrupts = Interrupts {
        request: atomic::AtomicU64::new(0),
        acknowledged: std::array::from_fn(|_| atomic::AtomicU64::new(OFF)),
        threads: AtomicU32Std::new(0),
    };
}

loom::thread_local! {
    /// Index of this thread among the readers, and the newest request it has seen.
    static READER: Cell<Option<(usize, u64)>> = Cell::new(None);
}

/// A point where an interrupt may land. Every atomic operation is one. Models add one between loading a pointer and
/// reading through it.
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

fn own_index() -> Option<usize> {
    READER.with(|cell| cell.get().map(|(index, _)| index))
}

fn switch_out(index: usize) {
    READER.with(|cell| cell.set(None));
    INTERRUPTS.acknowledged[index].swap(OFF, AcqRel);
}

fn switch_in(index: usize) {
    // Acknowledges the request that it sees. A thread that found this one off the processor did so by a
    // read-modify-write. The one below reads from that, so what the other thread did before its fence is visible from
    // here on.
    let request = INTERRUPTS.request.load(Relaxed);
    atomic::fence(AcqRel);
    INTERRUPTS.acknowledged[index].swap(request, AcqRel);
    READER.with(|cell| cell.set(Some((index, request))));
}

/// Runs `body` as reader number `index`: a thread that the heavy fences of other threads interrupt.
pub fn reader<R>(index: usize, body: impl FnOnce() -> R) -> R {
    switch_in(index);
    let result = body();
    switch_out(index);
    result
}

loom::thread_local! {
    /// The guards and hazard pointers that this thread has, and its number among the threads that have had any.
    static HELD: Cell<(usize, Option<usize>)> = Cell::new((0, None));
}

/// The calling thread, of a program's own model, gets a guard or hazard pointer: heavy fences interrupt it until it
/// has none. Each switch in or out is a full fence; heavy fences execute one in threads of all kinds, too. Returns
/// the number of the thread.
pub fn get_held() -> usize {
    let (held, index) = HELD.with(Cell::get);
    let index = index.unwrap_or_else(|| INTERRUPTS.threads.fetch_add(1, Relaxed) as usize);
    assert!(index < READERS, "more than {READERS} threads of a model have guards or hazard pointers");
    HELD.with(|cell| cell.set((held + 1, Some(index))));
    if held == 0 {
        switch_in(index);
    }
    index
}

/// The calling thread gives up a guard or hazard pointer. Returns `true` if it has no other.
pub fn put_held() -> bool {
    let (held, index) = HELD.with(Cell::get);
    HELD.with(|cell| cell.set((held - 1, index)));
    if held == 1 {
        index.map(switch_out);
    }
    held == 1
}

/// Returns `true` if the calling thread has guards or hazard pointers.
pub fn holds() -> bool {
    HELD.with(Cell::get).0 > 0
}

/// Interrupts all other readers. Returns when each has executed a fence. Several requests may be in flight: a reader
/// that acknowledges one acknowledges the earlier ones, as the requests are a chain of read-modify-writes.
pub fn interrupt_all() {
    let own = own_index();
    atomic::fence(AcqRel);
    let request = INTERRUPTS.request.fetch_add(1, Relaxed) + 1;
    for (index, acknowledged) in INTERRUPTS.acknowledged.iter().enumerate() {
        while Some(index) != own {
            match acknowledged.load(Relaxed) {
                // A read-modify-write: a thread that is switched in later then has this one's past (`switch_in`).
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

/// A fence, unless it is to be weakened.
#[track_caller]
pub fn fence(order: Ordering) {
    match weaken(order, "order") {
        Relaxed => {}
        order => atomic::fence(order),
    }
}

/// A loom atomic. An interrupt may land before each of its operations, and their orderings may be weakened.
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

macro_rules! interruptible_integer {
    ($name:ident, $value:ty) => {
        interruptible!($name, atomic::$name, $value, [
            load(; order) -> $value;
            store(value: $value; order) -> ();
            swap(value: $value; order) -> $value;
            fetch_add(value: $value; order) -> $value;
            fetch_sub(value: $value; order) -> $value;
            fetch_or(value: $value; order) -> $value;
            fetch_max(value: $value; order) -> $value;
            fetch_and(value: $value; order) -> $value;
            compare_exchange(old: $value, new: $value; success, failure) -> Result<$value, $value>;
        ]);
    };
}

interruptible_integer!(AtomicU64, u64);
interruptible_integer!(AtomicU32, u32);
interruptible_integer!(AtomicUsize, usize);
interruptible!(AtomicPtr<T>, atomic::AtomicPtr<T>, *mut T, [
    load(; order) -> *mut T;
    store(value: *mut T; order) -> ();
    swap(value: *mut T; order) -> *mut T;
    compare_exchange(old: *mut T, new: *mut T; success, failure) -> Result<*mut T, *mut T>;
    compare_exchange_weak(old: *mut T, new: *mut T; success, failure) -> Result<*mut T, *mut T>;
]);

impl<T> AtomicPtr<T> {
    /// Returns a copy, in a box: loom lends the pointer to a closure only.
    pub fn get_mut(&mut self) -> Box<*mut T> {
        Box::new(self.0.with_mut(|pointer| *pointer))
    }
}

/// The number of CPUs in a model.
pub(crate) const CPUS: usize = 2;

loom::thread_local! {
    /// The CPU that this thread is on.
    static CPU: Cell<usize> = Cell::new(0);
}

/// Moves the calling thread to a CPU.
pub fn run_on(cpu: usize) {
    CPU.with(|cell| cell.set(cpu));
}

/// Returns the CPU that the calling thread is on.
pub(crate) fn current_cpu() -> usize {
    CPU.with(Cell::get)
}

/// A futex word. The kernel's queue is a list under a mutex, like the bucket lock of `futex(2)`.
#[derive(Debug)]
pub struct FutexWord<A> {
    word: A,
    /// Ticket and mask of every sleeper, in order of arrival; the next ticket.
    sleepers: Mutex<(Vec<(u64, u32)>, u64)>,
    woken: Condvar,
}

pub type Futex = FutexWord<AtomicU64>;
pub type Futex32 = FutexWord<AtomicU32>;

impl<A> FutexWord<A> {
    fn of(word: A) -> Self {
        Self { word, sleepers: Mutex::new((Vec::new(), 0)), woken: Condvar::new() }
    }

    /// Sleeps if the word `is_expected`. If the sleep `has_end`, it is over at once: that is a moment like any other,
    /// as threads stop anywhere. Returns `true` in this case.
    fn sleep(&self, mask: NonZeroU32, has_end: bool, is_expected: impl FnOnce(&A) -> bool) -> bool {
        let mut sleepers = self.sleepers.lock().unwrap();
        // Not a step of the library: the kernel compares under the lock that wakers take.
        step!(
            "sleep-without-comparing",
            if !is_expected(&self.word) {
                return false;
            }
        );
        if has_end {
            drop(sleepers);
            thread::yield_now();
            return true;
        }
        let ticket = sleepers.1;
        sleepers.1 += 1;
        sleepers.0.push((ticket, mask.get()));
        let own = own_index();
        own.map(switch_out);
        while sleepers.0.iter().any(|&(other, _)| other == ticket) {
            sleepers = self.woken.wait(sleepers).unwrap();
        }
        own.map(switch_in);
        false
    }

    fn wake_matching(&self, count: u32, mask: NonZeroU32) -> usize {
        let mut sleepers = self.sleepers.lock().unwrap();
        let mut woken = 0;
        sleepers.0.retain(|&(_, of)| {
            let is_woken = woken < count && of & mask.get() != 0;
            woken += u32::from(is_woken);
            !is_woken
        });
        self.woken.notify_all();
        woken as usize
    }
}

impl<A> Deref for FutexWord<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.word
    }
}

impl Futex {
    pub fn new(value: u64) -> Self {
        Self::of(AtomicU64::new(value))
    }

    pub fn wait(&self, expected: u64, mask: NonZeroU32) {
        // The kernel compares the low half.
        self.sleep(mask, false, |word| word.load(Relaxed) as u32 == expected as u32);
    }

    /// [`wait`](Self::wait): the time never comes, so that a model which needs it to come hangs, and fails.
    pub fn wait_timeout(&self, expected: u64, mask: NonZeroU32, _timeout: Duration) {
        self.wait(expected, mask);
    }

    /// The time, if there is one, is over at once.
    pub fn wait_until(&self, expected: u64, until: Option<u64>) -> bool {
        self.sleep(NonZeroU32::MAX, until.is_some(), |word| word.load(Relaxed) as u32 == expected as u32)
    }

    pub fn wake(&self, count: u32, mask: NonZeroU32) {
        self.wake_matching(count, mask);
    }
}

impl Futex32 {
    pub fn new(value: u32) -> Self {
        Self::of(AtomicU32::new(value))
    }

    pub fn wait(&self, expected: u32, until: Option<u64>) -> bool {
        self.sleep(NonZeroU32::MAX, until.is_some(), |word| word.load(Relaxed) == expected)
    }

    pub fn wake(&self, count: u32) -> usize {
        self.wake_matching(count, NonZeroU32::MAX)
    }

    /// The time never comes, as in `Futex::wait_timeout`.
    pub fn wait_shared(&self, expected: u32, _until: Option<u64>) {
        self.wait(expected, None);
    }

    pub fn wake_shared(&self, count: u32) {
        self.wake(count);
    }
}
