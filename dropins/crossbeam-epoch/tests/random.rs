//! Random programs: threads come and go, hold guards of all kinds in any order, defer functions that pin, flush,
//! defer and panic, and read values that others replace. No function runs too early, twice, out of order, or never.

mod support;

use std::cell::{Cell, RefCell};
use std::panic::{self, Location};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_epoch::{self as epoch, Atomic, Collector, Guard, LocalHandle, Owned, default_collector};
use support::deadline::deadline;

const THREADS: u64 = 4;
const TIME: Duration = Duration::from_secs(2);
const ALIVE: u64 = 0x00C0_FFEE_0000_0000;

/// A value that notices when it is read after it was dropped, or dropped twice.
struct Value(AtomicU64);

impl Value {
    fn check(&self) {
        expect(self.0.load(Relaxed) == ALIVE);
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        expect(self.0.swap(0xDEAD, Relaxed) == ALIVE);
        DROPPED.fetch_add(1, Relaxed);
    }
}

static DEFERRED: AtomicUsize = AtomicUsize::new(0);
static RAN: AtomicUsize = AtomicUsize::new(0);
static MADE: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);
static BROKEN: AtomicUsize = AtomicUsize::new(0);
/// Values of the default collector, and of another one.
static SLOTS: [Slots; 2] = [const { [const { Atomic::null() }; 4] }; 2];

type Slots = [Atomic<Value>; 4];

fn new_value() -> Owned<Value> {
    MADE.fetch_add(1, Relaxed);
    Owned::new(Value(AtomicU64::new(ALIVE)))
}

/// Not `assert`, as panics of deferred functions go no further.
#[track_caller]
fn expect(holds: bool) {
    if !holds {
        BROKEN.fetch_add(1, Relaxed);
        eprintln!("broken at {}", Location::caller());
    }
}

struct Random(Cell<u64>);

impl Random {
    /// Returns a number below `end`.
    fn below(&self, end: u64) -> u64 {
        // xorshift64
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        (x >> 16) % end
    }
}

fn read(slots: &Slots, guard: &Guard, random: &Random) {
    // SAFETY: values are destroyed by `replace` only.
    if let Some(value) = unsafe { slots[random.below(4) as usize].load(Acquire, guard).as_ref() } {
        value.check();
        if random.below(50) == 0 {
            thread::yield_now();
        }
        value.check();
    }
}

fn replace(slots: &Slots, guard: &Guard, random: &Random) {
    let old = slots[random.below(4) as usize].swap(new_value(), AcqRel, guard);
    if !old.is_null() {
        // SAFETY: no thread can load it any more.
        unsafe { guard.defer_destroy(old) };
    }
}

/// Counts a function when it returns, or panics.
struct Ran;

impl Drop for Ran {
    fn drop(&mut self) {
        RAN.fetch_add(1, Release);
    }
}

fn defer(guard: &Guard, f: impl FnOnce() + Send + 'static) {
    DEFERRED.fetch_add(1, Relaxed);
    guard.defer(move || {
        let _ran = Ran;
        f();
    });
}

/// What a deferred function does.
fn act(seed: u64, depth: u64) {
    let random = Random(Cell::new(seed | 1));
    let guard =
        HANDLE.try_with(LocalHandle::pin).ok().filter(|_| random.below(2) == 0).unwrap_or_else(epoch::pin);
    read(&SLOTS[0], &guard, &random);
    match random.below(100) {
        0..20 => guard.flush(),
        20..40 if depth < 3 => defer(&guard, move || act(seed.rotate_left(7), depth + 1)),
        40..60 => replace(&SLOTS[0], &guard, &random),
        60..80 => drop((epoch::pin(), guard)),
        // No panic hook, which would write.
        80 => panic::resume_unwind(Box::new(())),
        _ => {}
    }
}

/// Destroys what the slots have. Functions that run later may fill them again.
fn clear() {
    let guard = epoch::pin();
    for slot in SLOTS.iter().flatten() {
        let old = slot.swap(epoch::Shared::null(), AcqRel, &guard);
        if !old.is_null() {
            // SAFETY: no thread can load it any more.
            unsafe { guard.defer_destroy(old) };
        }
    }
}

thread_local! {
    static HANDLE: LocalHandle = default_collector().register();
    static AT_EXIT: RefCell<Vec<AtExit>> = const { RefCell::new(Vec::new()) };
}

/// Pins, defers, and flushes when the thread exits.
struct AtExit(u64, Option<Guard>);

impl Drop for AtExit {
    fn drop(&mut self) {
        let random = Random(Cell::new(self.0 | 1));
        for _ in 0..random.below(5) {
            let guard = epoch::pin();
            read(&SLOTS[0], &guard, &random);
            replace(&SLOTS[0], &guard, &random);
            if random.below(2) == 0 {
                guard.flush();
            }
        }
        drop(self.1.take());
        defer(&epoch::pin(), || ());
    }
}

fn run(seed: u64, own: &Collector) {
    let random = Random(Cell::new(seed | 1));
    let handles = [default_collector().register(), own.register()];
    let last = Arc::new(AtomicU64::new(0));
    let mut next = 0;
    let mut guards = Vec::new();
    if random.below(2) == 0 {
        AT_EXIT.with_borrow_mut(|list| list.push(AtExit(seed, (random.below(2) == 0).then(epoch::pin))));
    }
    for _ in 0..random.below(2000) {
        if guards.len() < 6 && random.below(2) == 0 {
            guards.push(match random.below(5) {
                0 => handles[0].pin(),
                1 => handles[1].pin(),
                2 => HANDLE.with(LocalHandle::pin),
                _ => epoch::pin(),
            });
        } else if !guards.is_empty() {
            guards.swap_remove(random.below(guards.len() as u64) as usize);
        }
        let Some(index) = (random.below(8) as usize).checked_sub(1) else { continue };
        let count = guards.len();
        let Some(guard) = guards.get_mut(index % count.max(1)) else { continue };
        let is_default = guard.collector() == Some(default_collector());
        let slots = &SLOTS[usize::from(!is_default)];
        read(slots, guard, &random);
        match random.below(12) {
            0 => guard.flush(),
            1 => guard.repin(),
            2 => guard.repin_after(|| drop(epoch::pin())),
            3..6 => (0..random.below(40)).for_each(|_| replace(slots, guard, &random)),
            6..8 if is_default => {
                for _ in 0..random.below(100) {
                    let (number, last) = (next, Arc::clone(&last));
                    next += 1;
                    defer(guard, move || expect(last.swap(number + 1, AcqRel) == number));
                }
            }
            8 => {
                let seed = random.below(u64::MAX);
                defer(guard, move || act(seed, 0));
            }
            _ => {}
        }
    }
    while !guards.is_empty() {
        guards.swap_remove(random.below(guards.len() as u64) as usize);
    }
}

#[test]
fn random_programs_run_each_function_once_in_order_after_a_grace_period() {
    let _running = deadline();
    let (own, stop, begin) = (Collector::new(), AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        let threads = (1..=THREADS).map(|thread| {
            let (own, stop) = (&own, &stop);
            scope.spawn(move || {
                let mut seed = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                while !stop.load(Relaxed) {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if seed >> 61 == 0 {
                        run(seed, own);
                    } else {
                        // Joined, so that its destructors have run.
                        thread::scope(|scope| scope.spawn(|| run(seed, own)).join())
                            .expect("it does not panic");
                    }
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        while begin.elapsed() < TIME {
            epoch::pin().flush();
            thread::yield_now();
        }
        stop.store(true, Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    });
    drop(own);
    let counts = || [&DEFERRED, &RAN, &MADE, &DROPPED].map(|count| count.load(Acquire));
    loop {
        clear();
        epoch::pin().flush();
        thread::yield_now();
        let before @ [deferred, ran, made, dropped] = counts();
        if ran == deferred && made == dropped && counts() == before {
            break;
        }
    }
    // Nothing runs again.
    let before = counts();
    (0..100).for_each(|_| epoch::pin().flush());
    assert_eq!(counts(), before);
    assert_eq!(BROKEN.load(Relaxed), 0);
}
