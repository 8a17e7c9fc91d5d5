//! `bench counter`: counters with labels, beside the crates with which programs count.
//!
//! - `op_ns`: an add by a handle that was looked up before (`add`), or that looks its series up by two
//!   labels among [`SERIES`] (`lookup`). `kept`: the rate of 16 threads a CPU, as a part of that of one thread a CPU.
//! - `series_bytes`: memory of each of [`SERIES`], allocated or mapped, with its labels and a handle. `sum_ns`: a sum
//!   over all, ours by iterating over the family, others by handles.
//! - `life_ns`: creating a counter without labels, an add, and dropping it, while `live` others are there.
//!   `counter_bytes`: memory of each of these; `left_bytes`: of all of them, after they were dropped.
//!
//! Times are CPU time.
//!
//! OpenTelemetry's SDK takes no aggregator from outside: its trait is private, and
//! [`Aggregation`](opentelemetry_sdk::metrics::Aggregation) a list. Its handles are experimental.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use contatori::counters::unsigned::Unsigned;
use fast_counter::ConcurrentCounter;
use harness::memory::allocated;
use harness::report::OURS;
use harness::timed_loop::{Threads, thread_cpu_time};
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, System, pin};
use metrics::{Key, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::PrometheusBuilder;
use opentelemetry::{KeyValue, metrics::MeterProvider as _};
use opentelemetry_sdk::metrics::{Instrument, ManualReader, SdkMeterProvider, Stream};
use prometheus::{IntCounter, IntCounterVec, Opts};
use prometheus_client::metrics as client;
use stillpoint::{percpu::Counter, rcu};
use stillpoint_collections::Family;
use stillpoint_collections::hash_map::Equivalent;

use super::percpu::{Loop, config, system};

const SERIES: usize = 10_000;
/// How many counters are there while others come and go.
const LIVE: [usize; 3] = [0, 100_000, 1_000_000];

const OP: Metric = Metric::nanoseconds("op_ns");
const KEPT: Metric = Metric { name: "kept", unit: "ratio", better: Better::Higher };
const BYTES: Metric = Metric::bytes("series_bytes");
const SUM: Metric = Metric::nanoseconds("sum_ns");
const LIFE: Metric = Metric::nanoseconds("life_ns");
const HELD: Metric = Metric::bytes("counter_bytes");
const LEFT: Metric = Metric::bytes("left_bytes");

/// Returns nanoseconds, bytes of each, and bytes that are left.
type Life = Box<dyn Fn(usize, Duration) -> [f64; 3]>;
type LoopOf = fn(&Peer) -> Option<&Loop>;

/// What is measured of a crate.
struct Peer {
    add: Loop,
    lookup: Option<Loop>,
    series: Option<Box<dyn Fn() -> [f64; 2]>>,
    life: Option<Life>,
    /// The most of [`LIVE`] for which there is memory.
    most: usize,
}

/// Returns the measurements of counters in a `family`: `of` returns a handle for labels, `add` adds by it, and `sum`
/// reads all.
fn peer<F: Send + Sync + 'static, H: Send + Sync + 'static>(
    name: &'static str,
    family: fn() -> F,
    of: fn(&F, &str) -> H,
    add: impl Fn(&H) + Copy + Send + Sync + 'static,
    sum: fn(&F, &[H]) -> Option<u64>,
) -> System<Peer> {
    let by_handle = family();
    let handle = of(&by_handle, "/");
    let by_handle = system(name, (by_handle, handle), move |(_, handle)| add(handle)).measure;
    let series = move || {
        let (paths, first) = (paths(), family());
        // What the first one allocates for all.
        add(&of(&first, "/"));
        let before = allocated();
        let family = family();
        let handles: Vec<_> = paths.iter().map(|path| of(&family, path)).collect();
        handles.iter().for_each(add);
        let bytes = (allocated() - before) / SERIES as f64;
        let began = thread_cpu_time();
        let time = black_box(sum(&family, &handles)).map(|_| (thread_cpu_time() - began).as_nanos() as f64);
        [bytes, time.unwrap_or(f64::NAN)]
    };
    let measure = Peer { add: by_handle, lookup: None, series: Some(Box::new(series)), life: None, most: 0 };
    System { name, measure }
}

/// Adds lookups: `add` looks a series up, and adds to it.
fn with_lookup<F: Send + Sync + 'static>(
    mut peer: System<Peer>,
    family: F,
    add: impl Fn(&F, &str) + Copy + Send + Sync + 'static,
) -> System<Peer> {
    let paths = paths();
    paths.iter().for_each(|path| add(&family, path));
    let lookup = move |(family, paths): &(F, Vec<String>)| add(family, black_box(&paths[SERIES / 2]));
    peer.measure.lookup = Some(system(peer.name, (family, paths), lookup).measure);
    peer
}

/// Adds the lives of counters without labels, of which there are `most`.
fn with_life<H: 'static>(
    mut peer: System<Peer>,
    most: usize,
    new: impl Fn() -> H + 'static,
    add: impl Fn(&H) + 'static,
) -> System<Peer> {
    let live = move |live: usize, slice| {
        let one = || {
            let counter = new();
            add(&counter);
            counter
        };
        drop(one());
        let before = allocated();
        let counters: Vec<_> = (0..live).map(|_| one()).collect();
        let bytes = (allocated() - before) / live as f64;
        let (began, mut lives) = (thread_cpu_time(), 0);
        while thread_cpu_time() - began < slice {
            (0..1000).for_each(|_| drop(black_box(one())));
            lives += 1000;
        }
        let life = (thread_cpu_time() - began).as_nanos() as f64 / f64::from(lives);
        drop(counters);
        [life, bytes, if live == 0 { f64::NAN } else { allocated() - before }]
    };
    peer.measure.life = Some(Box::new(live));
    peer.measure.most = most;
    peer
}

fn paths() -> Vec<String> {
    (0..SERIES).map(|number| format!("/path/{number}")).collect()
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Labels {
    method: &'static str,
    path: String,
}

impl Labels {
    fn of(path: &str) -> Self {
        Self { method: "GET", path: path.to_owned() }
    }
}

/// Labels to look a series up by, without a `String`.
#[derive(Hash)]
struct Borrowed<'a> {
    method: &'a str,
    path: &'a str,
}

impl Equivalent<Labels> for Borrowed<'_> {
    fn equivalent(&self, key: &Labels) -> bool {
        self.method == key.method && self.path == key.path
    }
}

fn ours() -> System<Peer> {
    type Counters = Family<Labels, Counter>;
    let sum =
        |family: &Counters, _: &[_]| Some(family.iter(&rcu::enter()).map(|(_, counter)| counter.get()).sum());
    let of = |family: &Counters, path: &str| family.get_or_create_owned(&Labels::of(path));
    let peer = peer(OURS, Counters::default, of, |counter| counter.inc(), sum);
    let peer = with_lookup(peer, Counters::default(), |family, path| {
        let guard = rcu::enter();
        let found = family.get(&Borrowed { method: "GET", path }, &guard);
        found.unwrap_or_else(|| family.get_or_create(&Labels::of(path), &guard)).inc();
    });
    with_life(peer, 1_000_000, <Counter>::new, Counter::inc)
}

fn prometheus() -> System<Peer> {
    let family = || IntCounterVec::new(Opts::new("name", "help"), &["method", "path"]).expect("valid names");
    let of = |family: &IntCounterVec, path: &str| family.with_label_values(&["GET", path]);
    let sum = |_: &_, all: &[IntCounter]| Some(all.iter().map(|counter| counter.get()).sum());
    let peer = peer("prometheus", family, of, IntCounter::inc, sum);
    let peer = with_lookup(peer, family(), move |family, path| of(family, path).inc());
    with_life(peer, 1_000_000, || IntCounter::new("name", "help").expect("valid names"), IntCounter::inc)
}

fn prometheus_client() -> System<Peer> {
    type Counters = client::family::Family<Labels, client::counter::Counter>;
    let of = |family: &Counters, path: &str| family.get_or_create_owned(&Labels::of(path));
    let add = |counter: &client::counter::Counter| _ = counter.inc();
    let sum = |_: &_, all: &[client::counter::Counter]| Some(all.iter().map(|counter| counter.get()).sum());
    let peer = peer("prometheus-client", Counters::default, of, add, sum);
    let peer = with_lookup(peer, Counters::default(), |family, path| {
        family.get_or_create(&Labels::of(path)).inc();
    });
    with_life(peer, 1_000_000, client::counter::Counter::default, add)
}

/// The crate `metrics` with the recorder that most programs install, called as the macros do.
fn metrics() -> System<Peer> {
    let family = || PrometheusBuilder::new().build_recorder();
    let of = |family: &metrics_exporter_prometheus::PrometheusRecorder, path: &str| {
        let labels = vec![Label::from_static_parts("method", "GET"), Label::new("path", path.to_owned())];
        let metadata = Metadata::new(module_path!(), Level::INFO, None);
        family.register_counter(&Key::from_parts("name", labels), &metadata)
    };
    let peer = peer("metrics", family, of, |counter| counter.increment(1), |_, _| None);
    with_lookup(peer, family(), move |family, path| of(family, path).increment(1))
}

fn opentelemetry() -> System<Peer> {
    type Counters = (SdkMeterProvider, opentelemetry::metrics::Counter<u64>);
    fn labels(path: &str) -> [KeyValue; 2] {
        [KeyValue::new("method", "GET"), KeyValue::new("path", path.to_owned())]
    }
    let family = || {
        // Otherwise those beyond 2,000 share one series.
        let unlimited = |_: &Instrument| Stream::builder().with_cardinality_limit(2 * SERIES).build().ok();
        let reader = ManualReader::builder().build();
        let provider = SdkMeterProvider::builder().with_reader(reader).with_view(unlimited).build();
        let counter = provider.meter("bench").u64_counter("name").build();
        (provider, counter)
    };
    let of = |family: &Counters, path: &str| family.1.bind(&labels(path));
    let peer = peer("opentelemetry", family, of, |counter| counter.add(1), |_, _| None);
    with_lookup(peer, family(), move |family, path| family.1.add(1, &labels(path)))
}

/// A crate without labels.
fn plain<H: Send + Sync + 'static>(
    name: &'static str,
    most: usize,
    new: fn() -> H,
    add: impl Fn(&H) + Copy + Send + Sync + 'static,
) -> System<Peer> {
    let handle = system(name, new(), add).measure;
    with_life(
        System { name, measure: Peer { add: handle, lookup: None, series: None, life: None, most } },
        most,
        new,
        add,
    )
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let atomic = |it: &AtomicU64| _ = it.fetch_add(1, Relaxed);
    // With as many cells as in `bench percpu`.
    let cells = || ConcurrentCounter::new(16 * pin::allowed().map_or(1, |cpus| cpus.len()));
    let mut systems = [
        ours(),
        prometheus(),
        prometheus_client(),
        metrics(),
        opentelemetry(),
        plain("shared-atomic", 1_000_000, || Box::new(AtomicU64::new(0)), move |it| atomic(it)),
        plain("contatori", 100_000, Unsigned::new, |it| it.add(1)),
        plain("fast-counter", 100_000, cells, |it| it.add(1)),
    ];
    let (mut recorder, threads) = (Recorder::new("counter"), Threads::all()?);
    let ops: [(_, LoopOf); 2] = [("add", |peer| Some(&peer.add)), ("lookup", |peer| peer.lookup.as_ref())];
    for (op, of) in ops {
        Plan::new(budget.share(0.3), 40, &threads, &mut systems, [&OP]).run(
            &mut recorder,
            |&threads, system| of(&system.measure).map(|_| config(threads, Some(op))),
            |threads, system, slice| {
                let run = of(&system.measure).expect("it is measured");
                Ok([threads.measure(slice, |timed_loop| run(timed_loop))?])
            },
        )?;
        if let [.., each, many] = threads[..] {
            let (each, many) = (config(each, Some(op)), config(many, Some(op)));
            for System { name, .. } in &systems {
                recorder.derive(&KEPT, (*name, &OP, &each), (*name, &OP, &many), |each, many| each / many);
            }
        }
    }
    Plan::new(budget.share(0.1), 40, &[()], &mut systems, [&BYTES, &SUM]).run(
        &mut recorder,
        |(), system| system.measure.series.as_ref().map(|_| Config::default()),
        |(), system, _| Ok((system.measure.series.as_ref().expect("it is measured"))()),
    )?;
    // A million of them takes longer to make than a slice.
    let few = Budget { rounds: budget.rounds.or(Some(5)), ..budget.share(0.3) };
    Plan::new(few, 40, &LIVE, &mut systems, [&LIFE, &HELD, &LEFT]).run(
        &mut recorder,
        |&live, System { measure: Peer { life, most, .. }, .. }| {
            (life.is_some() && live <= *most).then(|| Config::new([("live", live.into())]))
        },
        |&live, system, slice| Ok((system.measure.life.as_ref().expect("it is measured"))(live, slice)),
    )?;
    Ok(Report::new(&recorder, Vec::new()))
}
