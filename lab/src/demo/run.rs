//! What the threads of the demo do to a table, and one slice of the measurement: readers and the updater work on one
//! contestant for a while.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use stillpoint::percpu::Counter;

use super::rib::Rib;
use super::stores::Store;
use super::table::Gauge;
use crate::harness::crew::{self, Arrivals};
use crate::harness::pin::{self, CpuPair};

/// One lookup in so many is timed.
const TIMED: usize = 64;

/// Updates between two samples of the bytes that await reclamation.
const SAMPLED: u64 = 64;

/// Lookups that are compared with the RIB after a slice.
const CHECKED: usize = 1000;

/// How long the last replaced buckets may take to be freed after readers and updater ended.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);

/// A table in one of the stores, with the RIB that feeds it.
pub(super) struct Table<S> {
    pub(super) store: S,
    pub(super) rib: Rib,
    pub(super) gauge: &'static Gauge,
}

/// What readers and updater of a table share. All accesses are Relaxed: statistics and requests, which order nothing.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Readers with this number and above end.
    wanted: AtomicUsize,
    over: AtomicBool,
    started: Arrivals,
    lookups: Counter,
    updates: AtomicU64,
    /// Since the last snapshot.
    longest_update_ns: AtomicU64,
    most_awaiting: AtomicUsize,
}

/// How far readers and updater have come.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) lookups: u64,
    pub(super) updates: u64,
    /// The longest update since the last snapshot.
    pub(super) longest_update_ns: u64,
    /// The most bytes that were seen awaiting reclamation since the last snapshot.
    pub(super) awaiting: usize,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self {
            wanted: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            started: Arrivals::default(),
            lookups: Counter::new(),
            updates: AtomicU64::new(0),
            longest_update_ns: AtomicU64::new(0),
            most_awaiting: AtomicUsize::new(0),
        }
    }

    /// Lets readers with numbers below `readers` run; the others end.
    pub(super) fn want(&self, readers: usize) {
        self.wanted.store(readers, Relaxed);
    }

    /// Ends all threads.
    pub(super) fn stop(&self) {
        self.want(0);
        self.over.store(true, Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// A reader, which goes round and round its addresses. Returns the nanoseconds of its timed lookups.
    pub(super) fn read<S: Store>(&self, store: &S, number: usize, addresses: &[u32]) -> Histogram<u32> {
        let mut latency = histogram();
        let mut addresses = addresses.iter().copied().cycle();
        let mut next = || addresses.next().expect("a reader has addresses");
        self.started.arrive();
        while number < self.wanted.load(Relaxed) {
            let address = next();
            let began = Instant::now();
            black_box(store.lookup(address));
            latency.saturating_record(began.elapsed().as_nanos() as u64);
            for _ in 1..TIMED {
                black_box(store.lookup(next()));
            }
            self.lookups.add(TIMED as u64);
        }
        latency
    }

    /// The updater.
    pub(super) fn update<S: Store>(&self, store: &S, rib: &mut Rib, gauge: &Gauge) {
        self.started.arrive();
        let mut last = Instant::now();
        while !self.is_over() {
            rib.update(|slot, change| store.replace(slot, change));
            // One reading of the clock for each update: the end of one is the beginning of the next.
            let now = Instant::now();
            self.longest_update_ns.fetch_max((now - last).as_nanos() as u64, Relaxed);
            last = now;
            if (self.updates.fetch_add(1, Relaxed) + 1).is_multiple_of(SAMPLED) {
                self.most_awaiting.fetch_max(gauge.awaiting(), Relaxed);
            }
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            lookups: self.lookups.sum(),
            updates: self.updates.load(Relaxed),
            longest_update_ns: self.longest_update_ns.swap(0, Relaxed),
            awaiting: self.most_awaiting.swap(0, Relaxed),
        }
    }
}

/// How many threads read in a slice, where, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) readers: usize,
    /// `None` leaves it to the scheduler.
    pub(super) pinned: Option<CpuPair>,
    pub(super) time: Duration,
}

/// What a slice measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Lookups a second, of all readers together.
    pub(super) lookups: f64,
    /// 99.9 % of the timed lookups took at most so many nanoseconds, reading the clock included.
    pub(super) slow_lookup: u64,
    /// Updates a second.
    pub(super) updates: f64,
    /// The longest single update.
    pub(super) longest_update_ns: u64,
    /// The most bytes that were seen awaiting reclamation.
    pub(super) awaiting: usize,
}

/// A contestant of whatever kind.
pub(super) trait Contestant {
    /// How the demo's tables call it.
    fn name(&self) -> &'static str;

    /// Lets readers and an updater work on this contestant's table, waits until all replaced buckets are freed, and checks the
    /// table. Each reader has its own list of `addresses`.
    fn run(&mut self, plan: &Plan, addresses: &[Box<[u32]>]) -> Result<Outcome>;
}

impl<S: Store> Contestant for Table<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn run(&mut self, plan: &Plan, addresses: &[Box<[u32]>]) -> Result<Outcome> {
        let Self { store, rib, gauge } = self;
        let outcome = work(store, Some((&*store, rib, *gauge)), plan, addresses)?;
        self.settle()?;
        self.check(addresses)?;
        Ok(outcome)
    }
}

impl<S: Store> Table<S> {
    /// Makes a table of the routes that stand in `rib`.
    pub(super) fn new(rib: &Rib) -> Self {
        let gauge = Gauge::leaked();
        Self { store: S::new(rib.buckets(gauge)), rib: rib.clone(), gauge }
    }

    /// Lets readers work on this table alone, or beside an updater that works on `other`.
    pub(super) fn run_beside(
        &self,
        other: Option<&mut Self>,
        plan: &Plan,
        addresses: &[Box<[u32]>],
    ) -> Result<Outcome> {
        let Some(other) = other else { return work(&self.store, None, plan, addresses) };
        let Self { store, rib, gauge } = other;
        let outcome = work(&self.store, Some((&*store, rib, *gauge)), plan, addresses)?;
        other.settle()?;
        Ok(outcome)
    }

    /// Waits until all replaced buckets are freed, so that the next contestant has the machine for itself.
    fn settle(&self) -> Result<()> {
        let began = Instant::now();
        while self.gauge.awaiting() > 0 {
            let (bytes, name) = (self.gauge.awaiting(), S::NAME);
            ensure!(
                began.elapsed() < RECLAIM_LIMIT,
                "{name}: {bytes} bytes still not freed {RECLAIM_LIMIT:?} later"
            );
            S::reclaim();
            thread::yield_now();
        }
        Ok(())
    }

    /// Compares lookups inside the announced space and anywhere with what the RIB says.
    fn check(&self, addresses: &[Box<[u32]>]) -> Result<()> {
        let mut random = fastrand::Rng::new();
        for number in 0..CHECKED {
            let list = random.choice(addresses).context("no readers")?;
            let address = if number % 4 == 0 {
                random.u32(..)
            } else {
                *random.choice(list).context("no addresses")?
            };
            let (found, stands) = (self.store.lookup(address), self.rib.lookup(address));
            ensure!(
                found == stands,
                "{}: {address:#x} leads to {found:?}, but should to {stands:?}",
                S::NAME
            );
        }
        Ok(())
    }
}

/// Starts the threads of a slice, lets them work for the planned time, and adds up what they did. The updater, if there is one,
/// has a table of its own.
fn work<S: Store>(
    store: &S,
    updated: Option<(&S, &mut Rib, &Gauge)>,
    plan: &Plan,
    addresses: &[Box<[u32]>],
) -> Result<Outcome> {
    let traffic = &Traffic::new();
    traffic.want(plan.readers);
    let threads = plan.readers + usize::from(updated.is_some());
    thread::scope(|scope| {
        let start = || -> Result<_> {
            // A thread inherits the affinity of the one that starts it.
            plan.pinned.map_or(Ok(()), |cpus| pin::to(cpus.first))?;
            let lists = addresses.iter().take(plan.readers).enumerate();
            let readers = lists
                .map(|(number, list)| crew::spawn(scope, move || traffic.read(store, number, list)))
                .collect::<Result<Vec<_>>>()?;
            plan.pinned.map_or(Ok(()), |cpus| pin::to(cpus.second))?;
            let updater = updated
                .map(|(store, rib, gauge)| crew::spawn(scope, move || traffic.update(store, rib, gauge)));
            Ok((readers, updater.transpose()?))
        };
        let (readers, updater) = start().inspect_err(|_| traffic.stop())?;
        traffic.started.wait_for(threads);
        let (began, before) = (Instant::now(), traffic.snapshot());
        thread::sleep(plan.time);
        let seconds = began.elapsed().as_secs_f64();
        traffic.stop();

        // A joined thread is gone with its thread-locals: some peers hand over unfreed buckets then.
        let mut latency = histogram();
        for reader in readers {
            latency.add(crew::join(reader)?).context("histograms of one shape add up")?;
        }
        updater.map(crew::join).transpose()?;
        // Includes an update that began within the time and ended after it.
        let after = traffic.snapshot();
        Ok(Outcome {
            lookups: (after.lookups - before.lookups) as f64 / seconds,
            slow_lookup: latency.value_at_quantile(0.999),
            updates: (after.updates - before.updates) as f64 / seconds,
            longest_update_ns: after.longest_update_ns,
            awaiting: after.awaiting,
        })
    })
}

/// Nanoseconds up to a minute, to 1 %.
fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are constants")
}
