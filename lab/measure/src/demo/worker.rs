//! The process that keeps a table: readers, an updater, and a thread that waits for grace periods.
//!
//! Backends of the fence are chosen once in each process, and a store must not find what another one left behind, so
//! that each store has a process of its own (see [`harness::worker`]).

use std::env;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use stillpoint::percpu::Counter;
use stillpoint::rcu;

use super::rib::Rib;
use super::stores::{InArcSwap, InMutex, InRwLock, Reclaimed, Store};
use super::table::Gauge;
use crate::peers::crossbeam::Epoch;
use crate::peers::stillpoint::Stillpoint;
use harness::buckets::{BUCKETS, bucket};
use harness::controls::Controls;
use harness::report::OURS;
use harness::{pin, worker};

/// What the generated table and the updates are drawn from.
const SEED: u64 = 1;

/// Addresses of one reader: few enough to stay in its cache with the routes behind them, and prime, so that the timed
/// lookup, one in 64, is another one in every pass.
const ADDRESSES: usize = 1021;

/// One lookup in so many is timed.
const TIMED: usize = 64;

/// Updates between two samples of the bytes that await reclamation.
const SAMPLED: u64 = 64;

/// Lookups that are compared with the RIB after the threads have ended.
const CHECKED: usize = 1000;

/// How long the last replaced buckets may take to be freed after that.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);

/// The thread that waits for grace periods pauses for a random time up to this between two of them.
const LONGEST_PAUSE_US: u64 = 1000;

type Serve = fn(&Rib) -> Result<()>;

/// How the table can be protected, by name.
pub(super) const STORES: [(&str, Serve); 5] = [
    (OURS, answer::<Reclaimed<Stillpoint>>),
    ("crossbeam-epoch", answer::<Reclaimed<Epoch>>),
    ("arc-swap", answer::<InArcSwap>),
    ("std-rwlock", answer::<InRwLock>),
    ("std-mutex", answer::<InMutex>),
];

/// Serve the demo.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the table is protected.
    store: String,
    /// Size of the generated table.
    #[arg(long)]
    prefixes: usize,
}

/// Which threads work, and where.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) readers: usize,
    pub(super) updates: Updates,
    /// One more thread waits for grace periods of stillpoint.
    pub(super) synchronizes: bool,
    /// The CPUs of readers and of the updater; `None` leaves these to the scheduler.
    pub(super) cpus: Option<(usize, usize)>,
}

/// What the updater changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Updates {
    Nothing,
    /// The table that is read.
    Table,
    /// Another one, in the same store.
    OtherTable,
}

/// Asks for a load: for some time, or until another one is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) load: Load,
    pub(super) time: Option<Duration>,
}

/// What was done under a load so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) seconds: f64,
    pub(super) lookups: u64,
    /// 99.9 % of the timed lookups took at most so many nanoseconds, reading the clock included; 0 until the readers
    /// end.
    pub(super) slow_lookup_ns: u64,
    pub(super) updates: u64,
    /// The longest update since the last snapshot.
    pub(super) longest_update_ns: u64,
    /// The most bytes that were seen awaiting reclamation since the last snapshot.
    pub(super) awaiting: usize,
    /// Since the process started.
    pub(super) grace_periods: u64,
    /// Waits for a grace period, by bucket.
    pub(super) waits: Vec<u64>,
}

/// Runs the child.
///
/// # Errors
///
/// Returns an error if threads cannot be started, if a lookup is wrong, or if the parent has ended.
pub fn serve(args: &Args) -> Result<()> {
    let missing = env::var("STILLPOINT_FENCE").ok().and_then(|backend| worker::lacks_backend(&backend));
    if missing.is_some() {
        return worker::serve(missing, |_: Request| Ok(Snapshot::default()));
    }
    let serve = STORES.into_iter().find(|store| store.0 == args.store).context("no such store")?.1;
    serve(&Rib::generate(args.prefixes, SEED))
}

fn answer<S: Store>(rib: &Rib) -> Result<()> {
    let mut server = Server::<S>::new(rib)?;
    worker::serve(None, |request| server.answer(&request))
}

/// A table in a store, with the RIB that feeds it; for the life of the process.
struct Table<S> {
    store: S,
    rib: Mutex<Rib>,
    gauge: &'static Gauge,
}

struct Server<S: Store> {
    /// The table that is read, and the other one.
    tables: [&'static Table<S>; 2],
    running: Option<Running>,
}

/// A load, and its threads.
struct Running {
    load: Load,
    traffic: Arc<Traffic>,
    began: Instant,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of a load share.
#[derive(Debug)]
struct Traffic {
    controls: Controls,
    lookups: Counter,
    latency: Mutex<Histogram<u32>>,
    // All accesses are Relaxed: statistics only.
    updates: AtomicU64,
    longest_update_ns: AtomicU64,
    most_awaiting: AtomicUsize,
    waits: [AtomicU64; BUCKETS],
}

impl<S: Store> Table<S> {
    /// Makes a table of the routes that stand in `rib`.
    fn leaked(rib: &Rib) -> Result<&'static Self> {
        let gauge = Gauge::leaked();
        let table = Self { store: S::new(rib.buckets(gauge))?, rib: Mutex::new(rib.clone()), gauge };
        Ok(Box::leak(Box::new(table)))
    }

    /// Waits until all replaced buckets are freed, and compares lookups inside the announced space and anywhere with
    /// the RIB.
    fn check(&self) -> Result<()> {
        let (began, thread) = (Instant::now(), self.store.thread());
        while self.gauge.awaiting() > 0 {
            let bytes = self.gauge.awaiting();
            ensure!(began.elapsed() < RECLAIM_LIMIT, "{bytes} bytes not freed {RECLAIM_LIMIT:?} later");
            S::reclaim(&thread);
            thread::yield_now();
        }
        let rib = self.rib.lock().unwrap_or_else(PoisonError::into_inner);
        let mut random = fastrand::Rng::new();
        for number in 0..CHECKED {
            let address = if number % 4 == 0 { random.u32(..) } else { rib.address(&mut random) };
            let (found, expected) = (self.store.lookup(&thread, address), rib.lookup(address));
            ensure!(found == expected, "{address:#x} leads to {found:?}, but should lead to {expected:?}");
        }
        Ok(())
    }
}

impl<S: Store> Server<S> {
    fn new(rib: &Rib) -> Result<Self> {
        Ok(Self { tables: [Table::leaked(rib)?, Table::leaked(rib)?], running: None })
    }

    fn answer(&mut self, request: &Request) -> Result<Snapshot> {
        let is_new = |running: &Running| running.load != request.load || request.time.is_some();
        if self.running.as_ref().is_none_or(is_new) {
            self.stop()?;
            self.start(request.load)?;
        }
        let Some(time) = request.time else {
            return Ok(self
                .running
                .as_ref()
                .map_or_else(Snapshot::default, |running| self.snapshot(running)));
        };
        thread::sleep(time);
        Ok(self.stop()?.unwrap_or_default())
    }

    /// Starts the threads of a load, and lets these go at the same time.
    fn start(&mut self, load: Load) -> Result<()> {
        let traffic = Arc::new(Traffic::new());
        let mut threads = Vec::new();
        let mut spawn = |body: Box<dyn FnOnce(&Traffic) + Send>| {
            let traffic = traffic.clone();
            let thread = thread::Builder::new().spawn(move || body(&traffic));
            threads.push(thread.context("cannot start another thread")?);
            anyhow::Ok(())
        };
        let [table, other] = self.tables;
        // A thread inherits the affinity of the one that starts it.
        if let Some((first, second)) = load.cpus {
            pin::all_threads_to(&[second])?;
            pin::to(first)?;
        }
        let rib = table.rib.lock().unwrap_or_else(PoisonError::into_inner);
        for reader in 0..load.readers {
            let mut random = fastrand::Rng::with_seed(reader as u64);
            let addresses: Vec<u32> = (0..ADDRESSES).map(|_| rib.address(&mut random)).collect();
            spawn(Box::new(move |traffic| traffic.read(table, &addresses)))?;
        }
        drop(rib);
        if let Some((_, second)) = load.cpus {
            pin::to(second)?;
        }
        match load.updates {
            Updates::Nothing => {}
            Updates::Table => spawn(Box::new(|traffic| traffic.update(table)))?,
            Updates::OtherTable => spawn(Box::new(|traffic| traffic.update(other)))?,
        }
        if load.synchronizes {
            spawn(Box::new(Traffic::synchronize))?;
        }
        traffic.controls.ready.wait_for(threads.len());
        traffic.controls.start.open();
        self.running = Some(Running { load, traffic, began: Instant::now(), threads });
        Ok(())
    }

    /// Ends the threads, waits until all replaced buckets are freed, and checks the tables.
    fn stop(&mut self) -> Result<Option<Snapshot>> {
        let Some(mut running) = self.running.take() else { return Ok(None) };
        let seconds = running.began.elapsed().as_secs_f64();
        running.traffic.controls.release();
        // A joined thread is gone with its thread-locals: some peers hand over unfreed buckets then.
        for thread in running.threads.drain(..) {
            thread.join().map_err(|_| anyhow!("a thread panicked; its message is above"))?;
        }
        // Includes an update that began within the time and ended after it.
        let snapshot = Snapshot { seconds, ..self.snapshot(&running) };
        self.tables.iter().try_for_each(|table| table.check())?;
        Ok(Some(snapshot))
    }

    fn snapshot(&self, Running { traffic, began, .. }: &Running) -> Snapshot {
        let awaiting: usize = self.tables.iter().map(|table| table.gauge.awaiting()).sum();
        Snapshot {
            seconds: began.elapsed().as_secs_f64(),
            lookups: traffic.lookups.sum(),
            slow_lookup_ns: traffic.latency().value_at_quantile(0.999),
            updates: traffic.updates.load(Relaxed),
            longest_update_ns: traffic.longest_update_ns.swap(0, Relaxed),
            awaiting: awaiting.max(traffic.most_awaiting.swap(0, Relaxed)),
            grace_periods: rcu::stats().grace_periods,
            waits: traffic.waits.iter().map(|count| count.load(Relaxed)).collect(),
        }
    }
}

impl Traffic {
    fn new() -> Self {
        Self {
            controls: Controls::default(),
            lookups: Counter::new(),
            latency: Mutex::new(histogram()),
            updates: AtomicU64::new(0),
            longest_update_ns: AtomicU64::new(0),
            most_awaiting: AtomicUsize::new(0),
            waits: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    fn latency(&self) -> std::sync::MutexGuard<'_, Histogram<u32>> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a reader, which cycles through its addresses.
    fn read<S: Store>(&self, table: &Table<S>, addresses: &[u32]) {
        let (store, thread) = (&table.store, table.store.thread());
        let mut latency = histogram();
        let mut addresses = addresses.iter().copied().cycle();
        let mut next = || addresses.next().expect("a reader has addresses");
        self.controls.begin();
        while !self.controls.must_stop() {
            let address = next();
            let began = Instant::now();
            black_box(store.lookup(&thread, address));
            latency.saturating_record(began.elapsed().as_nanos() as u64);
            for _ in 1..TIMED {
                black_box(store.lookup(&thread, next()));
            }
            self.lookups.add(TIMED as u64);
        }
        *self.latency() += &latency;
    }

    /// Runs the updater.
    fn update<S: Store>(&self, table: &Table<S>) {
        let Table { store, rib, gauge } = table;
        let mut rib = rib.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = store.thread();
        self.controls.begin();
        let mut last = Instant::now();
        while !self.controls.must_stop() {
            rib.update(|slot, change| store.replace(&thread, slot, change));
            // One reading of the clock for each update: the end of one is the beginning of the next.
            let now = Instant::now();
            self.longest_update_ns.fetch_max((now - last).as_nanos() as u64, Relaxed);
            last = now;
            if (self.updates.fetch_add(1, Relaxed) + 1).is_multiple_of(SAMPLED) {
                self.most_awaiting.fetch_max(gauge.awaiting(), Relaxed);
            }
        }
    }

    /// Waits for one grace period after the other, and counts the waits by bucket.
    fn synchronize(&self) {
        self.controls.begin();
        while !self.controls.must_stop() {
            let start = Instant::now();
            rcu::synchronize();
            self.waits[bucket(start.elapsed())].fetch_add(1, Relaxed);
            thread::sleep(Duration::from_micros(fastrand::u64(0..=LONGEST_PAUSE_US)));
        }
    }
}

/// Nanoseconds up to a minute, to 1 %.
fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are constants")
}

#[cfg(test)]
mod tests {
    use support::deadline::deadline;
    use support::until::until;

    use super::*;

    fn check<S: Store>() {
        let _running = deadline();
        let mut server = Server::<S>::new(&Rib::generate(100, SEED)).expect("a table");
        for (readers, updates) in [(1, Updates::Table), (4, Updates::Table), (1, Updates::OtherTable)] {
            let load = Load { readers, updates, synchronizes: true, cpus: None };
            let time = Some(Duration::from_millis(50));
            // Each thread needs a CPU within that time.
            until(|| {
                let done = server.answer(&Request { load, time }).expect("all lookups are right");
                done.lookups > 0 && done.updates > 0
            });
        }
    }

    #[test]
    fn every_store_agrees_with_the_rib_after_each_load() {
        check::<Reclaimed<Stillpoint>>();
        check::<Reclaimed<Epoch>>();
        check::<InArcSwap>();
        check::<InRwLock>();
        check::<InMutex>();
    }
}
