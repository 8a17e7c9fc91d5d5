//! What matters most of all figures: ours beside a few peers, for the page's head and for the summary.

use serde_json::{Value, json};

use super::data::{Document, Outcome};
use crate::harness::report::{OURS, figure, times};
use crate::harness::units::digits;

/// A line of the table, as the command writes figures.
#[derive(Debug)]
pub(super) struct Highlight {
    /// What was measured; empty if it is that of the line above.
    pub(super) what: String,
    pub(super) ours: String,
    pub(super) peer: String,
    pub(super) theirs: String,
    pub(super) ratio: String,
    pub(super) range: String,
}

pub(super) const HOW_TO_READ: &str = "Medians over interleaved rounds. The ratio is formed within each round, and its median \
     stands beside its extremes; below 1 we take less time, of a rate above 1 we do more.";

/// A quantity and the peers that are shown beside ours.
struct Choice {
    bench: &'static str,
    what: String,
    metric: &'static str,
    config: Vec<(&'static str, Value)>,
    peers: &'static [&'static str],
}

/// The lines for what was measured.
pub(super) fn all(document: &Document) -> Vec<Highlight> {
    let mut lines = Vec::new();
    for choice in choices(document) {
        if let Some(result) = document.result(choice.bench) {
            lines.extend(compare(result, &choice));
        }
    }
    lines
}

fn choices(document: &Document) -> Vec<Choice> {
    let most = |bench: &str, metric: &str, name: &str| {
        let values = document.result(bench).map(|result| result.values(metric, name)).unwrap_or_default();
        values.into_iter().fold(1.0, f64::max) as u64
    };
    let choice = |bench, what: &str, metric, config: &[(&'static str, Value)], peers| Choice {
        bench,
        what: what.to_owned(),
        metric,
        config: config.to_vec(),
        peers,
    };
    let (threads, cpus) = (most("lock", "mops", "threads"), most("lock", "mops", "cpus"));
    let crowd = [("threads", json!(threads)), ("cpus", json!(cpus))];
    let alone = [("threads", json!(threads)), ("cpus", json!(1))];
    let mutexes: &[&str] = &["std", "parking_lot-0.12", "parking_lot-0.13"];
    vec![
        choice(
            "read",
            "A read: enter, load, leave",
            "pair_ns",
            &[("threads", json!(1)), ("nesting", json!(1))],
            &["liburcu-memb", "crossbeam-epoch", "arc-swap", "std-rwlock"],
        ),
        choice(
            "read",
            "The same in two threads",
            "pair_ns",
            &[("threads", json!(2)), ("nesting", json!(1))],
            &["liburcu-memb", "crossbeam-epoch"],
        ),
        choice(
            "sync",
            "synchronize() beside a reader, median",
            "p50_ns",
            &[("readers", json!(1)), ("section_us", json!(0)), ("callers", json!(1))],
            &["liburcu-memb"],
        ),
        choice(
            "sync",
            "synchronize() beside 4 readers in sections of 1 ms, median",
            "p50_ns",
            &[("readers", json!(4)), ("section_us", json!(1000))],
            &["liburcu-memb"],
        ),
        choice(
            "sync",
            "synchronize() by 32 callers at a time, 99.9 %",
            "p999_ns",
            &[("callers", json!(32))],
            &["liburcu-memb"],
        ),
        choice(
            "sync",
            "synchronize() with 1000 idle threads, median",
            "p50_ns",
            &[("readers", json!(0)), ("idle_threads", json!(1000))],
            &["liburcu-memb"],
        ),
        choice(
            "callback",
            "From call to callback beside a reader, median",
            "latency_p50_ns",
            &[("readers", json!(1))],
            &["liburcu-memb"],
        ),
        choice(
            "callback",
            "Allocate, publish, retire a value beside a reader",
            "retire_ns",
            &[("threads", json!(1)), ("readers", json!(1))],
            &["liburcu-memb", "crossbeam-epoch"],
        ),
        choice(
            "callback",
            "Most memory that waited while a reader stalled",
            "peak_bytes",
            &[],
            &["liburcu-memb", "crossbeam-epoch"],
        ),
        choice(
            "qsbr",
            "A read by a thread that reports",
            "read_ns",
            &[("threads", json!(1))],
            &["bare-load", "liburcu-qsbr"],
        ),
        choice(
            "qsbr",
            "Updates a second beside 16 such threads",
            "updates_per_s",
            &[("readers", json!(16)), ("asked_per_s", json!(0))],
            &["liburcu-qsbr"],
        ),
        choice(
            "srcu",
            "A section that may sleep",
            "pair_ns",
            &[("threads", json!(1))],
            &["tokio-rwlock", "arc-swap-full"],
        ),
        choice(
            "percpu",
            "An add to a counter, 1 thread a CPU",
            "op_ns",
            &[
                ("op", json!("add")),
                ("threads", json!(most("percpu", "op_ns", "threads") / 16)),
                ("threads_per_cpu", json!(1)),
            ],
            &["thread-local", "contatori", "fast-counter", "shared-atomic"],
        ),
        choice("lock", &format!("Acquisitions in a µs, {threads} threads"), "mops", &crowd, mutexes),
        choice("lock", &format!("The longest wait, {threads} threads"), "max_wait_ns", &crowd, mutexes),
        choice(
            "lock",
            &format!("The longest wait, {threads} threads on one CPU"),
            "max_wait_ns",
            &alone,
            mutexes,
        ),
    ]
}

fn compare(result: &Outcome, choice: &Choice) -> Vec<Highlight> {
    let wanted = (choice.metric, &choice.config[..]);
    let mut lines: Vec<Highlight> = Vec::new();
    for peer in choice.peers {
        let (Some(ours), Some(theirs)) = (result.row(OURS, wanted), result.row(peer, wanted)) else {
            continue;
        };
        let is_first = lines.is_empty();
        let first = |text: String| if is_first { text } else { String::new() };
        let ratio = result.ratio(peer, wanted).map(|ratio| ratio.summary);
        lines.push(Highlight {
            what: first(choice.what.clone()),
            ours: first(figure(ours.summary.median, &ours.unit)),
            peer: (*peer).to_owned(),
            theirs: figure(theirs.summary.median, &theirs.unit),
            ratio: ratio.map(|ratio| times(ratio.median)).unwrap_or_default(),
            range: ratio
                .map(|ratio| format!("{}..{}", digits(ratio.min), digits(ratio.max)))
                .unwrap_or_default(),
        });
    }
    lines
}
