//! Threads that unpublish elements and wait for grace periods, each time in another mode.

use std::array;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::Ordering::*;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, GracePeriod};

use super::flavor::Flavor;
use super::futures::block_on_all;
use super::oracle::Unpublished;
use super::slots::{BLOCKING_MODES, UPDATERS, WAIT_MODES, WaitMode};
use super::state::TestState;
use super::violation::{ViolationKind, report};
use harness::pin;

/// Chooses one of some modes, by weight.
fn choose(among: &Range<usize>) -> usize {
    let total = WAIT_MODES[among.clone()].iter().map(|mode| mode.1).sum::<usize>();
    let mut left = fastrand::usize(..total);
    for mode in among.clone() {
        match left.checked_sub(WAIT_MODES[mode].1) {
            Some(less) => left = less,
            None => return mode,
        }
    }
    among.start
}

/// The most futures that one thread awaits together, values that it retires at once, and callbacks in a burst.
const FUTURES: usize = 8;
const VALUES: usize = 48;
const BURST: usize = 3000;

/// Runs an updater in these wait modes until the interval ends.
pub(super) fn run<F: Flavor>(state: &'static TestState, slot: usize, modes: Range<usize>) {
    while !state.stops() {
        if fastrand::u8(..4) == 0 {
            // Some updaters are registered readers, and some not yet.
            F::visit(|| ());
        }
        let mode = choose(&modes);
        state.updaters[slot].perform(state, mode, || Updater { state, slot, mode }.perform::<F>());
        if mode >= BLOCKING_MODES && fastrand::u8(..4) == 0 {
            // Updaters that only defer would soon use up all elements.
            thread::yield_now();
        }
    }
}

/// An updater and its next operation.
#[derive(Debug, Clone, Copy)]
struct Updater {
    state: &'static TestState,
    slot: usize,
    /// In [`WAIT_MODES`].
    mode: usize,
}

impl Updater {
    /// Runs the operation. Returns `true` if a section is known to have been open before.
    fn perform<F: Flavor>(self) -> bool {
        let domain = || F::domain().clone();
        match WAIT_MODES[self.mode].0 {
            WaitMode::Synchronize => return self.after(|| F::domain().synchronize()),
            WaitMode::Now => return self.after(|| GracePeriod::now_in(domain()).wait()),
            WaitMode::Start => {
                return self.after(|| {
                    let period = GracePeriod::start_in(domain());
                    while !period.is_elapsed() {
                        thread::yield_now();
                    }
                });
            }
            WaitMode::WaitTimeout => {
                return self.after(|| {
                    let period = GracePeriod::now_in(domain());
                    while !period.wait_timeout(Duration::from_micros(fastrand::u64(..2000))) {}
                });
            }
            WaitMode::Await => {
                return self.after(|| block_on_all([GracePeriod::now_in(domain()).into_future()], |_| ()));
            }
            WaitMode::AwaitSeveral => return self.await_several::<F>(),
            WaitMode::CompareCookies => return self.after(|| self.compare_cookies::<F>()),
            WaitMode::Call => self.call::<F>(),
            WaitMode::Barrier => self.barrier::<F>(),
            WaitMode::Retire => self.retire::<F>(),
            WaitMode::RetireMany => (0..fastrand::usize(2..VALUES)).for_each(|_| self.retire::<F>()),
            WaitMode::Burst => {
                for number in 0..fastrand::usize(1..BURST) {
                    if number % 256 == 128 {
                        self.migrate();
                    }
                    if number % 32 == 0 { self.call::<F>() } else { self.post::<F>(|| ()) }
                }
            }
        }
        false
    }

    /// Callbacks of a thread run in order, on whichever CPUs it defers them.
    fn migrate(self) {
        let cpu = self.state.cpus[fastrand::usize(..self.state.cpus.len())];
        // The CPU may not be allowed any more.
        let _ = pin::to(cpu);
    }

    fn unpublish(self) -> Option<Unpublished> {
        self.state.oracle.unpublish(self.slot, self.mode)
    }

    /// Unpublishes an element, and frees it after `wait`, which waits for a grace period.
    fn after(self, wait: impl FnOnce()) -> bool {
        let unpublished = self.unpublish();
        wait();
        unpublished.is_some_and(Unpublished::mark_freed)
    }

    /// Checks each future on its own, when it is ready. One more is dropped early.
    fn await_several<F: Flavor>(self) -> bool {
        let mut dropped = GracePeriod::now_in(F::domain().clone()).into_future();
        let _ = Pin::new(&mut dropped).poll(&mut Context::from_waker(Waker::noop()));
        let (mut unpublished, futures): (Vec<_>, Vec<_>) = (0..fastrand::usize(2..=FUTURES))
            .map(|_| {
                let unpublished = self.unpublish();
                let start = if fastrand::bool() { GracePeriod::start_in } else { GracePeriod::now_in };
                (unpublished, start(F::domain().clone()).into_future())
            })
            .unzip();
        drop(dropped);
        let mut beside = false;
        block_on_all(futures, |place| {
            beside |= unpublished[place].take().is_some_and(Unpublished::mark_freed);
        });
        beside
    }

    /// Checks that the greater one of two cookies does not elapse first. It is not always the later one: a grace
    /// period that returned an error may have been in progress when the first was taken. Returns once both have
    /// elapsed.
    fn compare_cookies<F: Flavor>(self) {
        let first = GracePeriod::start_in(F::domain().clone());
        if fastrand::bool() {
            thread::yield_now();
        }
        let second = GracePeriod::start_in(F::domain().clone());
        let (first, second) = if first <= second { (first, second) } else { (second, first) };
        while !second.is_elapsed() {
            if fastrand::bool() {
                second.wait();
            }
            thread::yield_now();
        }
        if !first.is_elapsed() {
            report(ViolationKind::CookieOrder { updater: self.slot });
        }
    }

    fn options() -> DeferOptions {
        let options = DeferOptions::new();
        match fastrand::u8(..8) {
            0 | 1 => options.run_on_retiring_thread(),
            2 => options.heap_bytes(4096),
            _ => options,
        }
    }

    /// Queues a callback, which is counted.
    fn post<F: Flavor>(self, f: impl FnOnce() + Send + 'static) {
        let own = &self.state.updaters[self.slot];
        // Relaxed: only this thread writes it.
        let number = own.posted.load(Relaxed);
        let callback = move || {
            f();
            let expected = own.ran.load(Relaxed);
            if expected != number {
                report(ViolationKind::CallbackOrder { updater: self.slot, number, expected });
            }
            // Release: publishes the effects of the callback; pairs with the Acquire in `barrier`.
            own.ran.store(number + 1, Release);
        };
        F::domain().call_with(callback, Self::options());
        // Release: publishes that the callback is queued; pairs with the Acquire in `barrier`.
        own.posted.store(number + 1, Release);
    }

    fn call<F: Flavor>(self) {
        let unpublished = self.unpublish();
        let again = fastrand::u8(..16) == 0;
        self.post::<F>(move || {
            unpublished.map(Unpublished::mark_freed);
            if again {
                F::domain().call_with(|| (), DeferOptions::new());
            }
        });
    }

    /// Checks that all callbacks that any updater had queued before the barrier have run when it returns.
    fn barrier<F: Flavor>(self) {
        self.call::<F>();
        let before: [u64; UPDATERS] = array::from_fn(|owner| self.state.updaters[owner].posted.load(Acquire));
        F::domain().barrier();
        for (owner, &posted) in before.iter().enumerate() {
            let ran = self.state.updaters[owner].ran.load(Acquire);
            if ran < posted {
                report(ViolationKind::BarrierTooShort { updater: self.slot, owner, posted, ran });
            }
        }
    }

    fn retire<F: Flavor>(self) {
        /// Frees the element when it is dropped.
        struct Value(Option<Unpublished>);

        impl Drop for Value {
            fn drop(&mut self) {
                self.0.take().map(Unpublished::mark_freed);
            }
        }

        if fastrand::u8(..4) == 0 {
            // A value without a destructor among them.
            F::domain().retire_with(Box::new([0_u64; 8]), DeferOptions::new());
        }
        F::domain().retire_with(Box::new(Value(self.unpublish())), Self::options());
    }
}
