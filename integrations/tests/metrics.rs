//! The statistics that a recorder of `metrics` receives.

use std::collections::HashMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use stillpoint::Domain as _;
use stillpoint::rcu;
use stillpoint::{fence, metrics, srcu};

/// Returns what a recorder has received from `record`, by name and labels.
fn recorded(record: impl FnOnce()) -> HashMap<String, DebugValue> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, record);
    let entries = snapshotter.snapshot().into_vec().into_iter();
    let text = |key: ::metrics::Key| {
        let labels = key.labels().map(|label| format!(",{}={}", label.key(), label.value()));
        format!("{}{}", key.name(), labels.collect::<String>())
    };
    entries.map(|(key, .., value)| (text(key.into_parts().1), value)).collect()
}

fn counter(entries: &HashMap<String, DebugValue>, name: &str) -> u64 {
    match entries.get(name) {
        Some(DebugValue::Counter(count)) => *count,
        other => panic!("{name} is {other:?}"),
    }
}

fn gauge(entries: &HashMap<String, DebugValue>, name: &str) -> f64 {
    match entries.get(name) {
        Some(DebugValue::Gauge(value)) => value.0,
        other => panic!("{name} is {other:?}"),
    }
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
