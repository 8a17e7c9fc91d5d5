//! The result of a run: tables for the terminal, and JSON.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::posted::Posted;
use super::schema::{Config, Quoted, Ratio, Row, Text};
pub(crate) use super::schema::{Grid, Series, Skipped};
use super::stats::{Metric, Recorder};
use super::units::{digits, duration};

/// The system that this project is about; every ratio is its.
pub(crate) const OURS: &str = "stillpoint";

/// Everything a bench found out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) bench: Text,
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
    #[serde(default)]
    pub(crate) ratios: Vec<Ratio>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) series: Vec<Series>,
    #[serde(default)]
    pub(crate) skipped: Vec<Skipped>,
    /// The figures of the original post.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) posted: Option<Quoted>,
    /// How long it took, if it is part of a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<f64>,
    /// What the command prints, if it is part of a page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tables: Vec<Grid>,
}

impl Report {
    /// Summarizes the samples of `bench`.
    pub(crate) fn new(bench: &'static str, recorder: &Recorder, skipped: Vec<Skipped>) -> Self {
        let (rows, ratios) = (recorder.rows(), recorder.ratios(OURS));
        let (series, posted, seconds, tables) = Default::default();
        let (bench, machine) = (bench.into(), Machine::read());
        Self { bench, machine, rows, ratios, series, skipped, posted, seconds, tables }
    }

    /// Adds series, for the JSON and the plots made of it.
    pub(crate) fn with_series(self, series: Vec<Series>) -> Self {
        Self { series, ..self }
    }

    /// Adds the figures of the original post.
    pub(crate) fn with_posted(self, posted: &'static Posted) -> Self {
        Self { posted: Some(posted.into()), ..self }
    }

    /// Name of the bench.
    pub(crate) fn bench(&self) -> &str {
        &self.bench
    }

    /// The figures of the original post.
    pub(crate) fn posted(&self) -> Option<&Quoted> {
        self.posted.as_ref()
    }

    /// Writes the report as JSON to `path`.
    pub(crate) fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(self).context("cannot encode the report")?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// A table for each set of parameters: one line for each quantity and each peer that measured it too. Medians over
    /// the rounds; the ratio is ours to theirs, followed by its extremes.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let mut sets: Vec<Vec<&str>> = Vec::new();
        for row in &self.rows {
            let keys = row.config.names();
            if !sets.contains(&keys) {
                sets.push(keys);
            }
        }
        sets.iter().map(|keys| self.table(keys)).collect()
    }

    /// The table of the rows whose parameters are `keys`.
    fn table(&self, keys: &[&str]) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        let heads = ["metric", OURS, "peer", "theirs", "ratio", "min..max"];
        table.set_header(keys.iter().copied().chain(heads));

        let mut shown: Vec<(&Config, Vec<&str>)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.config.names() == keys) {
            match shown.iter_mut().find(|(config, _)| **config == row.config) {
                Some((_, metrics)) if metrics.contains(&&*row.metric) => (),
                Some((_, metrics)) => metrics.push(&row.metric),
                None => shown.push((&row.config, vec![&row.metric])),
            }
        }
        for (config, metrics) in shown {
            let lines = metrics.into_iter().flat_map(|metric| self.lines(config, metric));
            for (index, line) in lines.enumerate() {
                let parameter = |value| if index == 0 { value } else { String::new() };
                table.add_row(config.values().map(parameter).chain(line));
            }
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            let name_or_peer = index == keys.len() || index == keys.len() + 2;
            column.set_cell_alignment(if name_or_peer { CellAlignment::Left } else { CellAlignment::Right });
        }
        table
    }

    /// The lines of one quantity: ours beside each peer, or ours alone.
    fn lines(&self, config: &Config, metric: &str) -> Vec<[String; 6]> {
        let same = |row: &&Row| row.config == *config && row.metric == metric;
        let ours = self.rows.iter().filter(same).find(|row| row.system == OURS);
        let our_value = ours.map(value_of).unwrap_or_default();
        let mut lines = Vec::new();
        for theirs in self.rows.iter().filter(same).filter(|row| row.system != OURS) {
            let is_theirs = |r: &&Ratio| r.to == theirs.system && r.metric == metric && r.config == *config;
            let (ratio, range) =
                self.ratios.iter().find(is_theirs).map_or_else(Default::default, |ratio| {
                    (times(ratio.summary.median), ratio.summary.range())
                });
            let (peer, value) = (theirs.system.to_string(), value_of(theirs));
            lines.push([metric.to_owned(), our_value.clone(), peer, value, ratio, range]);
        }
        if lines.is_empty() {
            let empty = String::new;
            lines.push([metric.to_owned(), our_value, empty(), empty(), empty(), empty()]);
        }
        lines
    }

    /// Prints the table and what was skipped to standard output.
    pub(crate) fn print(&self) {
        println!("bench {}", self.headline());
        for table in self.tables() {
            println!("{table}");
        }
        self.print_skipped();
    }

    /// What was measured, and where.
    pub(crate) fn headline(&self) -> String {
        let m = &self.machine;
        format!("{}: {} ({} CPUs), Linux {}, fence {}", self.bench, m.cpu, m.cpus, m.kernel, m.fence)
    }

    /// Prints what was not measured, and why.
    pub(crate) fn print_skipped(&self) {
        for skipped in &self.skipped {
            println!("skipped {}: {}", skipped.system, skipped.why);
        }
    }

    fn row(&self, system: &str, metric: &Metric, config: &Config) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.system == system && row.metric == metric.name && row.config == *config)
    }

    /// The median of a quantity, with its unit; empty if it was not measured.
    pub(crate) fn value(&self, system: &str, metric: &Metric, config: &Config) -> String {
        self.row(system, metric, config).map(value_of).unwrap_or_default()
    }

    /// How we compare to `theirs`; empty if one of the two was not measured.
    pub(crate) fn ratio(&self, theirs: &str, metric: &Metric, config: &Config) -> String {
        let is_it = |r: &&Ratio| r.to == theirs && r.metric == metric.name && r.config == *config;
        self.ratios.iter().find(is_it).map(|ratio| times(ratio.summary.median)).unwrap_or_default()
    }

    /// The extremes of a quantity, as `least..greatest`; empty if it was not measured.
    pub(crate) fn range(&self, system: &str, metric: &Metric, config: &Config) -> String {
        self.row(system, metric, config).map(|row| row.summary.range()).unwrap_or_default()
    }
}

/// A ratio as people write it.
pub(crate) fn times(ratio: f64) -> String {
    format!("{}x", digits(ratio))
}

fn value_of(row: &Row) -> String {
    figure(row.summary.median, &row.unit)
}

/// A value as people write it.
pub(crate) fn figure(value: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(value),
        "ratio" => times(value),
        "bytes" => bytes(value),
        _ => digits(value),
    }
}

/// An amount of memory with the unit that suits its size.
fn bytes(bytes: f64) -> String {
    match bytes {
        _ if bytes < 1024.0 => format!("{} B", digits(bytes)),
        _ if bytes < 1_048_576.0 => format!("{} KiB", digits(bytes / 1024.0)),
        _ => format!("{} MiB", digits(bytes / 1_048_576.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stats::Metric;
    use super::*;

    const COST: Metric = Metric::nanoseconds("pair_ns");

    fn report() -> Report {
        let config = Config::new([("threads", 2.into()), ("nesting", 1.into())]);
        let mut recorder = Recorder::default();
        for (round, ours) in [1.0, 2.0, 3.0].into_iter().enumerate() {
            recorder.record(round, OURS, &COST, &config, ours);
            recorder.record(round, "peer", &COST, &config, 4.0);
        }
        Report::new("read", &recorder, vec![Skipped { system: "other".into(), why: "not built in".into() }])
    }

    #[test]
    fn json_has_documented_shape() {
        let json = serde_json::to_value(report()).expect("a report is JSON");
        let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["bench", "machine", "rows", "ratios", "skipped"]);
        assert_eq!(json["bench"], "read");
        assert!(json["machine"]["cpus"].is_u64());
        let config = serde_json::json!({"threads": 2, "nesting": 1});
        assert_eq!(
            json["rows"][0],
            serde_json::json!({
                "system": "stillpoint", "metric": "pair_ns", "unit": "ns", "better": "lower",
                "config": config, "median": 2.0, "min": 1.0, "max": 3.0
            })
        );
        assert_eq!(
            json["ratios"],
            serde_json::json!([{
                "of": "stillpoint", "to": "peer", "metric": "pair_ns", "better": "lower",
                "config": config, "median": 0.5, "min": 0.25, "max": 0.75
            }])
        );
        assert_eq!(json["skipped"], serde_json::json!([{"system": "other", "why": "not built in"}]));
    }

    #[test]
    fn table_shows_both_sides_and_ratio() {
        let table = report().tables()[0].to_string();
        for part in ["threads", "pair_ns", "2.00 ns", "4.00 ns", "0.50x", "0.25..0.75"] {
            assert!(table.contains(part), "{part} is missing in\n{table}");
        }
        assert!(!table.contains('\u{1b}'), "colour in\n{table}");
    }

    #[test]
    fn duration_has_fitting_unit() {
        assert_eq!(duration(0.64), "0.64 ns");
        assert_eq!(duration(12_345.0), "12.3 us");
        assert_eq!(duration(66_000_000.0), "66.0 ms");
        assert_eq!(digits(0.0), "0");
        assert_eq!(digits(0.0123), "0.0123");
    }
}
