//! What the demo prints on standard output, without colours.

use indicatif::HumanCount;

use super::worker::{STORES, Snapshot};
use harness::pin::CpuPair;
use harness::report::{Grid, figure};
use harness::stats::Summary;
use harness::units::duration;

/// The part of its rate that a reader may lose to an updater on another CPU.
const GOAL: f64 = 0.10;

/// Prints what runs.
pub(super) fn opening(prefixes: u32, cpus: usize) {
    println!(
        "Longest-prefix match on {} prefixes (IPv4; generated, lengths as in the global table) under live updates.",
        HumanCount(prefixes.into())
    );
    let backend = stillpoint::fence::backend();
    println!("CPUs: {cpus}. Updaters: 1, at full speed. Fences of stillpoint: {backend}.");
}

/// Prints what was measured of each store: medians of the rates, the worst of the rest.
pub(super) fn table(title: &str, stores: &[Vec<Snapshot>]) {
    let heads = ["", "lookups/s", "p99.9 lookup", "updates/s", "longest update", "awaiting reclamation"];
    let mut rows = Vec::new();
    for ((name, _), rounds) in STORES.into_iter().zip(stores) {
        let median_of = |figure: fn(&Snapshot) -> f64| median(rounds.iter().map(figure).collect());
        let worst = |figure: fn(&Snapshot) -> u64| rounds.iter().map(figure).max().unwrap_or_default() as f64;
        rows.push(vec![
            name.to_owned(),
            rate(median_of(|done| done.lookups as f64 / done.seconds)),
            duration(median_of(|done| done.slow_lookup_ns as f64)),
            rate(median_of(|done| done.updates as f64 / done.seconds)),
            duration(worst(|done| done.longest_update_ns)),
            figure(worst(|done| done.awaiting as u64), "bytes"),
        ]);
    }
    println!("{}", Grid::new(title, &heads, rows));
}

/// The part of its rate that a reader loses to an updater on another CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slowdown {
    pub(super) cpus: CpuPair,
    /// When it updates the table that the reader reads.
    pub(super) here: f64,
    /// When it updates another one: what it costs to share the machine.
    pub(super) elsewhere: f64,
}

/// Prints by how much the updater slows a reader, if there was a CPU for each.
pub(super) fn slowdown(found: Option<Slowdown>) {
    let Some(Slowdown { cpus, here, elsewhere }) = found else {
        println!("\nSkipped: by how much the updater slows a reader. That takes a second CPU.");
        return;
    };
    let goal = if here <= GOAL { "within" } else { "beyond" };
    let sharing = if cpus.one_core { "a core and memory" } else { "memory" };
    let [here, elsewhere, limit] = [here, elsewhere, GOAL].map(|part| 100.0 * part);
    println!("\nstillpoint, 1 reader pinned to CPU {}, updater to CPU {}:", cpus.first, cpus.second);
    println!("the updater slows a reader by {here:.1} % ({goal} the goal of {limit:.0} %);");
    println!("by {elsewhere:.1} % when it updates a table that is not read: the cost of sharing {sharing}.");
}

/// Prints how to read the tables.
pub(super) fn closing(rounds: usize) {
    println!(
        "\nRates and p99.9 are medians of {rounds} interleaved rounds; the last two columns, the worst seen."
    );
}

pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        1e7.. => format!("{:.1} M", per_second / 1e6),
        1e6.. => format!("{:.2} M", per_second / 1e6),
        1e3.. => format!("{:.1} k", per_second / 1e3),
        _ => format!("{per_second:.0}"),
    }
}

/// Returns the median, `NaN` of nothing.
pub(super) fn median(values: Vec<f64>) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_the_unit_that_keeps_them_short() {
        assert_eq!([1.0, 1234.0, 2_345_678.0, 2e7].map(rate), ["1", "1.2 k", "2.35 M", "20.0 M"]);
    }
}
