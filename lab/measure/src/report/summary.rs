//! What the repository keeps of a report: the figures that its pages cite, as they are printed, and the points of two
//! plots. The rest are artefacts of a release.
//!
//! A summary is made from a [document](Document), or read from `summary.json`. From it come the page `summary.md`, the
//! [blocks](super::fill) of other pages, and the plots `lock.svg` and `memory.svg`.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::chart::{self, Curve};
use super::document::Document;
use super::frontier::{self, Point};
use super::lines::{self, Line};
use harness::Origin;
use harness::report::OURS;

/// The figures that pages cite.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Summary {
    /// The run and the code, if the results have one run of one commit on one machine.
    pub(super) origin: Option<Origin>,
    /// The machine, the code, and the time of the measurements, in a line.
    pub(super) headline: String,
    pub(super) highlights: Vec<Line>,
    pub(super) behind: Vec<[String; 6]>,
    pub(super) targets: Vec<[String; 6]>,
    #[serde(rename = "claims")]
    pub(super) post_claims: Vec<[String; 7]>,
    /// Longest wait and throughput of each lock, with the most threads on all CPUs.
    lock: Vec<Point>,
    /// Unreclaimed bytes over milliseconds, of each system.
    memory: Vec<Course>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Course {
    system: String,
    points: Vec<(u64, u64)>,
}

/// The most points of a course.
const COURSE_POINTS: usize = 60;

impl Summary {
    pub(super) fn of(document: &Document) -> Self {
        let claim = |bench: &str, [what, posted, ours, ratio, range, verdict]: [String; 6]| {
            [bench.to_uppercase(), what, posted, ours, ratio, range, verdict]
        };
        let claims = document.in_order().flat_map(|result| {
            lines::post_claims(result).into_iter().map(|line| claim(&result.bench, line)).collect::<Vec<_>>()
        });
        let lock = document.result("lock").map(|result| {
            let rows = |metric| result.select(metric, "threads=max");
            frontier::points(&rows("max_wait_ns"), &rows("mops"))
        });
        Self {
            origin: document.origin().ok().cloned(),
            headline: document.headline(),
            highlights: lines::highlights(document),
            behind: lines::behind(document),
            targets: lines::targets(document),
            post_claims: claims.collect(),
            lock: lock.unwrap_or_default(),
            memory: courses(document),
        }
    }

    /// Returns the summary in a file, if the file has one and not a whole report.
    pub(super) fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    /// Writes `summary.json` and the plots.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written.
    pub(super) fn write(&self, out_dir: &Path) -> anyhow::Result<()> {
        let mut files = vec![("summary.json", self.json()?)];
        if !self.lock.is_empty() {
            let axes = [("longest wait, logarithmic", "ns"), ("acquisitions/µs", "1/us")];
            let plot = frontier::draw("Throughput and longest wait of a lock", axes, &self.lock, &[]);
            files.push(("lock.svg", chart::file(plot)));
        }
        if !self.memory.is_empty() {
            let curve = |Course { system, points }: &Course| {
                let points = points.iter().map(|&(time, bytes)| (time as f64, bytes as f64)).collect();
                Curve { label: system.clone(), is_ours: system == OURS, points }
            };
            let courses: Vec<Curve> = self.memory.iter().map(curve).collect();
            let plot = chart::courses("Unreclaimed memory with a stalled reader", &courses);
            files.push(("memory.svg", chart::file(plot)));
        }
        for (name, text) in files {
            let path = out_dir.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Returns the summary with a line for each item, so that `diff` can compare two files.
    fn json(&self) -> anyhow::Result<String> {
        let mut text = serde_json::to_string(self).context("cannot encode the summary")?;
        for (item, on_lines) in [
            (r#","headline""#, ",\n\"headline\""),
            (r#"{"cells""#, "\n{\"cells\""),
            (r#"{"system""#, "\n{\"system\""),
            (r#":[["#, ":[\n["),
            (r#""],[""#, "\"],\n[\""),
        ] {
            text = text.replace(item, on_lines);
        }
        Ok(text + "\n")
    }
}

/// Returns the courses of memory, ours first, with the greatest value of each group of points.
fn courses(document: &Document) -> Vec<Course> {
    let Some(result) = document.result("callback") else { return Vec::new() };
    let of_time = result.series.iter().filter(|series| series.over == "time_ms");
    let mut courses: Vec<Course> = of_time
        .map(|series| {
            let groups = series.points.chunks(series.points.len().div_ceil(COURSE_POINTS).max(1));
            let greatest = groups.filter_map(|group| group.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
            let points = greatest.map(|&(time, bytes)| (time.round() as u64, bytes.round() as u64)).collect();
            Course { system: series.system.to_string(), points }
        })
        .collect();
    courses.sort_by_key(|course| course.system != OURS);
    courses
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::stats::{Config, Metric};
    use harness::{Recorder, Report};

    const PAIR: Metric = Metric::nanoseconds("pair_ns");

    #[test]
    fn summary_is_written_and_read_without_loss() {
        let mut recorder = Recorder::new("read");
        let config = Config::new([("threads", 1.into()), ("nesting", 1.into())]);
        for (system, value) in [(OURS, 2.0), ("peer", 4.0)] {
            recorder.record(0, system, &PAIR, &config, value);
        }
        let results = vec![Report::new(&recorder, Vec::new())];
        let summary = Summary::of(&Document { machine: Vec::new(), results });
        let json = summary.json().expect("a summary is JSON");
        assert!(json.lines().count() > summary.highlights.len(), "{json}");
        let again: Summary = serde_json::from_str(&json).expect("what was written can be read");
        assert_eq!(again.json().expect("a summary is JSON"), json);
    }
}
