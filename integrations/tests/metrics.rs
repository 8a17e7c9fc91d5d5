//! The statistics that a recorder of `metrics` receives.

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use stillpoint::Domain as _;
use stillpoint::rcu;
use stillpoint::{fence, metrics, srcu};

/// Returns what a recorder has received from `record`: name and labels, description, value.
fn recorded(record: impl FnOnce()) -> Vec<(String, Option<String>, DebugValue)> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, record);
    let entries = snapshotter.snapshot().into_vec().into_iter();
    let text = |key: ::metrics::Key| {
        let labels = key.labels().map(|label| format!(",{}={}", label.key(), label.value()));
        format!("{}{}", key.name(), labels.collect::<String>())
    };
    entries
        .map(|(key, _, help, value)| (text(key.into_parts().1), help.map(|help| help.into_owned()), value))
        .collect()
}

fn counter(entries: &[(String, Option<String>, DebugValue)], name: &str) -> u64 {
    match entries.iter().find(|(key, ..)| key == name) {
        Some((.., DebugValue::Counter(count))) => *count,
        other => panic!("{name} is {other:?}"),
    }
}

fn gauge(entries: &[(String, Option<String>, DebugValue)], name: &str) -> f64 {
    match entries.iter().find(|(key, ..)| key == name) {
        Some((.., DebugValue::Gauge(value))) => value.0,
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
    assert_eq!(counter(&exports, "stillpoint_grace_period_callers_total,domain=own"), stats.callers);
    let waits =
        |le| counter(&exports, &format!("stillpoint_grace_period_wait_seconds_bucket,domain=own,le={le}"));
    assert_eq!(waits("+Inf"), stats.grace_periods);
    assert!(waits("0.0001") == stats.waits[0] && waits("10") <= waits("+Inf"), "{stats:?}");
    assert_eq!(gauge(&exports, "stillpoint_grace_period_waiting_seconds,domain=own"), 0.0);
    assert_eq!(counter(&exports, "stillpoint_deferred_done_total,domain=own"), 1);
    assert_eq!(gauge(&exports, "stillpoint_readers,domain=own"), stats.readers as f64);
    assert_eq!(gauge(&exports, "stillpoint_deferred,domain=own"), 0.0);
    assert!(stats.grace_periods >= 3 && stats.readers >= 1, "{stats:?}");

    let sessions = srcu::Domain::new();
    let _guard = sessions.enter();
    let exports = recorded(|| metrics::export_domain(String::from("made at run time"), &sessions.stats()));
    assert_eq!(gauge(&exports, "stillpoint_readers,domain=made at run time"), 1.0);
}

#[test]
fn process_export_describes_every_metric() {
    rcu::synchronize();
    fence::heavy();
    let (grace_periods, fences) = (rcu::stats().grace_periods, fence::stats().calls);
    let exports = recorded(|| {
        metrics::describe();
        metrics::export();
    });
    assert!(counter(&exports, "stillpoint_grace_periods_total,domain=rcu") >= grace_periods);
    assert_eq!(counter(&exports, "stillpoint_grace_periods_total,domain=qsbr"), 0);
    assert!(counter(&exports, "stillpoint_fences_total") >= fences);
    for (name, help, _) in &exports {
        assert!(help.is_some(), "{name} is not described");
    }
}

#[test]
fn documentation_lists_every_metric() {
    let documented = include_str!("../../stillpoint/src/metrics.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `"));
    let mut documented: Vec<_> = documented.filter_map(|line| line.split('`').next()).collect();
    let exports = recorded(metrics::export);
    let mut exported: Vec<_> = exports.iter().filter_map(|(name, ..)| name.split(',').next()).collect();
    documented.sort_unstable();
    exported.sort_unstable();
    exported.dedup();
    assert_eq!(documented, exported);
}
