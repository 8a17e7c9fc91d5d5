//! The process that the live demo shows: readers, an updater, and somebody who waits for grace periods.

use std::env;
use std::hint::black_box;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use stillpoint::percpu::Counter;
use stillpoint::rcu;

use super::super::generate;
use super::super::rib::Rib;
use super::super::routes::Routes;
use super::super::stores::{InArcSwap, InEpoch, InMutex, InRcu, InRwLock, Store};
use super::super::table::{Bucket, FAMILY_SLOTS, Gauge};
use super::super::{ADDRESSES, SEED};
use crate::harness::buckets::{BUCKETS, bucket};
use crate::harness::{crew, worker as lane};

/// Lookups between two looks at whether a reader is still wanted.
const BATCH: u64 = 64;

/// Whoever waits for grace periods pauses for a random time up to this between two of them.
const LONGEST_PAUSE_US: u64 = 1000;

/// Serve the live demo.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How the table is protected.
    #[arg(value_enum)]
    store: Kind,
    /// Size of the generated table.
    #[arg(long)]
    prefixes: usize,
    /// The table's files.
    #[arg(long)]
    routes: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    Stillpoint,
    CrossbeamEpoch,
    ArcSwap,
    Rwlock,
    Mutex,
}

/// How many readers there are to be.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) readers: usize,
}

/// How far the process has come.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) lookups: u64,
    pub(super) updates: u64,
    pub(super) grace_periods: u64,
    /// Bytes that have been replaced and not yet freed.
    pub(super) awaiting: u64,
    /// The longest update since the last look.
    pub(super) longest_update_ns: u64,
    /// Waits for a grace period, by bucket.
    pub(super) waits: Vec<u64>,
}

/// The child.
///
/// # Errors
///
/// Fails if the files cannot be read, threads cannot be started, or the parent is gone.
pub(crate) fn serve(args: &Args) -> Result<()> {
    let missing = env::var("STILLPOINT_FENCE").ok().and_then(|backend| lane::lacks_backend(&backend));
    if missing.is_some() {
        return lane::serve(missing, |_: Request| Ok(Snapshot::default()));
    }
    let routes = match args.routes[..] {
        [] => generate::routes(args.prefixes, SEED),
        _ => Routes::read(&args.routes)?,
    };
    match args.store {
        Kind::Stillpoint => work::<InRcu>(&routes),
        Kind::CrossbeamEpoch => work::<InEpoch>(&routes),
        Kind::ArcSwap => work::<InArcSwap>(&routes),
        Kind::Rwlock => work::<InRwLock>(&routes),
        Kind::Mutex => work::<InMutex>(&routes),
    }
}

fn work<S: Store>(routes: &Routes) -> Result<()> {
    let gauge = Gauge::leaked();
    let mut rib = Rib::new(routes, SEED);
    let mut buckets: Vec<_> = (0..2 * FAMILY_SLOTS).map(|_| Bucket::new(gauge)).collect();
    rib.announce_all(|slot, change| buckets[slot] = buckets[slot].successor(change));
    let (store, state) = (&S::new(buckets), &State::default());
    thread::scope(|scope| {
        let mut crowd = Crowd { scope, state, store, routes, readers: Vec::new() };
        let start = || -> Result<()> {
            crew::spawn(scope, move || state.update(store, &mut rib))?;
            if S::NAME == InRcu::NAME {
                crew::spawn(scope, || state.wait())?;
            }
            Ok(())
        };
        let served = start().and_then(|()| {
            lane::serve(None, |request: Request| {
                crowd.resize(request.readers)?;
                Ok(state.snapshot(gauge))
            })
        });
        state.wanted.store(0, Relaxed);
        state.over.store(true, Relaxed);
        served
    })
}

/// What the threads share. All accesses are Relaxed: these are statistics and requests, and order nothing.
#[derive(Debug)]
struct State {
    /// Readers with this number and above end.
    wanted: AtomicUsize,
    over: AtomicBool,
    lookups: Counter,
    updates: AtomicU64,
    longest_update: AtomicU64,
    waits: [AtomicU64; BUCKETS],
}

impl Default for State {
    fn default() -> Self {
        Self {
            wanted: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            lookups: Counter::new(),
            updates: AtomicU64::new(0),
            longest_update: AtomicU64::new(0),
            waits: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl State {
    fn read<S: Store>(&self, store: &S, number: usize, addresses: &[IpAddr]) {
        let mut addresses = addresses.iter().copied().cycle();
        while number < self.wanted.load(Relaxed) {
            for address in addresses.by_ref().take(BATCH as usize) {
                black_box(store.lookup(address));
            }
            self.lookups.add(BATCH);
        }
    }

    fn update<S: Store>(&self, store: &S, rib: &mut Rib<'_>) {
        let mut last = Instant::now();
        while !self.over.load(Relaxed) {
            rib.update(|slot, change| store.replace(slot, change));
            let now = Instant::now();
            self.longest_update.fetch_max((now - last).as_nanos() as u64, Relaxed);
            last = now;
            self.updates.fetch_add(1, Relaxed);
        }
    }

    fn wait(&self) {
        while !self.over.load(Relaxed) {
            let start = Instant::now();
            rcu::synchronize();
            self.waits[bucket(start.elapsed())].fetch_add(1, Relaxed);
            thread::sleep(Duration::from_micros(fastrand::u64(0..=LONGEST_PAUSE_US)));
        }
    }

    fn snapshot(&self, gauge: &Gauge) -> Snapshot {
        Snapshot {
            lookups: self.lookups.sum(),
            updates: self.updates.load(Relaxed),
            grace_periods: rcu::stats().grace_periods,
            awaiting: gauge.awaiting() as u64,
            longest_update_ns: self.longest_update.swap(0, Relaxed),
            waits: self.waits.iter().map(|count| count.load(Relaxed)).collect(),
        }
    }
}

/// The readers that there are.
struct Crowd<'scope, 'env, S> {
    scope: &'scope Scope<'scope, 'env>,
    state: &'scope State,
    store: &'scope S,
    routes: &'scope Routes,
    readers: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl<S: Store> Crowd<'_, '_, S> {
    /// Starts readers, or waits until some have ended.
    fn resize(&mut self, readers: usize) -> Result<()> {
        self.state.wanted.store(readers, Relaxed);
        for reader in self.readers.drain(readers.min(self.readers.len())..) {
            crew::join(reader)?;
        }
        let Self { state, store, routes, .. } = *self;
        for number in self.readers.len()..readers {
            let mut random = fastrand::Rng::with_seed(number as u64);
            let addresses: Box<[IpAddr]> = (0..ADDRESSES).map(|_| routes.address(&mut random)).collect();
            self.readers.push(crew::spawn(self.scope, move || state.read(store, number, &addresses))?);
        }
        Ok(())
    }
}
