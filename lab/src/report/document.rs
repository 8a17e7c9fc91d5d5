//! Results in a file, and how rows are found in them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::part::PARTS;
use crate::harness::origin::UNKNOWN;
use crate::harness::report::OURS;
use crate::harness::stats::{Ratio, Row};
use crate::harness::{Better, Config, Origin, Report};

/// All results of a directory.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Document {
    /// What `probe` prints, by name.
    pub(super) machine: Vec<(String, String)>,
    pub(crate) results: Vec<Report>,
}

impl Document {
    /// Reads the results of a report, or of a single bench or experiment.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is neither.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let value: Value = serde_json::from_str(&text).with_context(|| format!("{name} is not JSON"))?;
        let document = if value.get("results").is_some() {
            serde_json::from_value(value)
        } else if value.get("bench").is_some() {
            serde_json::from_value(value).map(|report| Self { machine: Vec::new(), results: vec![report] })
        } else {
            bail!("{name} is neither of `report` nor of a bench or an experiment with --json");
        };
        document.with_context(|| format!("{name} is incomplete"))
    }

    /// Writes the results: a line for each row, so that `diff` can compare two files.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(self).context("cannot encode the results")?;
        for item in [r#"{"bench":"#, r#"{"system":"#, r#"{"of":"#, r#"{"title":"#, r#"{"head":"#] {
            text = text.replace(item, &format!("\n{item}"));
        }
        text.push('\n');
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the result of a part.
    pub(crate) fn result(&self, bench: &str) -> Option<&Report> {
        self.results.iter().find(|result| result.bench == bench)
    }

    /// Returns the results in the order of the parts.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Report> {
        PARTS.iter().filter_map(|part| self.result(part.name))
    }

    /// Returns the run and the code of all results, if they have one run on one machine, and a commit without changes.
    ///
    /// # Errors
    ///
    /// Returns what is wrong otherwise.
    pub(super) fn origin(&self) -> Result<&Origin, String> {
        let first = self.results.first().ok_or("there are no results")?;
        let origin =
            first.origin.as_ref().ok_or_else(|| format!("{}: the commit is not known", first.bench))?;
        for result in &self.results {
            let name = &result.bench;
            match &result.origin {
                None => return Err(format!("{name}: the commit is not known")),
                Some(other) if other.commit != origin.commit => {
                    return Err(format!(
                        "{} is of {}, {name} of {}",
                        first.bench,
                        origin.short(),
                        other.short()
                    ));
                }
                Some(other) if other.run != origin.run => {
                    return Err(format!("{} and {name} are of two runs", first.bench));
                }
                Some(_) if !result.machine.is_same_as(&first.machine) => {
                    return Err(format!("{} and {name} are of two machines", first.bench));
                }
                Some(_) => (),
            }
        }
        match origin {
            Origin { commit, .. } if commit == UNKNOWN => Err("the commit is not known".to_owned()),
            Origin { dirty: true, .. } => Err(format!("the code is {}", origin.short())),
            _ => Ok(origin),
        }
    }

    /// Adds a result, in place of an older one.
    pub(super) fn put(&mut self, result: Report) {
        match self.results.iter_mut().find(|old| old.bench == result.bench) {
            Some(old) => *old = result,
            None => self.results.push(result),
        }
    }
}

impl Report {
    /// Returns the rows of `metric` in the configurations that `wanted` selects: a list of `name=value`, each of which
    /// narrows the choice. A value can also be `max`, the greatest of the rows that are left, `#n`, the n-th smallest
    /// from 0 on, `cpus`, the number of CPUs, another parameter, and `*`, any.
    pub(super) fn select(&self, metric: &str, wanted: &str) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.metric == metric).collect();
        for (name, value) in wanted.split(", ").filter_map(|pair| pair.split_once('=')) {
            let mut numbers: Vec<f64> = rows.iter().filter_map(|row| row.config.number(name)).collect();
            numbers.sort_by(f64::total_cmp);
            numbers.dedup();
            let rank = value.strip_prefix('#').and_then(|rank| rank.parse::<usize>().ok());
            let value = match (value, rank) {
                ("*", _) => continue,
                ("cpus", _) => self.machine.cpus.to_string(),
                ("max", _) => numbers.last().map_or_else(String::new, f64::to_string),
                (_, Some(rank)) => numbers.get(rank).map_or_else(String::new, f64::to_string),
                _ => value.to_owned(),
            };
            let is_it = |config: &Config| {
                config.text(name).is_some_and(|own| own == config.text(&value).unwrap_or(value.clone()))
            };
            rows.retain(|row| is_it(&row.config));
        }
        rows
    }

    /// Returns the row of a system.
    pub(super) fn find(&self, system: &str, metric: &str, wanted: &str) -> Option<&Row> {
        self.select(metric, wanted).into_iter().find(|row| row.system == system)
    }

    /// Returns the rows of peers in the metric and configuration of our `row`, the best first.
    pub(super) fn peers(&self, row: &Row) -> Vec<&Row> {
        let is_peer = |other: &&Row| {
            other.metric == row.metric && other.config == row.config && !is_reference(&other.system)
        };
        let mut peers: Vec<&Row> = self.rows.iter().filter(is_peer).collect();
        peers.sort_by(|a, b| match row.better {
            Better::Lower => a.summary.median.total_cmp(&b.summary.median),
            Better::Higher => b.summary.median.total_cmp(&a.summary.median),
        });
        peers
    }

    /// Returns the ratio of our `row` to `theirs`.
    pub(super) fn ratio_to(&self, row: &Row, theirs: &str) -> Option<&Ratio> {
        let is_it = |r: &&Ratio| r.to == theirs && r.metric == row.metric && r.config == row.config;
        self.ratios.iter().find(is_it)
    }

    /// Returns `wanted` once for each combination of values that its `*` stands for, in the order of the rows.
    pub(super) fn expand(&self, metric: &str, wanted: &str) -> Vec<String> {
        let mut all = Vec::new();
        for row in self.select(metric, wanted) {
            let pairs = wanted.split(", ").map(|pair| match pair.strip_suffix("=*") {
                Some(name) => format!("{name}={}", row.config.text(name).unwrap_or_default()),
                None => pair.to_owned(),
            });
            let one = pairs.collect::<Vec<_>>().join(", ");
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }
}

/// Returns whether a system is none that a program could use in our place: ours in another form, or what shows how far
/// down one could get without protection, without a sum, or without sleeping.
fn is_reference(system: &str) -> bool {
    let references = ["bare-load", "thread-local", "run-queue", "one-flag", "reader-flags"];
    system.starts_with(OURS) || references.contains(&system)
}

/// Replaces each `{name}` in a text by the parameter of a row.
pub(super) fn fill(text: &str, row: &Row) -> String {
    let names = row.config.names().into_iter().zip(row.config.values());
    names.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Metric, Recorder};

    const COST: Metric = Metric::nanoseconds("cost_ns");

    fn report() -> Report {
        let mut recorder = Recorder::new("percpu");
        for (threads, op) in [(1, "add"), (4, "add"), (16, "add"), (2, "pool")] {
            let config = Config::new([("op", op.into()), ("threads", threads.into())]);
            recorder.record(0, "stillpoint", &COST, &config, f64::from(threads));
            recorder.record(0, "peer", &COST, &config, 2.0);
        }
        Report::new(&recorder, Vec::new())
    }

    #[test]
    fn rows_are_selected_by_value_rank_or_maximum() {
        let report = report();
        let found = |wanted| report.find("stillpoint", "cost_ns", wanted).map(|row| row.summary.median);
        let wanted =
            ["op=add, threads=4", "op=add, threads=max", "threads=#1", "op=pool, threads=max", "op=none"];
        assert_eq!(wanted.map(found), [Some(4.0), Some(16.0), Some(2.0), Some(2.0), None]);
        assert_eq!(report.select("cost_ns", "").len(), 8);
        let row = report.find("stillpoint", "cost_ns", "threads=16").expect("a row");
        assert_eq!(report.ratio_to(row, "peer").map(|ratio| ratio.summary.median), Some(8.0));
        assert_eq!(fill("{op}: {threads} threads", row), "add: 16 threads");
    }

    #[test]
    fn parameter_is_compared_with_another_one() {
        let mut recorder = Recorder::new("lock");
        for (cs, ncs) in [(100, 2000), (100, 100), (1000, 1000)] {
            let config = Config::new([("cs_ns", cs.into()), ("ncs_ns", ncs.into())]);
            recorder.record(0, "stillpoint", &COST, &config, f64::from(cs));
        }
        let report = Report::new(&recorder, Vec::new());
        let found: Vec<f64> =
            report.select("cost_ns", "ncs_ns=cs_ns").iter().map(|row| row.summary.median).collect();
        assert_eq!(found, [100.0, 1000.0]);
    }

    #[test]
    fn star_stands_for_each_value() {
        let expanded = report().expand("cost_ns", "op=add, threads=*");
        assert_eq!(expanded, ["op=add, threads=1", "op=add, threads=4", "op=add, threads=16"]);
        assert_eq!(report().expand("cost_ns", "op=add"), ["op=add"]);
    }
}
