//! The process that the live demo shows: readers, an updater, and a thread that waits for grace periods.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use stillpoint::rcu;

use super::super::rib::Rib;
use super::super::run::{self, Table, Traffic};
use super::super::stores::{InArcSwap, InEpoch, InMutex, InRcu, InRwLock, Store};
use super::super::{SEED, addresses};
use crate::harness::buckets::{BUCKETS, bucket};
use crate::harness::{crew, worker as lane};

/// The thread that waits for grace periods pauses for a random time up to this between two of them.
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
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    Stillpoint,
    CrossbeamEpoch,
    ArcSwap,
    Rwlock,
    Mutex,
}

/// Sets the number of readers, and asks for a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) readers: usize,
}

/// How far the process has come.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) traffic: run::Snapshot,
    pub(super) grace_periods: u64,
    /// Waits for a grace period, by bucket.
    pub(super) waits: Vec<u64>,
}

/// Runs the child.
///
/// # Errors
///
/// Fails if threads cannot be started, or the parent is gone.
pub(crate) fn serve(args: &Args) -> Result<()> {
    let missing = env::var("STILLPOINT_FENCE").ok().and_then(|backend| lane::lacks_backend(&backend));
    if missing.is_some() {
        return lane::serve(missing, |_: Request| Ok(Snapshot::default()));
    }
    let rib = Rib::generate(args.prefixes, SEED);
    match args.store {
        Kind::Stillpoint => work::<InRcu>(&rib),
        Kind::CrossbeamEpoch => work::<InEpoch>(&rib),
        Kind::ArcSwap => work::<InArcSwap>(&rib),
        Kind::Rwlock => work::<InRwLock>(&rib),
        Kind::Mutex => work::<InMutex>(&rib),
    }
}

fn work<S: Store>(rib: &Rib) -> Result<()> {
    let Table { store, rib: mut updated, gauge } = Table::<S>::new(rib);
    let (store, traffic) = (&store, &Traffic::new());
    let waits = &[const { AtomicU64::new(0) }; BUCKETS];
    thread::scope(|scope| {
        let mut readers = Readers { scope, traffic, store, rib, threads: Vec::new() };
        let start = || -> Result<()> {
            crew::spawn(scope, move || traffic.update(store, &mut updated, gauge))?;
            if S::NAME == InRcu::NAME {
                crew::spawn(scope, || wait(traffic, waits))?;
            }
            Ok(())
        };
        let served = start().and_then(|()| {
            lane::serve(None, |request: Request| {
                readers.resize(request.readers)?;
                let mut snapshot = traffic.snapshot();
                snapshot.awaiting = snapshot.awaiting.max(gauge.awaiting());
                let grace_periods = rcu::stats().grace_periods;
                let waits = waits.iter().map(|count| count.load(Relaxed)).collect();
                Ok(Snapshot { traffic: snapshot, grace_periods, waits })
            })
        });
        traffic.stop();
        served
    })
}

/// Waits for one grace period after the other, and counts the waits by bucket.
fn wait(traffic: &Traffic, waits: &[AtomicU64; BUCKETS]) {
    while !traffic.is_over() {
        let start = Instant::now();
        rcu::synchronize();
        // Relaxed: statistics only.
        waits[bucket(start.elapsed())].fetch_add(1, Relaxed);
        thread::sleep(Duration::from_micros(fastrand::u64(0..=LONGEST_PAUSE_US)));
    }
}

/// The readers that run.
struct Readers<'scope, 'env, S> {
    scope: &'scope Scope<'scope, 'env>,
    traffic: &'scope Traffic,
    store: &'scope S,
    rib: &'scope Rib,
    threads: Vec<ScopedJoinHandle<'scope, Histogram<u32>>>,
}

impl<S: Store> Readers<'_, '_, S> {
    /// Starts readers, or waits until some have ended.
    fn resize(&mut self, readers: usize) -> Result<()> {
        let Self { traffic, store, rib, .. } = *self;
        traffic.want(readers);
        for reader in self.threads.drain(readers.min(self.threads.len())..) {
            crew::join(reader)?;
        }
        for number in self.threads.len()..readers {
            let addresses = addresses(rib, number);
            self.threads.push(crew::spawn(self.scope, move || traffic.read(store, number, &addresses))?);
        }
        Ok(())
    }
}
