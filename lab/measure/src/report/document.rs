//! Results in a file, and how rows are found in them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::part::PARTS;
use harness::given::Cpus;
use harness::origin::UNKNOWN;
use harness::stats::Row;
use harness::{Origin, Report};

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
        format!(
            "{}, {} CPUs, Linux {}, fences by {}{given}; {code}; {seconds:.0} s of measurements.",
            self.fact("cpu"),
            first("cpus"),
            first("kernel"),
            first("fence").trim_end_matches([':', ',', ';']),
        )
    }

    /// Returns the CPUs that threads got in the result in which they got the least part.
    pub(crate) fn cpus(&self) -> Option<&Cpus> {
        self.results.iter().filter_map(|result| result.cpus.as_ref()).reduce(Cpus::worse)
    }

    /// Returns the result of a part.
    pub(crate) fn result(&self, bench: &str) -> Option<&Report> {
        self.results.iter().find(|result| result.bench == bench)
    }

    /// Returns the results in the order of the parts.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Report> {
        PARTS.iter().filter_map(|part| self.result(part.name))
    }

    /// Returns the run and the code of all results, if they have one run on one machine whose CPUs threads got, and a
    /// commit without changes.
    ///
    /// # Errors
    ///
    /// Returns what is wrong otherwise.
    pub(super) fn origin(&self) -> Result<&Origin, String> {
        self.results.iter().try_for_each(had_cpus)?;
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

/// Returns which of a result's threads did not get the CPUs that they could use, if some did not.
fn had_cpus(result: &Report) -> Result<(), String> {
    let name = &result.bench;
    match (&result.cpus, result.rows.iter().find(|row| row.marked > 0)) {
        (None, _) => Err(format!("{name}: how many CPUs threads got is not known")),
        (Some(cpus), _) if !cpus.are_enough() => Err(format!("{name}: {cpus}")),
        (_, Some(row)) => {
            Err(format!("{name}, {}: in {} rounds threads got too few CPUs", row.config, row.marked))
        }
        _ => Ok(()),
    }
}

/// Replaces each `{name}` in a text by the parameter of a row.
pub(super) fn fill(text: &str, row: &Row) -> String {
    let names = row.config.names().into_iter().zip(row.config.values());
    names.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::Recorder;

    #[test]
    fn results_of_two_runs_of_changed_code_or_without_cpus_are_not_one_run() {
        let origin =
            |run: &str, commit: &str, dirty| Origin { run: run.into(), commit: commit.into(), dirty };
        let result =
            |name, origin, cpus| Report { origin, cpus, ..Report::new(&Recorder::new(name), Vec::new()) };
        let (good, all) = (origin("1", "abc", false), || Some(Cpus::always(2.0, 2)));
        let two = |a: Origin, b: Option<Origin>, cpus: Option<Cpus>| Document {
            machine: Vec::new(),
            results: vec![result("read", Some(a), all()), result("sync", b, cpus)],
        };
        assert_eq!(two(good.clone(), Some(good.clone()), all()).origin(), Ok(&good));
        let (dirty, unknown) = (origin("1", "abc", true), origin("1", "unknown", false));
        let lost = Some(Cpus::always(1.5, 2));
        for (bad, why) in [
            (two(good.clone(), None, all()), "sync: the commit is not known"),
            (two(good.clone(), Some(origin("2", "abc", false)), all()), "are of two runs"),
            (two(good.clone(), Some(origin("1", "def", false)), all()), "read is of abc, sync of def"),
            (two(good.clone(), Some(good.clone()), lost), "threads got 1.50"),
            (two(good.clone(), Some(good.clone()), None), "is not known"),
            (two(dirty.clone(), Some(dirty), all()), "the code is"),
            (two(unknown.clone(), Some(unknown), all()), "the commit is not known"),
            (Document::default(), "there are no results"),
        ] {
            assert!(bad.origin().is_err_and(|error| error.contains(why)), "{why}: {:?}", bad.origin());
            assert!(bad.headline().contains("not to be published"), "{}", bad.headline());
        }
    }
}
