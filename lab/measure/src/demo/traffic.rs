//! Readers and an updater at work on a table, in each kind of store.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use stillpoint::percpu::Counter;

use super::stores::{InArcSwap, InEpoch, InRcu, InRwLock, Store};
use super::table::{Gauge, Rib};
use harness::controls::Controls;
use harness::units::OURS;

/// Addresses of one reader: few enough to stay in its cache with the routes behind them.
const ADDRESSES: usize = 1021;
/// Lookups between two looks at the flag that ends a reader.
const LOOKUPS: usize = 64;
/// Updates between two samples of the bytes that await reclamation.
const SAMPLED: u64 = 64;
/// Lookups that are compared with the RIB after the threads have ended.
const CHECKED: usize = 1000;
/// How long the last replaced buckets may take to be freed after that.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);

/// Starts so many readers, and an updater, on a table.
pub(super) type Start = Box<dyn Fn(usize) -> Result<Running>>;

/// Makes a table.
type Starter = fn(&Rib) -> Result<Start>;

/// How the table can be protected, by name, ours first.
pub(super) const STORES: [(&str, Starter); 4] = [
    (OURS, Table::<InRcu>::starter),
    ("crossbeam-epoch", Table::<InEpoch>::starter),
    ("arc-swap", Table::<InArcSwap>::starter),
    ("std-rwlock", Table::<InRwLock>::starter),
];

/// What is done in a second, the longest update, and the most bytes that were seen awaiting reclamation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) lookups: f64,
    pub(super) updates: f64,
    pub(super) longest_update_ns: f64,
    pub(super) awaiting: f64,
}

/// A table in a store, with the RIB that feeds it; for the life of the process.
struct Table<S> {
    store: S,
    rib: Mutex<Rib>,
    gauge: &'static Gauge,
}

/// What the threads of a load share.
#[derive(Debug, Default)]
struct Traffic {
    controls: Controls,
    lookups: Counter,
    // All accesses are Relaxed: statistics only.
    updates: AtomicU64,
    longest_update_ns: AtomicU64,
    most_awaiting: AtomicUsize,
}

/// A load, and its threads, which end with it.
pub(super) struct Running {
    traffic: Arc<Traffic>,
    threads: Vec<JoinHandle<()>>,
    check: Box<dyn Fn() -> Result<()>>,
    /// The last look: when, lookups, and updates.
    last: (Instant, u64, u64),
}

impl<S: Store> Table<S> {
    fn starter(rib: &Rib) -> Result<Start> {
        let gauge = Gauge::leaked();
        let table = Self { store: S::new(rib.buckets(gauge)), rib: Mutex::new(rib.clone()), gauge };
        let table: &Self = Box::leak(Box::new(table));
        Ok(Box::new(|readers| table.start(readers)))
    }

    /// Starts readers and an updater, and lets these go at the same time.
    fn start(&'static self, readers: usize) -> Result<Running> {
        let traffic = Arc::new(Traffic::default());
        let (shared, check) = (traffic.clone(), Box::new(|| self.check()));
        let updater = thread::Builder::new().spawn(move || self.update(&shared));
        let mut threads = vec![updater.context("cannot start another thread")?];
        let (last, shared) = ((Instant::now(), 0, 0), traffic.clone());
        let mut running = Running { traffic, threads: Vec::new(), check, last };
        for reader in 0..readers {
            let traffic = shared.clone();
            let thread = thread::Builder::new().spawn(move || self.read(reader as u64, &traffic));
            threads.push(thread.context("cannot start another thread")?);
        }
        running.threads = threads;
        shared.controls.ready.wait_for(running.threads.len());
        shared.controls.start.open();
        running.last.0 = Instant::now();
        Ok(running)
    }

    /// Runs a reader, which cycles through its addresses.
    fn read(&self, seed: u64, traffic: &Traffic) {
        let mut random = fastrand::Rng::with_seed(seed);
        let addresses: Vec<u32> = {
            let rib = self.rib.lock().unwrap_or_else(PoisonError::into_inner);
            (0..ADDRESSES).map(|_| rib.address(&mut random)).collect()
        };
        let mut addresses = addresses.into_iter().cycle();
        traffic.controls.begin();
        while !traffic.controls.must_stop() {
            for address in addresses.by_ref().take(LOOKUPS) {
                black_box(self.store.lookup(address));
            }
            traffic.lookups.add(LOOKUPS as u64);
        }
    }

    /// Runs the updater.
    fn update(&self, traffic: &Traffic) {
        traffic.controls.begin();
        let mut rib = self.rib.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = Instant::now();
        while !traffic.controls.must_stop() {
            let (slot, change) = rib.update();
            self.store.replace(slot, change);
            // One reading of the clock for each update: the end of one is the beginning of the next.
            let now = Instant::now();
            traffic.longest_update_ns.fetch_max((now - last).as_nanos() as u64, Relaxed);
            last = now;
            if (traffic.updates.fetch_add(1, Relaxed) + 1).is_multiple_of(SAMPLED) {
                traffic.most_awaiting.fetch_max(self.gauge.awaiting(), Relaxed);
            }
        }
    }

    /// Waits until all replaced buckets are freed, and compares lookups inside the announced space and anywhere with
    /// the RIB.
    fn check(&self) -> Result<()> {
        let began = Instant::now();
        while self.gauge.awaiting() > 0 {
            let bytes = self.gauge.awaiting();
            ensure!(began.elapsed() < RECLAIM_LIMIT, "{bytes} bytes not freed {RECLAIM_LIMIT:?} later");
            S::reclaim();
            thread::yield_now();
        }
        let rib = self.rib.lock().unwrap_or_else(PoisonError::into_inner);
        let mut random = fastrand::Rng::new();
        for number in 0..CHECKED {
            let address = if number % 4 == 0 { random.u32(..) } else { rib.address(&mut random) };
            let (found, expected) = (self.store.lookup(address), rib.lookup(address));
            ensure!(found == expected, "{address:#x} leads to {found:?}, but should lead to {expected:?}");
        }
        Ok(())
    }
}

impl Running {
    /// Returns what was done since the last look.
    pub(super) fn rates(&mut self) -> Rates {
        let Traffic { lookups, updates, longest_update_ns, most_awaiting, .. } = &*self.traffic;
        let now = (Instant::now(), lookups.get(), updates.load(Relaxed));
        let last = std::mem::replace(&mut self.last, now);
        let seconds = (now.0 - last.0).as_secs_f64();
        Rates {
            lookups: now.1.saturating_sub(last.1) as f64 / seconds,
            updates: (now.2 - last.2) as f64 / seconds,
            longest_update_ns: longest_update_ns.swap(0, Relaxed) as f64,
            awaiting: most_awaiting.swap(0, Relaxed) as f64,
        }
    }

    /// Ends the threads, waits until all replaced buckets are freed, and checks the table.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.traffic.controls.release();
        // A joined thread is gone with its thread-locals: some peers hand over unfreed buckets then.
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| anyhow!("a thread panicked; its message is above"))?;
        }
        (self.check)()
    }
}

#[cfg(test)]
mod tests {
    use support::deadline::deadline;
    use support::until::until;

    use super::*;

    #[test]
    fn every_store_agrees_with_the_rib_after_each_load() {
        let _running = deadline();
        for (name, starter) in STORES {
            let start = starter(&Rib::generate(100, 1)).expect("a table");
            for readers in [1, 4] {
                let mut running = start(readers).expect("threads");
                // Each thread needs a CPU.
                until(|| {
                    let rates = running.rates();
                    rates.lookups > 0.0 && rates.updates > 0.0
                });
                running.stop().unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }
}
