//! The result of a run: tables for the terminal, and JSON.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::given::Cpus;
pub use super::grid::Grid;
use super::machine::Machine;
pub use super::schema::{Posted, Series, Skipped};
use super::schema::{Row, Summary, Text};
use super::stats::Recorder;
pub use super::units::{OURS, figure, times};

/// The verdict on what was measured with too few CPUs.
pub const UNCHECKED: &str = "cannot be checked here";

/// The result of a bench.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub bench: Text,
    pub machine: Machine,
    /// The CPUs that threads got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Cpus>,
    pub rows: Vec<Row>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// The figures of the original post.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted: Option<Posted>,
    /// The time of the measurement, if it is part of a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Tables other than those of the rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Grid>,
}

impl Report {
    /// Summarizes the samples of a bench.
    pub fn new(recorder: &Recorder, skipped: Vec<Skipped>) -> Self {
        let rows = recorder.rows(OURS);
        let (series, posted, seconds, tables) = Default::default();
        let (bench, machine) = (recorder.bench().into(), Machine::read());
        let cpus = recorder.given.cpus();
        Self { bench, machine, cpus, rows, series, skipped, posted, seconds, tables }
    }

    /// Writes the report as JSON to `path`.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(self).context("cannot encode the report")?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns it as a part of the report.
    pub fn as_part(self, name: &str, seconds: f64) -> Self {
        Self { bench: name.to_owned().into(), seconds: Some(seconds), tables: Vec::new(), ..self }
    }

    /// Returns all tables: the posted ones; one for each set of parameters, with a line for each row; and others.
    /// Values are medians over the rounds; the ratio is ours to theirs, followed by its extremes.
    pub fn grids(&self) -> Vec<Grid> {
        let mut measured: Vec<Grid> = Vec::new();
        for row in &self.rows {
            let heads = ["metric", "system", "", "ours / theirs", "min..max"];
            let head: Vec<&str> = row.config.names().into_iter().chain(heads).collect();
            let place = measured.iter().position(|grid| grid.head == head).unwrap_or_else(|| {
                measured.push(Grid::new("", &head, Vec::new()));
                measured.len() - 1
            });
            let texts = |ratio: Summary| [times(ratio.median), ratio.range()];
            let [ratio, range] = row.ratio.map_or_else(Default::default, texts);
            let (metric, system) = (row.metric.to_string(), row.system.to_string());
            let value = figure(row.summary.median, &row.unit);
            measured[place]
                .rows
                .push(row.config.values().chain([metric, system, value, ratio, range]).collect());
        }
        let posted = self.posted.iter().flat_map(|posted| posted.tables.iter().cloned());
        posted.chain(measured).chain(self.tables.iter().cloned()).collect()
    }

    /// Prints what was measured and where, all tables, and what was skipped, to standard output.
    pub fn print(&self, command: &str) {
        let m = &self.machine;
        let cpus = self.cpus.as_ref().map_or(String::new(), |cpus| format!("; {cpus}"));
        println!(
            "{command} {}: {} ({} CPUs), Linux {}, fence {}{cpus}",
            self.bench, m.cpu, m.cpus, m.kernel, m.fence
        );
        if let Some(posted) = &self.posted {
            println!("posted: {}\nexpected: {}", posted.source, posted.expected);
        }
        self.grids().iter().for_each(|grid| println!("{grid}"));
        for skipped in &self.skipped {
            println!("skipped {}: {}", skipped.system, skipped.why);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stats::{Config, Metric};
    use super::super::units::{digits, duration};
    use super::*;

    const COST: Metric = Metric::nanoseconds("pair_ns");

    fn report() -> Report {
        let config = Config::new([("threads", 2.into()), ("nesting", 1.into())]);
        let mut recorder = Recorder::new("read");
        for (round, ours) in [1.0, 2.0, 3.0].into_iter().enumerate() {
            recorder.record(round, OURS, &COST, &config, ours);
            recorder.record(round, "peer", &COST, &config, 4.0);
        }
        Report::new(&recorder, vec![Skipped { system: "other".into(), why: "not built in".into() }])
    }

    #[test]
    fn json_has_documented_shape() {
        let json = serde_json::to_value(report()).expect("a report is JSON");
        let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["bench", "machine", "rows", "skipped"]);
        assert_eq!(json["bench"], "read");
        assert!(json["machine"]["cpus"].is_u64());
        let config = json!({"threads": 2, "nesting": 1});
        assert_eq!(
            json["rows"][0],
            json!({
                "system": "stillpoint", "metric": "pair_ns", "unit": "ns", "better": "lower",
                "config": config, "median": 2.0, "min": 1.0, "max": 3.0
            })
        );
        assert_eq!(json["rows"][1]["ratio"], json!({"median": 0.5, "min": 0.25, "max": 0.75}));
        assert_eq!(json["skipped"], json!([{"system": "other", "why": "not built in"}]));
    }

    #[test]
    fn table_shows_both_sides_and_ratio() {
        let table = report().grids()[0].to_string();
        for part in ["threads", "pair_ns", "2.00 ns", "4.00 ns", "0.50x", "0.25..0.75"] {
            assert!(table.contains(part), "{part} is missing in\n{table}");
        }
        assert!(!table.contains('\u{1b}'), "colour in\n{table}");
    }

    #[test]
    fn duration_has_fitting_unit() {
        assert_eq!([0.64, 12_345.0, 66e6].map(duration), ["0.64 ns", "12.3 us", "66.0 ms"]);
        assert_eq!([0.0, 0.0123].map(digits), ["0", "0.0123"]);
    }
}
