//! What each library guarantees (`guarantees.txt`): only what gives the same is compared as a peer.

use std::fmt::Write as _;

use harness::Report;
use harness::stats::Row;

/// Returns the cells of each line of a list that is no comment.
pub(crate) fn lines<const N: usize>(list: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let cells = |line: &'static str| line.split('|').map(str::trim).collect::<Vec<_>>().try_into();
    list.lines()
        .filter(|line| !line.starts_with(['#', '=']))
        .map(move |line| cells(line).expect("as many cells"))
}

const LIST: &str = include_str!("guarantees.txt");

/// Returns what ours is in a row of a bench, if not all peers are that.
fn wanted(bench: &str, row: &Row) -> Option<&'static str> {
    let of = format!("{bench} {} {}", row.metric, row.config);
    let is_of = |words: &str| words.split(' ').all(|word| of.split(' ').any(|own| own == word));
    let rules =
        LIST.lines().filter_map(|line| line.strip_prefix("= ")).filter_map(|rule| rule.split_once(" | "));
    rules.filter(|(words, _)| is_of(words)).map(|(_, kind)| kind).next()
}

/// Returns the rows of peers that give what our `row` gives, the best first, and those of the others.
pub(crate) fn peers<'a>(report: &'a Report, row: &Row) -> (Vec<&'a Row>, Vec<&'a Row>) {
    let kind = wanted(&report.bench, row);
    let is = |system: &str, kind: &str| {
        lines::<5>(LIST).any(|[name, is, ..]| name == system && is.split(' ').any(|own| own == kind))
    };
    report.peers(row).into_iter().partition(|peer| kind.is_none_or(|kind| is(&peer.system, kind)))
}

/// Returns those of the list that keep what was read, as a table in Markdown.
pub(crate) fn table() -> String {
    let mut text =
        "| | is a | what was read stays until | what waits is bounded by | `Send`, across `.await` |\n"
            .to_owned();
    text += "|---|---|---|---|---|\n";
    for line in lines::<5>(LIST).filter(|line| !line[2].is_empty()) {
        let _ = writeln!(text, "| {} |", line.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use harness::Recorder;
    use harness::report::OURS;
    use harness::stats::{Config, Metric};

    use super::*;

    #[test]
    fn peers_are_those_that_give_the_same() {
        const PAIR: Metric = Metric::nanoseconds("pair_ns");
        let of = |bench| {
            let mut recorder = Recorder::new(bench);
            for (system, value) in [(OURS, 2.0), ("arc-swap-cache", 1.0), ("arc-swap", 4.0), ("seize", 3.0)] {
                recorder.record(0, system, &PAIR, &Config::default(), value);
            }
            let report = Report::new(&recorder, Vec::new());
            let (alike, others) = peers(&report, &report.rows[0]);
            [alike, others].map(|rows| rows.iter().map(|row| row.system.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(of("read"), [vec!["seize", "arc-swap"], vec!["arc-swap-cache"]]);
        assert_eq!(of("srcu"), [vec!["arc-swap"], vec!["arc-swap-cache", "seize"]]);
        assert_eq!(of("rwlock")[0].len(), 3);
    }

    /// Whether a type is `Send`: for one that is, the constant of the type hides that of the trait.
    struct Probe<T: ?Sized>(PhantomData<T>);
    trait OfNone {
        const IS_SEND: bool = false;
    }
    impl<T: ?Sized> OfNone for Probe<T> {}
    impl<T: ?Sized + Send> Probe<T> {
        const IS_SEND: bool = true;
    }

    #[test]
    fn guards_are_send_as_the_list_says() {
        type Lock = std::sync::RwLock<u64>;
        let guards = [
            ("crossbeam-epoch", Probe::<crossbeam_epoch::Guard>::IS_SEND),
            ("seize", Probe::<seize::LocalGuard<'static>>::IS_SEND),
            ("kovan", Probe::<kovan::Guard>::IS_SEND),
            ("haphazard", Probe::<haphazard::HazardPointer<'static>>::IS_SEND),
            ("arc-swap", Probe::<arc_swap::Guard<std::sync::Arc<u64>>>::IS_SEND),
            ("hazarc", Probe::<hazarc::ArcBorrow<u64>>::IS_SEND),
            ("left-right", Probe::<left_right::ReadGuard<'static, u64>>::IS_SEND),
            ("std-rwlock", Probe::<std::sync::RwLockReadGuard<'static, Lock>>::IS_SEND),
            ("std-mutex", Probe::<std::sync::MutexGuard<'static, Lock>>::IS_SEND),
            ("tokio-rwlock", Probe::<tokio::sync::RwLockReadGuard<'static, u64>>::IS_SEND),
            (
                "arc-swap-cache",
                Probe::<arc_swap::Cache<&arc_swap::ArcSwap<u64>, std::sync::Arc<u64>>>::IS_SEND,
            ),
            ("std-arc", Probe::<std::sync::Arc<u64>>::IS_SEND),
            ("dashmap", Probe::<dashmap::mapref::one::Ref<'static, u64, u64>>::IS_SEND),
            ("papaya", Probe::<papaya::LocalGuard<'static>>::IS_SEND),
            ("rwlock-hashbrown", Probe::<std::sync::RwLockReadGuard<'static, Lock>>::IS_SEND),
        ];
        let says = |name| lines::<5>(LIST).find(|line| line[0] == name).expect("a line")[4] == "yes";
        let wrong: Vec<_> = guards.into_iter().filter(|&(name, is_send)| says(name) != is_send).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
