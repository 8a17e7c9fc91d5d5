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

use std::borrow::Borrow as _;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::repeat;
use super::systems::{Request, SYSTEMS, measure};
use crate::peers::counters::{Counted, Counters};
use crate::peers::maps::{Key as _, Map, Value};
use harness::given::cpu_time;
use harness::memory::allocated;
use harness::{Budget, Config, Metric, Plan, Recorder, Report};

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

/// Nanoseconds of CPU time of an operation, and of the longest `retain`, if there was one.
pub type Job = fn(usize, Duration) -> anyhow::Result<[f64; 2]>;
pub const JOBS: [&str; 5] = ["count", "words", "cache", "cache-strings", "churn"];

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
        |&(job, threads), system, slice| measure(system.name, Request::Job(job, threads, slice)),
    )?;
    let rounds = budget.rounds.or(Some(3));
    Plan::new(Budget { rounds, ..budget.share(0.3) }, 1, &[()], &mut systems, [&BYTES, &GET, &WALK, &RETAIN])
        .run(
            &mut recorder,
            |(), system| system.measure.numbers.map(|_| Config::new([("size", MILLION.into())])),
            |(), system, _| measure(system.name, Request::Million),
        )?;
    Ok(Report::new(&recorder, Vec::new()))
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

pub fn count<M: Counters<u64>>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
    static NUMBERS: OnceLock<Vec<u32>> = OnceLock::new();
    let mut rng = Rng::with_seed(0);
    let numbers = NUMBERS.get_or_init(|| (0..1 << 20).map(|_| rng.u32(..COUNTERS as u32)).collect());
    add_up::<u64, M>(threads, slice, numbers, &(0..COUNTERS).map(u64::with_number).collect::<Vec<_>>())
}

pub fn words<M: Counters<str>>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
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

pub fn cache<V: Value, M: Map<u64, V>>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
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

pub fn churn<M: Map>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
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
pub fn million<M: Map>() -> [f64; 4] {
    let barrier = || stillpoint::Domain::barrier(&stillpoint::rcu::Global);
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
