//! Results in a file, and how rows are found in them.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::part::PARTS;
use harness::given::Cpus;
use harness::origin::UNKNOWN;
use harness::stats::Row;
use harness::{Origin, Report};

/// All results of a directory.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Document {
    /// The run and the code.
    pub(super) origin: Option<Origin>,
    /// What `probe` prints, by name.
    pub(super) machine: Vec<(String, String)>,
    pub(super) results: Vec<Report>,
}

impl Document {
    /// Reads the results of a report.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or has none.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        serde_json::from_str(&text).with_context(|| format!("{name} is no report"))
    }

    /// Writes the results.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("cannot encode the results")?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns a fact of the machine.
    pub(super) fn fact(&self, name: &str) -> &str {
        self.machine.iter().find(|(fact, _)| fact == name).map_or("unknown", |(_, value)| value)
    }

    /// Returns the machine, the code, and the time of the measurements, in a line. What cannot be published says so.
    pub(super) fn headline(&self) -> String {
        let first = |name| self.fact(name).split(' ').next().unwrap_or_default();
        let seconds: f64 = self.results.iter().filter_map(|result| result.seconds).sum();
        let code = match self.origin() {
            Ok(origin) => format!("one run of commit {}", origin.short()),
            Err(why) => format!("**not to be published** ({why})"),
        };
        let given = self.cpus().map_or(String::new(), |cpus| format!("; {cpus}"));
        let lost = self.results.iter().filter(|result| !is_good(result));
        let lost: Vec<&str> = lost.map(|result| &*result.bench).collect();
        let lost = if lost.is_empty() { String::new() } else { format!(" Without {}.", lost.join(", ")) };
        format!(
            "{}, {} CPUs, Linux {}, fences by {}{given}; {code}; {seconds:.0} s of measurements.{lost}",
            self.fact("cpu"),
            first("cpus"),
            first("kernel"),
            first("fence").trim_end_matches([':', ',', ';']),
        )
    }

    /// Returns the CPUs that threads got in the result in which they got the least part, of those that are published.
    fn cpus(&self) -> Option<&Cpus> {
        let good = self.results.iter().filter(|result| is_good(result));
        good.filter_map(|result| result.cpus.as_ref()).reduce(Cpus::worse)
    }

    /// Returns the result of a part.
    pub(super) fn result(&self, bench: &str) -> Option<&Report> {
        self.results.iter().find(|result| result.bench == bench)
    }

    /// Returns the results in the order of the parts.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Report> {
        PARTS.iter().filter_map(|part| self.result(part.name))
    }

    /// Returns the run and the code, if threads got the CPUs of the machine in half of the parts, and the commit is known
    /// and has no changes. Of the parts in which they did not, only what one thread does is published.
    ///
    /// # Errors
    ///
    /// Returns what is wrong otherwise.
    pub(super) fn origin(&self) -> Result<&Origin, String> {
        let bad: Vec<&Report> = self.results.iter().filter(|result| !is_good(result)).collect();
        if let Some(first) = bad.first().filter(|_| 2 * bad.len() > self.results.len()) {
            return Err(why_not(first));
        }
        match &self.origin {
            None => Err("there are no results".to_owned()),
            Some(Origin { commit, .. }) if commit == UNKNOWN => Err("the commit is not known".to_owned()),
            Some(origin) if origin.dirty => Err(format!("the code is {}", origin.short())),
            Some(origin) => Ok(origin),
        }
    }
}

/// Returns whether a part was measured, on the CPUs that its threads could use.
fn is_good(result: &Report) -> bool {
    !result.rows.is_empty() && result.cpus.as_ref().is_some_and(Cpus::are_enough)
}

/// Returns why it was not.
fn why_not(result: &Report) -> String {
    let why = result.cpus.as_ref().map(Cpus::to_string);
    format!("{}: {}", result.bench, why.unwrap_or("how many CPUs threads got is not known".to_owned()))
}

/// Replaces each `{name}` in a text by the parameter of a row.
pub(super) fn fill(text: &str, row: &Row) -> String {
    let names = row.config.names().into_iter().zip(row.config.values());
    names.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::stats::{Config, Metric, Recorder};

    #[test]
    fn changed_code_and_results_without_cpus_are_not_to_be_published() {
        const LATENCY: Metric = Metric::nanoseconds("p50_ns");
        let document = |commit: &str, dirty, cpus| {
            let mut recorder = Recorder::new("sync");
            recorder.record(0, "system", &LATENCY, &Config::default(), 1.0);
            let report = Report::new(&recorder, Vec::new());
            let origin = Some(Origin { run: "1".into(), commit: commit.into(), dirty });
            Document { origin, machine: Vec::new(), results: vec![Report { cpus, ..report }] }
        };
        let cpus = |given| Some(Cpus::always(given, 2));
        let mut good = document("abc", false, cpus(2.0));
        assert!(good.origin().is_ok());
        good.results.extend(document("abc", false, cpus(1.5)).results);
        assert!(good.origin().is_ok() && good.headline().ends_with("Without sync."), "{}", good.headline());
        good.results.extend(document("abc", false, cpus(1.5)).results);
        assert!(good.origin().is_err());
        for (bad, why) in [
            (document("abc", false, cpus(1.5)), "threads got 1.50"),
            (document("abc", false, None), "is not known"),
            (document("abc", true, cpus(2.0)), "the code is"),
            (document(UNKNOWN, false, cpus(2.0)), "the commit is not known"),
            (Document::default(), "there are no results"),
        ] {
            assert!(bad.origin().is_err_and(|error| error.contains(why)), "{why}: {:?}", bad.origin());
            assert!(bad.headline().contains("not to be published"), "{}", bad.headline());
        }
    }
}
