//! The statistics that a recorder of `metrics` receives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use stillpoint::Domain as _;
use stillpoint::rcu;
use stillpoint::{fence, metrics, srcu};

/// What a recorder has received, by name and labels; gauges as the bits of their values.
#[derive(Default)]
struct Received(Mutex<HashMap<String, Arc<AtomicU64>>>);

impl Received {
    fn entry(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key.labels().map(|label| format!(",{}={}", label.key(), label.value()));
        let name = format!("{}{}", key.name(), labels.collect::<String>());
        self.0.lock().expect("no panic").entry(name).or_default().clone()
    }
}

impl Recorder for Received {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.entry(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("{key} is a histogram")
    }
}

/// Returns what a recorder has received from `record`.
fn recorded(record: impl FnOnce()) -> HashMap<String, u64> {
    let received = Received::default();
    ::metrics::with_local_recorder(&received, record);
    let entries = received.0.into_inner().expect("no panic").into_iter();
    entries.map(|(name, value)| (name, value.load(Relaxed))).collect()
}

fn counter(entries: &HashMap<String, u64>, name: &str) -> u64 {
    *entries.get(name).unwrap_or_else(|| panic!("{name} is missing"))
}

fn gauge(entries: &HashMap<String, u64>, name: &str) -> f64 {
    f64::from_bits(counter(entries, name))
}

#[test]
fn domain_is_exported_under_its_given_name() {
    stillpoint::domain! { struct Own; }
    drop(Own::enter());
    for _ in 0..3 {
        Own.synchronize();
    }
    Own.retire(Box::new(1));
    Own.barrier();
    let stats = Own.stats();
    let exports = recorded(|| metrics::export_domain("own", &stats));
    assert_eq!(counter(&exports, "stillpoint_grace_periods_total,domain=own"), stats.grace_periods);
    assert_eq!(counter(&exports, "stillpoint_callers_total,domain=own"), stats.callers);
    let waits = |le| counter(&exports, &format!("stillpoint_wait_seconds_bucket,domain=own,le={le}"));
    assert_eq!(waits("+Inf"), stats.grace_periods);
    assert!(waits("0.0001") == stats.waits[0] && waits("10") <= waits("+Inf"), "{stats:?}");
    assert_eq!(gauge(&exports, "stillpoint_waiting_seconds,domain=own"), 0.0);
    assert_eq!(counter(&exports, "stillpoint_done_total,domain=own"), 1);
    assert_eq!(gauge(&exports, "stillpoint_readers,domain=own"), stats.readers as f64);
    assert_eq!(gauge(&exports, "stillpoint_queued,domain=own"), 0.0);
    assert!(stats.grace_periods >= 3 && stats.readers >= 1, "{stats:?}");

    let sessions = srcu::Domain::new();
    let _guard = sessions.enter();
    let exports = recorded(|| metrics::export_domain(String::from("made at run time"), &sessions.stats()));
    assert_eq!(gauge(&exports, "stillpoint_readers,domain=made at run time"), 1.0);
}

#[test]
fn every_field_of_the_statistics_is_exported() {
    rcu::synchronize();
    fence::heavy();
    let (stats, fences) = (rcu::stats(), fence::calls());
    let exports = recorded(metrics::export);
    assert!(counter(&exports, "stillpoint_grace_periods_total,domain=rcu") >= stats.grace_periods);
    assert_eq!(counter(&exports, "stillpoint_grace_periods_total,domain=qsbr"), 0);
    assert!(counter(&exports, "stillpoint_fences_total") >= fences);
    for line in format!("{stats:#?}").lines() {
        let Some((field, _)) = line.trim().split_once(": ") else { continue };
        let begin = if field == "waits" { "stillpoint_wait_".into() } else { format!("stillpoint_{field}") };
        assert!(exports.keys().any(|name| name.starts_with(&begin)), "{field} is not exported");
    }
}
