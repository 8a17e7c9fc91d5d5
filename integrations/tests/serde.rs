//! The statistics as JSON.

use serde_json::{json, to_value};
use stillpoint::percpu::Histogram;
use stillpoint::{fence, rcu};

#[test]
fn snapshot_is_serialized_with_sum_and_buckets() {
    let histogram = Histogram::new();
    [3, 3, 17].into_iter().for_each(|value| histogram.record(value));
    let buckets =
        json!([{ "lowest": 3, "highest": 3, "count": 2 }, { "lowest": 16, "highest": 17, "count": 1 }]);
    let expected = json!({ "count": 3, "sum": 23, "buckets": buckets });
    assert_eq!(to_value(histogram.snapshot()).expect("plain data"), expected);
}

#[test]
fn statistics_are_serialized_with_the_names_of_their_fields() {
    rcu::synchronize();
    let stats = rcu::stats();
    let value = to_value(stats).expect("plain data");
    assert_eq!(value["grace_periods"], stats.grace_periods);
    assert_eq!(value["longest_wait"]["nanos"], stats.longest_wait.subsec_nanos());
    fence::heavy();
    let (before, value) = (fence::stats(), to_value(fence::stats()).expect("plain data"));
    assert!(value["calls"].as_u64() >= Some(before.calls) && before.calls > 0, "{value}");
}
