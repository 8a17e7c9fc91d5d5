//! `bench map --cells jobs`: what people do with a map.
//!
//! `cpu_ns` is the CPU time of the process for an operation, workers included. The jobs:
//!
//! - `count`: adds to one of 10,000 counters with `u64` keys; `words`: to one of as many by `&str`, with the
//!   frequencies of words in a text. In maps whose names end in `-atomic`, and in `scc-index`, counters are atomic;
//! - `cache`: gets as frequent as words. What is missing is inserted, and each 12,500 insertions `retain` evicts an
//!   eighth of some 100,000 entries: `retain_max_ns` is the longest time that took. Values are numbers or strings;
//! - `churn`: inserts a key, and removes the one that was inserted 65,536 steps ago by the thread.
//!
//! With a million entries and one thread: `bytes` of an entry, and the CPU time of a get, of an entry of a walk over
//! all, and of an entry in a `retain` that removes one in 16, with the end of its grace period.
//!
//! Each measurement has a worker of its own (see [`harness::worker`]): what a map costs depends on where in the heap
//! its entries are, and so on the maps that the process had before.

use core::array;
use std::borrow::Borrow as _;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::repeat;
use crate::peers::counters::{self, Counted, Counters};
use crate::peers::maps::{self, Key as _, Map, Value};
use harness::given::cpu_time;
use harness::memory::allocated;
use harness::worker::{self, Worker};
use harness::{Budget, Config, Metric, Plan, Recorder, Report, System};

const CPU: Metric = Metric::nanoseconds("cpu_ns");
const LONGEST: Metric = Metric::nanoseconds("retain_max_ns");
const BYTES: Metric = Metric::bytes("bytes");
const GET: Metric = Metric::nanoseconds("get_ns");
const WALK: Metric = Metric::nanoseconds("walk_ns");
const RETAIN: Metric = Metric::nanoseconds("retain_ns");

const THREADS: [usize; 3] = [1, 2, 16];
const COUNTERS: usize = 10_000;
/// Entries of a cache.
const CACHED: usize = 100_000;
const EVICTED: usize = CACHED / 8;
/// What is not all in the cache.
const PAGES: usize = 10 * CACHED;
/// Entries of a thread in a churn.
const SESSIONS: usize = 1 << 16;
const MILLION: usize = 1_000_000;

type Job = fn(usize, Duration) -> anyhow::Result<[f64; 2]>;
const JOBS: [&str; 5] = ["count", "words", "cache", "cache-strings", "churn"];

/// A request to a worker: one for each process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Request {
    /// A job by its index, the number of threads, and the time.
    Job(usize, usize, Duration),
    Million,
}

/// What a system can do: the jobs, and a million entries.
struct Jobs {
    jobs: [Option<Job>; JOBS.len()],
    million: Option<fn() -> [f64; 4]>,
}

const fn counters<N: Counters<u64>, W: Counters<str>>() -> System<Jobs> {
    let jobs = [Some(count::<N> as Job), Some(words::<W> as Job), None, None, None];
    System { name: N::NAME, measure: Jobs { jobs, million: None } }
}

const fn all<N: Counters<u64>, W: Counters<str>, M: Map, S: Map<u64, String>>() -> System<Jobs> {
    let mut system = counters::<N, W>();
    system.measure.jobs[2] = Some(cache::<u64, M>);
    system.measure.jobs[3] = Some(cache::<String, S>);
    system.measure.jobs[4] = Some(churn::<M>);
    system.measure.million = Some(million::<M>);
    system
}

macro_rules! all {
    ($name:ident) => {
        all::<counters::$name<u64>, counters::$name<str>, maps::$name, maps::$name<u64, String>>()
    };
}

const COPY: Jobs = Jobs {
    jobs: [
        Some(count::<counters::CopyMap> as Job),
        None,
        Some(cache::<u64, maps::CopyMap>),
        None,
        Some(churn::<maps::CopyMap>),
    ],
    million: Some(million::<maps::CopyMap>),
};

const SYSTEMS: [System<Jobs>; 9] = [
    all!(Stillpoint),
    counters::<counters::StillpointAtomic<u64>, counters::StillpointAtomic<str>>(),
    System { name: <maps::CopyMap as Map>::NAME, measure: COPY },
    all!(Papaya),
    counters::<counters::PapayaAtomic<u64>, counters::PapayaAtomic<str>>(),
    all!(Dashmap),
    all!(Scc),
    all!(SccIndex),
    all!(Locked),
];

/// Runs the bench.
pub(super) fn run(budget: Budget) -> anyhow::Result<Report> {
    let (mut systems, mut recorder) = (SYSTEMS, Recorder::new("map"));
    let cells: Vec<_> = (0..JOBS.len()).flat_map(|job| THREADS.map(|threads| (job, threads))).collect();
    Plan::new(budget.share(0.7), 100, &cells, &mut systems, [&CPU, &LONGEST]).run(
        &mut recorder,
        |&(job, threads), system| {
            system.measure.jobs[job]?;
            Some(Config::new([("job", JOBS[job].into()), ("threads", threads.into())]))
        },
        |&(job, threads), system, slice| ask(system.name, Request::Job(job, threads, slice)),
    )?;
    let rounds = budget.rounds.or(Some(3));
    Plan::new(Budget { rounds, ..budget.share(0.3) }, 1, &[()], &mut systems, [&BYTES, &GET, &WALK, &RETAIN])
        .run(
            &mut recorder,
            |(), system| system.measure.million.map(|_| Config::new([("size", MILLION.into())])),
            |(), system, _| ask(system.name, Request::Million),
        )?;
    Ok(Report::new(&recorder, Vec::new()))
}

/// Has a worker measure.
fn ask<const N: usize>(system: &str, request: Request) -> anyhow::Result<[f64; N]> {
    // JSON has no NaN.
    let answer: Vec<Option<f64>> = Worker::start(&["jobs", system], None)?.measure(&request)?;
    Ok(array::from_fn(|at| answer[at].unwrap_or(f64::NAN)))
}

/// Runs the worker.
pub fn serve(args: &worker::Args) -> anyhow::Result<()> {
    let system = SYSTEMS.into_iter().find(|system| system.name == args.name).context("no such system")?;
    let measure = |request| match request {
        Request::Job(job, threads, time) => {
            Ok(system.measure.jobs[job].context("no such job")?(threads, time)?.to_vec())
        }
        Request::Million => Ok(system.measure.million.context("it has no million")?().to_vec()),
    };
    worker::serve(None, measure)
}

/// Random numbers, the same for all systems. Threads begin at different places.
fn random(table: &[u32], thread: usize, at: usize) -> usize {
    table[(thread * 0x0001_2345 + at) % table.len()] as usize
}

/// Numbers below `most`: the rank of a word in a text.
fn ranks(most: usize) -> Vec<u32> {
    let mut rng = Rng::with_seed(0);
    (0..1 << 20).map(|_| (most as f64).powf(rng.f64()) as u32 - 1).collect()
}

fn count<M: Counters<u64>>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
    static NUMBERS: OnceLock<Vec<u32>> = OnceLock::new();
    let mut rng = Rng::with_seed(0);
    let numbers = NUMBERS.get_or_init(|| (0..1 << 20).map(|_| rng.u32(..COUNTERS as u32)).collect());
    add_up::<u64, M>(threads, slice, numbers, &(0..COUNTERS).map(u64::with_number).collect::<Vec<_>>())
}

fn words<M: Counters<str>>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
    static RANKS: OnceLock<Vec<u32>> = OnceLock::new();
    let words: Vec<_> = (0..COUNTERS).map(String::with_number).collect();
    add_up::<str, M>(threads, slice, RANKS.get_or_init(|| ranks(COUNTERS)), &words)
}

fn add_up<Q: Counted + ?Sized, M: Counters<Q>>(
    threads: usize,
    slice: Duration,
    numbers: &[u32],
    keys: &[Q::Owned],
) -> anyhow::Result<[f64; 2]> {
    let map = M::default();
    keys.iter().for_each(|key| map.add(key.borrow()));
    let add = |thread, at| map.add(keys[random(numbers, thread, at)].borrow());
    let [cpu, _] = repeat(threads, slice, |thread| move |at| add(thread, at))?;
    Ok([cpu, f64::NAN])
}

fn cache<V: Value, M: Map<u64, V>>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
    static RANKS: OnceLock<Vec<u32>> = OnceLock::new();
    let (map, ranks) = (M::default(), RANKS.get_or_init(|| ranks(PAGES)));
    let (inserted, longest) = (AtomicUsize::new(0), AtomicU64::new(0));
    let insert = |page| map.insert(u64::with_number(page), V::of(page));
    (0..CACHED).for_each(insert);
    let look_up = |thread, at| {
        let page = random(ranks, thread, at);
        if black_box(map.get(&u64::with_number(page))).is_some() {
            return;
        }
        insert(page);
        let inserted = inserted.fetch_add(1, Relaxed) + 1;
        if inserted.is_multiple_of(EVICTED) {
            let (begin, turn) = (Instant::now(), (inserted / EVICTED) as u64);
            map.retain(|key| (key >> 40) % 8 != turn % 8);
            longest.fetch_max(begin.elapsed().as_nanos() as u64, Relaxed);
        }
    };
    let [cpu, _] = repeat(threads, slice, |thread| move |at| look_up(thread, at))?;
    let longest = longest.into_inner() as f64;
    Ok([cpu, if longest == 0.0 { f64::NAN } else { longest }])
}

fn churn<M: Map>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
    let (map, sessions) = (M::default(), SESSIONS / threads);
    let key = |thread, at| u64::with_number(thread << 40 | at);
    for thread in 0..threads {
        (0..sessions).for_each(|at| map.insert(key(thread, at), 0));
    }
    let come_and_go = |thread, at| {
        map.insert(key(thread, sessions + at), 0);
        map.remove(&key(thread, at));
    };
    let [cpu, _] = repeat(threads, slice, |thread| move |at| come_and_go(thread, at))?;
    Ok([cpu, f64::NAN])
}

/// Returns the bytes of an entry, and the nanoseconds of a get, of an entry of a walk, and of one in a `retain`.
fn million<M: Map>() -> [f64; 4] {
    let barrier = || stillpoint::Domain::barrier(&stillpoint::rcu::Global);
    // The stack of the library's worker, which is mapped as a whole and hardly touched, is no part of a map.
    stillpoint::rcu::call(|| ());
    barrier();
    let (map, before) = (M::default(), allocated());
    (0..MILLION).for_each(|number| map.insert(u64::with_number(number), number as u64));
    barrier();
    let bytes = allocated() - before;
    let (mut rng, mut sum) = (Rng::with_seed(0), 0_u64);
    let mut time = |job: &mut dyn FnMut(&mut u64)| {
        let begin = cpu_time();
        job(&mut sum);
        (cpu_time() - begin).as_nanos() as f64
    };
    let get = time(&mut |sum| {
        for _ in 0..MILLION {
            *sum += map.get(&u64::with_number(rng.usize(..MILLION))).unwrap_or(0);
        }
    });
    // The first walk may end a resize.
    map.for_each(|value| _ = black_box(value));
    let walk = time(&mut |sum| map.for_each(|value| *sum += value));
    let retain = time(&mut |_| {
        map.retain(|key| key >> 60 != 0);
        barrier();
    });
    black_box(sum);
    [bytes, get, walk, retain].map(|all| all / MILLION as f64)
}
