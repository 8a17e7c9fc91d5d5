//! The options that every measuring command has.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::plan::Budget;
use super::report::Report;
use super::units::seconds;

/// How long to measure, and where to leave the result.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write the result as JSON; of several results, each to a file of its own, its name before the extension.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Time for each result [default: 30 to 60 s].
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Number of rounds [default: as many as fit].
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
}

impl Options {
    /// Returns the time of one result, `default` seconds unless the user chose it.
    pub(crate) fn budget(&self, default: f64) -> Budget {
        let rounds = self.rounds.map(NonZeroUsize::get);
        Budget { seconds: self.seconds.unwrap_or(default), rounds }
    }

    /// Prints `report`, one of `reports` of `command`, and writes it to the file that the user chose.
    pub(crate) fn show(&self, report: &Report, command: &str, reports: usize) -> anyhow::Result<()> {
        report.print(command);
        match &self.json {
            Some(path) if reports > 1 => report.write_json(&with_name(path, &report.bench)),
            Some(path) => report.write_json(path),
            None => Ok(()),
        }
    }
}

/// `out.json` becomes `out.read.json`.
fn with_name(path: &Path, name: &str) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{name}.{}", extension.display())),
        None => path.with_extension(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_results_are_written_to_a_file_each() {
        assert_eq!(with_name(Path::new("a/out.json"), "read"), Path::new("a/out.read.json"));
        assert_eq!(with_name(Path::new("out"), "sync"), Path::new("out.sync"));
    }
}
