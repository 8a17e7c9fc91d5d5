//! Threads that withdraw elements and wait for grace periods, each time in another way.

use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use stillpoint::rcu::{GracePeriod, Hints};

use super::flavor::Flavor;
use super::futures::block_on_all;
use super::history::{Case, Happened, What, report};
use super::oracle::{READERS, UPDATERS, Withdrawn};
use super::run::Scene;

/// A way to wait, or to have something done later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Synchronize,
    Now,
    Start,
    Timeout,
    Await,
    AwaitSeveral,
    Cookies,
    Call,
    Barrier,
    Retire,
    RetireMany,
    Burst,
}

/// With their names, and how often each is chosen.
pub(super) const WAYS: [(&str, Way, usize); 12] = [
    ("synchronize()", Way::Synchronize, 16),
    ("now(), wait()", Way::Now, 8),
    ("start(), is_elapsed()", Way::Start, 8),
    ("wait_timeout()", Way::Timeout, 8),
    (".await", Way::Await, 8),
    ("several .await", Way::AwaitSeveral, 8),
    ("cookies compared", Way::Cookies, 8),
    ("call()", Way::Call, 8),
    ("call(), barrier()", Way::Barrier, 4),
    ("retire()", Way::Retire, 8),
    ("many retire()", Way::RetireMany, 4),
    ("burst of call()", Way::Burst, 1),
];

/// Those that wait themselves come first.
pub(super) const WAITS: usize = 7;

/// One of these ways.
fn choose(among: Range<usize>) -> usize {
    let first = among.start;
    let ways = &WAYS[among];
    let all: usize = ways.iter().map(|way| way.2).sum();
    let mut left = fastrand::usize(..all);
    for (place, way) in ways.iter().enumerate() {
        match left.checked_sub(way.2) {
            Some(less) => left = less,
            None => return first + place,
        }
    }
    first
}

/// Futures that one thread awaits together, values that it retires at once, and callbacks in a burst: at most.
const FUTURES: usize = 8;
const VALUES: usize = 48;
const BURST: usize = 3000;

/// An updater's seat.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// Callbacks that are queued for sure; written by the updater.
    posted: CachePadded<AtomicU64>,
    /// Callbacks that have run; written by them.
    ran: CachePadded<AtomicU64>,
    /// 0, or since when the updater has been at something, in microseconds of [`Scene::clock`], and above its number in [`WAYS`].
    busy: CachePadded<AtomicU64>,
    /// What has been done.
    returns: CachePadded<AtomicU64>,
    counts: [Count; WAYS.len()],
}

/// What has been done in one way; written by its updater.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) times: AtomicU64,
    /// Beside a section that was open before.
    pub(super) beside: AtomicU64,
    /// Nanoseconds.
    pub(super) longest: AtomicU64,
}

impl Desk {
    /// What it does, and since when.
    pub(super) fn busy(&self) -> Option<(&'static str, Duration)> {
        // Relaxed: one word, from which nothing else follows.
        let word = self.busy.load(Relaxed);
        let way = (word >> 56).checked_sub(1)?;
        Some((WAYS[way as usize].0, Duration::from_micros(word & (u64::MAX >> 8))))
    }

    pub(super) fn returns(&self) -> u64 {
        self.returns.load(Relaxed)
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = &Count> {
        self.counts.iter()
    }

    /// Callbacks that are queued, and that have run.
    pub(super) fn callbacks(&self) -> (u64, u64) {
        // Acquire: who sees that one is queued is after that.
        (self.posted.load(Acquire), self.ran.load(Acquire))
    }
}

/// The life of an updater.
pub(super) fn live<F: Flavor>(scene: &'static Scene, seat: usize) {
    let desk = &scene.desks[seat];
    let history = &scene.stage.histories[READERS + seat];
    history.note(Happened::Began, 0);
    while !scene.stops() {
        if fastrand::u8(..4) == 0 {
            // Some are registered readers, and some not yet.
            F::visit(|| ());
        }
        let way = choose(scene.ways());
        let began = scene.elapsed();
        desk.busy.store((way as u64 + 1) << 56 | scene.clock().as_micros() as u64, Relaxed);
        history.note(Happened::Waits, way as u64);
        let beside = Updater { scene, seat, way }.perform::<F>();
        history.note(Happened::Returned, way as u64);
        desk.busy.store(0, Relaxed);
        let count = &desk.counts[way];
        // Relaxed: only this thread writes these.
        let add = |word: &AtomicU64, more| word.store(word.load(Relaxed) + more, Relaxed);
        add(&desk.returns, 1);
        add(&count.times, 1);
        add(&count.beside, beside.into());
        let took = (scene.elapsed() - began).as_nanos() as u64;
        count.longest.store(count.longest.load(Relaxed).max(took), Relaxed);
        if way >= WAITS && fastrand::u8(..4) == 0 {
            // Who only defers would soon have used up all elements.
            thread::yield_now();
        }
    }
}

/// An updater who is about to do something.
#[derive(Debug, Clone, Copy)]
struct Updater {
    scene: &'static Scene,
    seat: usize,
    /// In [`WAYS`].
    way: usize,
}

impl Updater {
    /// Does it. Whether a section is known to have been open before.
    fn perform<F: Flavor>(self) -> bool {
        match WAYS[self.way].1 {
            Way::Synchronize => self.after(F::synchronize),
            Way::Now => self.after(|| GracePeriod::now_in(F::domain()).wait()),
            Way::Start => self.after(|| {
                let period = GracePeriod::start_in(F::domain());
                while !period.is_elapsed() {
                    thread::yield_now();
                }
            }),
            Way::Timeout => self.after(|| {
                let period = GracePeriod::now_in(F::domain());
                while period.wait_timeout(Duration::from_micros(fastrand::u64(..2000))).is_err() {}
            }),
            Way::Await => {
                self.after(|| block_on_all([GracePeriod::now_in(F::domain()).into_future()], |_| ()))
            }
            Way::AwaitSeveral => self.await_several::<F>(),
            Way::Cookies => self.after(|| self.compare::<F>()),
            Way::Call => self.call::<F>(),
            Way::Barrier => self.barrier::<F>(),
            Way::Retire => self.retire::<F>(),
            Way::RetireMany => (0..fastrand::usize(2..VALUES)).fold(false, |any, _| self.retire::<F>() | any),
            Way::Burst => (0..fastrand::usize(1..BURST)).fold(false, |any, number| {
                if number % 32 == 0 {
                    return self.call::<F>() | any;
                }
                self.post::<F>(|| ());
                any
            }),
        }
    }

    fn replace(self) -> Option<Withdrawn> {
        self.scene.stage.replace(self.seat, self.way)
    }

    /// What is withdrawn is freed after `wait`, which is one for a grace period.
    fn after(self, wait: impl FnOnce()) -> bool {
        let withdrawn = self.replace();
        wait();
        withdrawn.is_some_and(Withdrawn::free)
    }

    /// Each future is checked on its own, when it is ready; one more is given up before.
    fn await_several<F: Flavor>(self) -> bool {
        let mut given_up = GracePeriod::now_in(F::domain()).into_future();
        let _ = Pin::new(&mut given_up).poll(&mut Context::from_waker(Waker::noop()));
        let (mut withdrawn, futures): (Vec<_>, Vec<_>) = (0..fastrand::usize(2..=FUTURES))
            .map(|_| {
                let withdrawn = self.replace();
                let domain = F::domain();
                let period = if fastrand::bool() {
                    GracePeriod::start_in(domain)
                } else {
                    GracePeriod::now_in(domain)
                };
                (withdrawn, period.into_future())
            })
            .unzip();
        drop(given_up);
        let mut beside = false;
        block_on_all(futures, |place| {
            beside |= withdrawn[place].take().is_some_and(Withdrawn::free);
        });
        beside
    }

    /// Of two cookies the greater one does not elapse first; then both have. That one is not always the later one: a grace period
    /// that was only tried, and failed, may have been under way when the first was taken.
    fn compare<F: Flavor>(self) {
        let first = GracePeriod::start_in(F::domain());
        if fastrand::bool() {
            thread::yield_now();
        }
        let second = GracePeriod::start_in(F::domain());
        let (first, second) = if first <= second { (first, second) } else { (second, first) };
        loop {
            let later = second.is_elapsed();
            if later && !first.is_elapsed() {
                let (who, other) = (0, self.seat as u64);
                report(Case { what: What::CookieOrder, who, other, ..Case::default() });
            }
            if later {
                return;
            }
            if fastrand::bool() {
                second.wait();
            }
            thread::yield_now();
        }
    }

    fn hints() -> Hints {
        let hints = Hints::new();
        match fastrand::u8(..8) {
            0 => hints.lazy(),
            1 | 2 => hints.local(),
            3 => hints.owning(4096),
            _ => hints,
        }
    }

    /// Queues a callback, which is counted.
    fn post<F: Flavor>(self, f: impl FnOnce() + Send + 'static) {
        let desk = &self.scene.desks[self.seat];
        // Relaxed: only this thread writes it.
        let number = desk.posted.load(Relaxed);
        let seat = self.seat;
        let callback = move || {
            f();
            if !F::ORDERED {
                desk.ran.fetch_add(1, Release);
                return;
            }
            let next = desk.ran.load(Relaxed);
            if next != number {
                let (who, before, after) = (seat as u64, number, next);
                report(Case { what: What::Disorder, who, before, after, other: who, ..Case::default() });
            }
            // Release: what was done; partner: the Acquire in `callbacks`.
            desk.ran.store(number + 1, Release);
        };
        F::call(callback, Self::hints());
        // Release: it is queued; partner: the Acquire in `callbacks`.
        desk.posted.store(number + 1, Release);
    }

    fn call<F: Flavor>(self) -> bool {
        let withdrawn = self.replace();
        let again = fastrand::u8(..16) == 0;
        self.post::<F>(move || {
            withdrawn.map(Withdrawn::free);
            if again {
                F::call(|| (), Hints::new());
            }
        });
        false
    }

    /// What anybody has queued before has run when the barrier returns.
    fn barrier<F: Flavor>(self) -> bool {
        self.call::<F>();
        let before: [u64; UPDATERS] = std::array::from_fn(|seat| self.scene.desks[seat].callbacks().0);
        F::barrier();
        for (seat, (desk, &posted)) in self.scene.desks.iter().zip(&before).enumerate() {
            let (_, ran) = desk.callbacks();
            if ran < posted {
                let (who, other) = (seat as u64, self.seat as u64);
                let (before, after) = (posted, ran);
                report(Case { what: What::BarrierShort, who, other, before, after, ..Case::default() });
            }
        }
        false
    }

    fn retire<F: Flavor>(self) -> bool {
        /// Frees it when it is dropped.
        struct Value(Option<Withdrawn>);

        impl Drop for Value {
            fn drop(&mut self) {
                self.0.take().map(Withdrawn::free);
            }
        }

        if fastrand::u8(..4) == 0 {
            // One without a destructor, for company.
            F::retire(Box::new([0_u64; 8]), Hints::new());
        }
        F::retire(Box::new(Value(self.replace())), Self::hints());
        false
    }
}
