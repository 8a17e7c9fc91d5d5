//! The result of a run: tables for the terminal, and JSON.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::given::Cpus;
pub use super::grid::Grid;
use super::machine::Machine;
use super::origin::Origin;
use super::schema::{Config, Ratio, Row, Text};
pub use super::schema::{Figures, Posted, Series, Skipped};
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
    /// The run and the code, if it is part of a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    pub rows: Vec<Row>,
    #[serde(default)]
    pub ratios: Vec<Ratio>,
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
        let (rows, ratios) = (recorder.rows(), recorder.ratios(OURS));
        let (origin, series, posted, seconds, tables) = Default::default();
        let (bench, machine) = (recorder.bench().into(), Machine::read());
        let cpus = recorder.given.cpus();
        Self { bench, machine, cpus, origin, rows, ratios, series, skipped, posted, seconds, tables }
    }

    /// Writes the report as JSON to `path`.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(self).context("cannot encode the report")?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns it as a part of the report, with all its tables.
    pub fn as_part(self, name: &str, seconds: f64) -> Self {
        let tables = self.grids();
        Self { bench: name.to_owned().into(), seconds: Some(seconds), tables, ..self }
    }

    /// Returns all tables: the posted ones; one for each set of parameters, with a line for each quantity and each peer
    /// that measured it too; and others. Values are medians over the rounds; the ratio is ours to theirs, followed by
    /// its extremes.
    pub fn grids(&self) -> Vec<Grid> {
        let posted = self.posted.iter().flat_map(|posted| posted.tables.iter().map(Figures::grid));
        let mut sets: Vec<Vec<&str>> = Vec::new();
        for row in &self.rows {
            let names = row.config.names();
            if !sets.contains(&names) {
                sets.push(names);
            }
        }
        let measured = sets.iter().map(|names| self.grid(names));
        posted.chain(measured).chain(self.tables.iter().cloned()).collect()
    }

    /// Returns the table of the rows whose parameters are `names`.
    fn grid(&self, names: &[&str]) -> Grid {
        let mut shown: Vec<(&Config, Vec<&str>)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.config.names() == names) {
            match shown.iter_mut().find(|(config, _)| **config == row.config) {
                Some((_, metrics)) if metrics.contains(&&*row.metric) => (),
                Some((_, metrics)) => metrics.push(&row.metric),
                None => shown.push((&row.config, vec![&row.metric])),
            }
        }
        let mut rows = Vec::new();
        for (config, metrics) in shown {
            let lines = metrics.into_iter().flat_map(|metric| self.lines(config, metric));
            for (index, line) in lines.enumerate() {
                let parameter = |value| if index == 0 { value } else { String::new() };
                rows.push(config.values().map(parameter).chain(line).collect());
            }
        }
        let heads = ["metric", OURS, "peer", "theirs", "ratio", "min..max"];
        let head: Vec<&str> = names.iter().copied().chain(heads).collect();
        Grid::new(if self.posted.is_some() { "Measured" } else { "" }, &head, rows)
    }

    /// Returns the lines of one quantity: ours beside each peer, or ours alone.
    fn lines(&self, config: &Config, metric: &str) -> Vec<[String; 6]> {
        let same = |row: &&Row| row.config == *config && row.metric == metric;
        let value = |row: &Row| figure(row.summary.median, &row.unit);
        let ours = self.rows.iter().filter(same).find(|row| row.system == OURS);
        let our_value = ours.map(value).unwrap_or_default();
        let mut lines = Vec::new();
        for theirs in self.rows.iter().filter(same).filter(|row| row.system != OURS) {
            let is_theirs = |r: &&Ratio| r.to == theirs.system && r.metric == metric && r.config == *config;
            let ratio = self.ratios.iter().find(is_theirs);
            let (ratio, range) = ratio.map_or_else(Default::default, |Ratio { summary, marked, .. }| {
                let mark = if *marked > 0 { ", too few CPUs" } else { "" };
                (times(summary.median), format!("{}{mark}", summary.range()))
            });
            let (peer, value) = (theirs.system.to_string(), value(theirs));
            lines.push([metric.to_owned(), our_value.clone(), peer, value, ratio, range]);
        }
        if let (Some(ours), true) = (ours, lines.is_empty()) {
            let empty = String::new;
            let range = if ours.unit == "ratio" { ours.summary.range() } else { empty() };
            lines.push([metric.to_owned(), our_value, empty(), empty(), empty(), range]);
        }
        lines
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

    use super::super::stats::Metric;
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
        assert_eq!(keys, ["bench", "machine", "rows", "ratios", "skipped"]);
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
        assert_eq!(
            json["ratios"],
            json!([{
                "of": "stillpoint", "to": "peer", "metric": "pair_ns", "better": "lower",
                "config": config, "median": 0.5, "min": 0.25, "max": 0.75
            }])
        );
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
