//! A recorder of the crate `metrics` that counts on each CPU, and its text in the format of Prometheus, by the
//! encoder of `prometheus-client`.
//!
//! `counter!` looks its series up at each call, without a lock; a handle that is kept adds in nanoseconds. The text
//! stops no thread.

use std::collections::BTreeMap;
use std::fmt::{Debug, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{mem, thread};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use stillpoint::{percpu, rcu};
use stillpoint_collections::Family;

/// Nanoseconds.
const BOUNDS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

#[derive(Debug, Default)]
struct Count(percpu::Counter);

impl metrics::CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.add(value);
    }
    fn absolute(&self, value: u64) {
        self.0.add(value.saturating_sub(self.0.get()));
    }
}

/// Seconds.
#[derive(Debug)]
struct Times(percpu::BucketHistogram);

impl metrics::HistogramFn for Times {
    fn record(&self, value: f64) {
        self.0.record((value * 1e9) as u64);
    }
}

/// The recorder, and what `prometheus-client` collects.
#[derive(Debug)]
struct OnEachCpu {
    counters: Family<Key, Count>,
    gauges: Family<Key, AtomicU64>,
    times: Family<Key, Times>,
}

impl Recorder for OnEachCpu {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.counters.get_or_create_owned(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.gauges.get_or_create_owned(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.times.get_or_create_owned(key))
    }
}

/// Writes the series of a kind: those of one name together.
fn encode<M: Debug + Send + Sync>(
    family: &Family<Key, M>,
    kind: MetricType,
    encoder: &mut DescriptorEncoder<'_>,
    one: impl Fn(&M, MetricEncoder<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let guard = rcu::enter();
    let mut names = BTreeMap::<_, Vec<_>>::new();
    family.iter(&guard).for_each(|(key, metric)| names.entry(key.name()).or_default().push((key, metric)));
    for (name, series) in names {
        let mut encoder = encoder.encode_descriptor(name, name, None, kind)?;
        for (key, metric) in series {
            let labels: Vec<_> = key.labels().map(|label| (label.key(), label.value())).collect();
            one(metric, encoder.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

impl Collector for OnEachCpu {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), Error> {
        encode(&self.counters, MetricType::Counter, &mut to, |count, mut to| {
            to.encode_counter::<NoLabelSet, _, u64>(&count.0.get(), None)
        })?;
        encode(&self.gauges, MetricType::Gauge, &mut to, |gauge, mut to| {
            to.encode_gauge(&f64::from_bits(gauge.load(Relaxed)))
        })?;
        encode(&self.times, MetricType::Histogram, &mut to, |times, mut to| {
            let seen = times.0.snapshot();
            let seconds = |nanoseconds| nanoseconds as f64 / 1e9;
            let ends = BOUNDS.map(seconds).into_iter().chain([f64::INFINITY]);
            let mut below = 0;
            let counts = seen.cumulative(BOUNDS).map(|(_, count)| count).chain([seen.count()]);
            let counts = counts.map(|count| count - mem::replace(&mut below, count));
            let buckets: Vec<_> = ends.zip(counts).collect();
            to.encode_histogram::<NoLabelSet>(seconds(seen.sum()), seen.count(), &buckets, None)
        })
    }
}

fn main() {
    let recorder = Arc::new(OnEachCpu {
        counters: Family::default(),
        gauges: Family::default(),
        times: Family::new_with_constructor(|| Times(percpu::BucketHistogram::new(&BOUNDS))),
    });
    metrics::set_global_recorder(recorder.clone()).expect("there is no other");
    let mut registry = Registry::default();
    registry.register_collector(Box::new(recorder));

    metrics::gauge!("threads").set(4.0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let all = metrics::counter!("requests", "method" => "GET");
                for number in 0..1000 {
                    all.increment(1);
                    metrics::counter!("answers", "status" => if number % 100 == 0 { "404" } else { "200" })
                        .increment(1);
                    metrics::histogram!("seconds").record(f64::from(number) / 1e6);
                }
            });
        }
    });
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("a string takes all");
    print!("{text}");
    let lines = [
        r#"requests_total{method="GET"} 4000"#,
        r#"answers_total{status="404"} 40"#,
        r#"answers_total{status="200"} 3960"#,
        r#"seconds_bucket{le="0.0001"} 404"#,
        r#"seconds_bucket{le="+Inf"} 4000"#,
        "seconds_count 4000",
        "threads 4.0",
    ];
    lines.iter().for_each(|line| assert!(text.lines().any(|other| other == *line), "no {line}"));
}
