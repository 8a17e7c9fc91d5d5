//! How rows are found in a [`Report`].

use crate::report::{OURS, UNCHECKED};
use crate::stats::{Row, Summary};
use crate::{Better, Report};

impl Report {
    /// Returns the rows of `metric` in the configurations that `wanted` selects: a list of `name=value`, each of
    /// which narrows the choice. A value can also be `max`, the greatest of the rows that are left, `#n`, the n-th
    /// smallest from 0 on, and `cpus`, the number of CPUs. Rows of one CPU are selected by their
    /// [profile](crate::profile) only.
    pub fn select(&self, metric: &str, wanted: &str) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.metric == metric).collect();
        if !wanted.split(", ").any(|pair| pair.starts_with("profile=")) {
            rows.retain(|row| !row.is_of_one_cpu());
        }
        for (name, value) in wanted.split(", ").filter_map(|pair| pair.split_once('=')) {
            let mut numbers: Vec<f64> = rows.iter().filter_map(|row| row.config.number(name)).collect();
            numbers.sort_by(f64::total_cmp);
            numbers.dedup();
            let rank = value.strip_prefix('#').and_then(|rank| rank.parse::<usize>().ok());
            let value = match (value, rank) {
                ("cpus", _) => self.machine.cpus.to_string(),
                ("max", _) => numbers.last().map_or_else(String::new, f64::to_string),
                (_, Some(rank)) => numbers.get(rank).map_or_else(String::new, f64::to_string),
                _ => value.to_owned(),
            };
            rows.retain(|row| row.config.text(name).is_some_and(|own| own == value));
        }
        rows
    }

    /// Returns the row of a system.
    pub fn find(&self, system: &str, metric: &str, wanted: &str) -> Option<&Row> {
        self.select(metric, wanted).into_iter().find(|row| row.system == system)
    }

    /// Returns the rows of peers in the metric and configuration of our `row`, the best first.
    pub fn peers(&self, row: &Row) -> Vec<&Row> {
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
    pub fn ratio_to(&self, row: &Row, theirs: &str) -> Option<Summary> {
        let is_it = |r: &&Row| r.system == theirs && r.metric == row.metric && r.config == row.config;
        self.rows.iter().find(is_it)?.ratio
    }

    /// Returns why the bench cannot be judged here, if its threads got too few CPUs.
    pub fn lacks_cpus(&self) -> Option<String> {
        let cpus = self.cpus.as_ref().filter(|cpus| !cpus.are_enough())?;
        Some(format!("{UNCHECKED}: {cpus}"))
    }
}

/// Returns whether a system is none that a program could use in our place: ours in another form, a post's, or what
/// shows how far down one could get without protection, without a sum, or without sleeping.
fn is_reference(system: &str) -> bool {
    let references =
        ["bare-load", "thread-local", "counter-pair", "pvq", "as-before", "one-flag", "reader-flags"];
    system.starts_with(OURS) || references.contains(&system)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Metric, Profile, Recorder};

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
        assert_eq!(report.ratio_to(row, "peer").map(|ratio| ratio.median), Some(8.0));
    }

    #[test]
    fn rows_of_one_cpu_are_selected_on_purpose_only() {
        let mut recorder = Recorder::new("lock");
        for (value, profile) in [(2.0, Profile::All), (1.0, Profile::One)] {
            for threads in [1, 2] {
                let config = Config::new([("threads", threads.into())]).on(profile);
                recorder.record(0, "stillpoint", &COST, &config, value);
            }
        }
        let report = Report::new(&recorder, Vec::new());
        let found = |wanted| report.select("cost_ns", wanted).len();
        let wanted = ["", "profile=one", "threads=2", "profile=one, threads=2"];
        assert_eq!(wanted.map(found), [2, 2, 1, 1]);
    }
}
