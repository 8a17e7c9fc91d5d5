//! What the demo prints on standard output, without colours.

use comfy_table::{CellAlignment, Table, presets};

use super::run::Outcome;
use crate::harness::pin::CpuPair;
use crate::harness::stats::Summary;
use crate::harness::units::duration;

/// The part of its rate that a reader may lose to an updater on another CPU.
const GOAL: f64 = 0.10;

/// Says what runs.
pub(super) fn opening(prefixes: usize, cpus: usize) {
    println!(
        "Longest-prefix match on {} prefixes (IPv4; generated, lengths as in the global table) under live updates.",
        grouped(prefixes)
    );
    let backend = stillpoint::fence::backend();
    println!("CPUs: {cpus}. Updaters: 1, at full speed. Fences of stillpoint: {backend}.");
}

/// Shows what one part measured: medians of the rates, the worst of the rest.
pub(super) fn table(title: &str, contestants: &[(&str, Vec<Outcome>)]) {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "",
        "lookups/s",
        "p99.9 lookup",
        "updates/s",
        "longest update",
        "awaiting reclamation",
    ]);
    for (name, outcomes) in contestants {
        let median_of = |figure: fn(&Outcome) -> f64| median(outcomes.iter().map(figure).collect());
        let longest = outcomes.iter().map(|outcome| outcome.longest_update_ns).max().unwrap_or_default();
        let awaiting = outcomes.iter().map(|outcome| outcome.awaiting).max().unwrap_or_default();
        table.add_row([
            (*name).to_owned(),
            rate(median_of(|outcome| outcome.lookups)),
            duration(median_of(|outcome| outcome.slow_lookup as f64)),
            rate(median_of(|outcome| outcome.updates)),
            duration(longest as f64),
            bytes(awaiting),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("\n{title}\n{table}");
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

/// Says by how much the updater slows a reader, if there was a CPU for each.
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
    println!("by {elsewhere:.1} % when it updates a table that is not read: so much is sharing {sharing}.");
}

/// Says how to read the tables.
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

pub(super) fn bytes(bytes: usize) -> String {
    match bytes as f64 {
        bytes @ 1048576.0.. => format!("{:.1} MiB", bytes / 1048576.0),
        bytes @ 1024.0.. => format!("{:.1} KiB", bytes / 1024.0),
        bytes => format!("{bytes} B"),
    }
}

/// Returns the median, `NaN` of nothing.
pub(super) fn median(values: Vec<f64>) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

/// Groups digits by three.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_unit_that_keeps_them_short() {
        assert_eq!([1.0, 1234.0, 2_345_678.0, 2e7].map(rate), ["1", "1.2 k", "2.35 M", "20.0 M"]);
        assert_eq!([0, 1023, 1536, 3 << 20].map(bytes), ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]);
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
