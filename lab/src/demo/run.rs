//! One slice of the demo: readers and the updater work on one contestant for a while.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use super::affinity::Cpus;
use super::rib::Rib;
use super::stores::Store;
use super::table::{Bucket, Gauge};
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::pin;

/// One lookup in so many is timed.
const TIMED: usize = 64;

/// How many updates the updater makes between two looks at what awaits reclamation.
const SAMPLED: u64 = 64;

/// How many lookups are compared with the RIB after a slice.
const CHECKED: usize = 1000;

/// How long the last replaced buckets may take to be freed after readers and updater left.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);

/// How many read in a slice, where, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) readers: usize,
    /// `None` leaves it to the scheduler.
    pub(super) pinned: Option<Cpus>,
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
    pub(super) longest_update: Duration,
    /// The most bytes that were seen awaiting reclamation.
    pub(super) awaiting: usize,
}

/// A contestant of whatever kind.
pub(super) trait Contestant {
    /// How the demo's tables call it.
    fn name(&self) -> &'static str;

    /// Lets readers and an updater work on this contestant's table, waits until all they replaced is freed, and checks
    /// the table. Each reader goes round and round its own list of `addresses`.
    fn run(&mut self, plan: &Plan, addresses: &[Box<[IpAddr]>]) -> Result<Outcome>;
}

/// A table in one of the stores, with the RIB that feeds it.
pub(super) struct Entry<'a, S> {
    store: S,
    rib: Rib<'a>,
    gauge: &'static Gauge,
}

/// What the updater does while readers read an entry.
pub(super) enum Updater<'e, 'a, S> {
    Idle,
    /// It updates the table they read.
    Here,
    /// It updates another table.
    Elsewhere(&'e mut Entry<'a, S>),
}

impl<'a, S: Store> Entry<'a, S> {
    /// A contestant that begins with copies of `buckets`, which hold what `rib` says.
    pub(super) fn new(buckets: &[Bucket], rib: &Rib<'a>) -> Entry<'a, S> {
        let gauge = Gauge::leaked();
        let buckets = buckets.iter().map(|bucket| bucket.duplicate(gauge)).collect();
        Entry { store: S::new(buckets), rib: rib.clone(), gauge }
    }

    /// [`Contestant::run`] with a choice of what the updater does.
    pub(super) fn run_with(
        &mut self,
        updater: Updater<'_, 'a, S>,
        plan: &Plan,
        addresses: &[Box<[IpAddr]>],
    ) -> Result<Outcome> {
        let Entry { store, rib, gauge } = self;
        match updater {
            Updater::Idle => work(store, None::<fn(&Shift) -> Updates>, plan, addresses),
            Updater::Here => {
                let outcome =
                    work(store, Some(|shift: &Shift| update(store, rib, gauge, shift)), plan, addresses)?;
                self.settle()?;
                self.check(addresses)?;
                Ok(outcome)
            }
            Updater::Elsewhere(other) => {
                let Entry { store: others, rib, gauge } = other;
                let outcome =
                    work(store, Some(|shift: &Shift| update(others, rib, gauge, shift)), plan, addresses)?;
                other.settle()?;
                Ok(outcome)
            }
        }
    }

    /// Waits until everything that was replaced is freed, so that the next contestant has the machine for itself.
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
    fn check(&self, addresses: &[Box<[IpAddr]>]) -> Result<()> {
        let mut random = fastrand::Rng::new();
        for _ in 0..CHECKED {
            let address = match random.u8(..4) {
                0 => Ipv4Addr::from_bits(random.u32(..)).into(),
                1 => Ipv6Addr::from_bits(random.u128(..)).into(),
                _ => random
                    .choice(addresses)
                    .and_then(|list| random.choice(list))
                    .copied()
                    .context("no addresses")?,
            };
            let (found, stands) = (self.store.lookup(address), self.rib.lookup(address));
            ensure!(found == stands, "{}: {address} leads to {found:?}, but should to {stands:?}", S::NAME);
        }
        Ok(())
    }
}

impl<S: Store> Contestant for Entry<'_, S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn run(&mut self, plan: &Plan, addresses: &[Box<[IpAddr]>]) -> Result<Outcome> {
        self.run_with(Updater::Here, plan, addresses)
    }
}

/// Starts the threads of a slice, lets them work for the planned time, and adds up what they did.
fn work<S: Store>(
    store: &S,
    updater: Option<impl FnOnce(&Shift) -> Updates + Send>,
    plan: &Plan,
    addresses: &[Box<[IpAddr]>],
) -> Result<Outcome> {
    let shift = &Shift::default();
    let threads = plan.readers + usize::from(updater.is_some());
    thread::scope(|scope| {
        let start = || -> Result<_> {
            // A thread inherits the affinity of the one that starts it.
            plan.pinned.map_or(Ok(()), |cpus| pin::to(cpus.reader))?;
            let lists = addresses.iter().take(plan.readers);
            let readers = lists.map(|list| crew::spawn(scope, || read(store, list, shift)));
            let readers = readers.collect::<Result<Vec<_>>>()?;
            plan.pinned.map_or(Ok(()), |cpus| pin::to(cpus.updater))?;
            let updater = updater.map(|update| crew::spawn(scope, || update(shift)));
            Ok((readers, updater.transpose()?))
        };
        let (readers, updater) = start().inspect_err(|_| shift.cancel())?;
        let elapsed = shift.run(threads, plan.time).as_secs_f64();

        // A joined thread is gone with its thread-locals: some hand what they did not free to others then.
        let reads = readers.into_iter().map(crew::join).collect::<Result<Vec<_>>>()?;
        let updates = updater.map(crew::join).transpose()?.unwrap_or_default();
        let mut latency = histogram();
        for reader in &reads {
            latency.add(&reader.latency).context("histograms of one shape add up")?;
        }
        Ok(Outcome {
            lookups: reads.iter().map(|reads| reads.count).sum::<u64>() as f64 / elapsed,
            slow_lookup: latency.value_at_quantile(0.999),
            updates: updates.count as f64 / elapsed,
            longest_update: updates.longest,
            awaiting: updates.awaiting,
        })
    })
}

/// The time in which the threads of a slice work.
#[derive(Debug, Default)]
struct Shift {
    ready: Arrivals,
    start: Gate,
    over: AtomicBool,
}

impl Shift {
    /// Waits until so many threads are ready, lets them work, and returns for how long they did.
    fn run(&self, threads: usize, time: Duration) -> Duration {
        self.ready.wait_for(threads);
        let began = Instant::now();
        self.start.open();
        thread::sleep(time);
        // Relaxed, as the load in `is_over`: joining the threads orders what they did.
        self.over.store(true, Ordering::Relaxed);
        began.elapsed()
    }

    /// Sends those home who are ready, before they begin.
    fn cancel(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.start.open();
    }

    /// A thread is ready and waits for the others.
    fn begin(&self) {
        self.ready.arrive();
        self.start.wait();
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// What one reader did.
struct Reads {
    count: u64,
    latency: Histogram<u32>,
}

fn read<S: Store>(store: &S, addresses: &[IpAddr], shift: &Shift) -> Reads {
    let mut reads = Reads { count: 0, latency: histogram() };
    let mut addresses = addresses.iter().copied().cycle();
    let mut next = || addresses.next().expect("a reader has addresses");
    shift.begin();
    while !shift.is_over() {
        let address = next();
        let began = Instant::now();
        black_box(store.lookup(address));
        reads.latency.saturating_record(began.elapsed().as_nanos() as u64);
        for _ in 1..TIMED {
            black_box(store.lookup(next()));
        }
        reads.count += TIMED as u64;
    }
    reads
}

/// What the updater did.
#[derive(Default)]
struct Updates {
    count: u64,
    longest: Duration,
    awaiting: usize,
}

fn update<S: Store>(store: &S, rib: &mut Rib, gauge: &Gauge, shift: &Shift) -> Updates {
    let mut updates = Updates::default();
    shift.begin();
    let mut last = Instant::now();
    while !shift.is_over() {
        rib.update(|slot, change| store.replace(slot, change));
        // One look at the clock an update: the end of one is the beginning of the next.
        let now = Instant::now();
        updates.longest = updates.longest.max(now - last);
        last = now;
        updates.count += 1;
        if updates.count.is_multiple_of(SAMPLED) {
            updates.awaiting = updates.awaiting.max(gauge.awaiting());
        }
    }
    updates
}

/// Nanoseconds up to a minute, to 1 %.
fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are constants")
}
