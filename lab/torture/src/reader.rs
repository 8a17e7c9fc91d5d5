//! Threads that read: sections of all shapes and lengths; the threads migrate, sleep, take cookies, defer, and end.

use std::cell::Cell;
use std::hint;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, GracePeriod};

use super::common::{seeded, sleep};
use super::flavor::{Flavor, Shape};
use super::oracle::Observation;
use super::state::TestState;
use super::stillness::this_thread;
use super::violation::{ViolationKind, report};
use harness::pin;

/// The most sections of a thread; then another takes its slot.
const SECTIONS: u32 = 4000;

/// Looks for the return of an updater, after which it takes long.
const LONG: u32 = 4096;

/// Runs the threads of a slot, one after the other, until the interval ends. If `alternating`, readers alternate with
/// updaters, which wait all the time: this covers most interleavings of the end of a section and a leader's sleep,
/// and no later section makes up for a lost wake-up.
pub(super) fn run<F: Flavor>(state: &'static TestState, slot: usize, alternating: bool) {
    while !state.stops() {
        let thread = thread::Builder::new().spawn(seeded(move || read::<F>(state, slot, alternating)));
        // If no thread can be started now, one may be later.
        match thread.map(thread::JoinHandle::join) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => report(ViolationKind::ReaderPanicked { reader: slot }),
            Err(_) => sleep(Duration::from_millis(10)),
        }
    }
}

fn read<F: Flavor>(state: &'static TestState, slot: usize, alternating: bool) {
    let mut reader = F::reader();
    SLOT.set(Some(slot));
    let _receiver = state.signals.receiver(slot);
    for _ in 0..fastrand::u32(1..SECTIONS) {
        if state.stops() {
            break;
        }
        match fastrand::u16(..) {
            0..256 => {
                let cpu = state.cpus[fastrand::usize(..state.cpus.len())];
                // The CPU may not be allowed any more.
                let _ = pin::to(cpu);
            }
            256..512 => F::between(&mut reader),
            512..1024 => thread::yield_now(),
            1024..1040 => sleep(Duration::from_micros(fastrand::u64(..1000))),
            _ => {}
        }
        let shape = Shape::random();
        state.fill_store_buffer();
        let begin = || begin::<F>(state, slot, alternating);
        F::section(&mut reader, shape, begin, |section| section.end(state, slot));
        if alternating {
            F::outside(&mut reader, || wait_for_updater(state, slot));
        }
    }
}

/// Stays outside sections until an updater has waited: if the end of the last section did not wake the leader, no
/// later one does.
fn wait_for_updater(state: &TestState, slot: usize) {
    let returns = || state.updaters.iter().map(|own| own.returns.load(Relaxed)).sum::<u64>();
    let before = returns();
    for round in 1_u32.. {
        if state.stops() || returns() != before {
            break;
        }
        if round == LONG {
            state.waiting[slot].store(this_thread(), Relaxed);
        }
        if round % 64 == 0 { thread::yield_now() } else { hint::spin_loop() }
    }
    state.waiting[slot].store(0, Relaxed);
}

/// A section that has begun.
struct Section<F: Flavor> {
    alternating: bool,
    seen: Observation,
    cookie: Option<GracePeriod<F::Domain>>,
}

#[inline]
fn begin<F: Flavor>(state: &'static TestState, slot: usize, alternating: bool) -> Section<F> {
    let oracle = state.oracle;
    // First, so that it may be executed early.
    let seen = oracle.observe(slot);
    oracle.step(slot);
    // A read-modify-write: rarely, as it would make up for a missing fence.
    let cookie = (fastrand::u8(..) < 8).then(|| {
        if fastrand::bool() {
            GracePeriod::start_in(F::domain().clone())
        } else {
            GracePeriod::now_in(F::domain().clone())
        }
    });
    if fastrand::u8(..) < 2 {
        let snapshot = oracle.snapshot_own_clock(slot);
        F::domain().call_with(move || _ = snapshot.check(), DeferOptions::new());
    }
    read_delay(alternating);
    oracle.recheck(slot, seen);
    Section { alternating, seen, cookie }
}

impl<F: Flavor> Section<F> {
    #[inline]
    fn end(self, state: &'static TestState, slot: usize) {
        let oracle = state.oracle;
        let section = oracle.clock(slot) / 2;
        read_delay(self.alternating);
        if self.cookie.is_some_and(|cookie| cookie.is_elapsed()) {
            report(ViolationKind::CookieInSection { reader: slot, section });
        }
        oracle.recheck(slot, self.seen);
        state.fill_store_buffer();
        oracle.step(slot);
    }
}

/// Stays in the section for a while, which is mostly short.
#[inline]
fn read_delay(alternating: bool) {
    let spin = |most| (0..fastrand::u32(..most)).for_each(|_| hint::spin_loop());
    if alternating {
        // About as long as a leader spins before it sleeps.
        return spin(400);
    }
    match fastrand::u16(..) {
        0..16384 => {}
        16384..49152 => spin(64),
        49152..65000 => spin(1000),
        65000..65500 => thread::yield_now(),
        65500..65530 => sleep(Duration::from_micros(fastrand::u64(..1000))),
        65530.. => sleep(Duration::from_millis(fastrand::u64(1..5))),
    }
}

thread_local! {
    /// The slot of a reader, for the signal handler.
    static SLOT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs the section of a signal handler, which may interrupt a reader anywhere in the library but in its exit.
pub(super) fn interrupt<F: Flavor>(state: &'static TestState) {
    let Some(slot) = SLOT.get() else { return };
    F::visit(|| {
        let seen = state.oracle.observe(slot);
        (0..16).for_each(|_| hint::spin_loop());
        state.oracle.recheck(slot, seen);
    });
}
