//! The options of every measuring command.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};

use super::plan::Budget;
use super::report::Report;
use super::units::seconds;

/// How long to measure, and where to write the result.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Write the result as JSON; several results to a file each, with the name before the extension.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Time for each result [default: 30 to 60 s].
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Number of rounds [default: as many as fit].
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
    /// Fewer cells, less than two minutes (lock, lock-ablation, map, e6); fewer variants (lock-ablation).
    #[arg(long)]
    quick: bool,
    /// Another set of cells: bottleneck, cpus+1 (lock and its variants); copy, churn, growth (map); a program (programs).
    #[arg(long, value_name = "SET")]
    cells: Option<String>,
}

/// A bench or an experiment: its name, what it measures, its usual time in seconds, and how to run it.
pub type Offer = (&'static str, &'static str, f64, fn(Budget) -> anyhow::Result<Report>);

/// Parses the name of an offer, or `all`.
pub fn parser(offers: &[Offer]) -> PossibleValuesParser {
    let value = |(name, help)| PossibleValue::new(name).help(help);
    let all = ("all", "All of them, one after another");
    PossibleValuesParser::new(offers.iter().map(|offer| (offer.0, offer.1)).chain([all]).map(value))
}

impl Options {
    /// Measures the chosen `names`, prints each report and writes it to the file that the user chose.
    pub fn run(&self, command: &str, names: &[String], offers: &[Offer]) -> anyhow::Result<()> {
        let is_chosen = |offer: &&Offer| names.iter().any(|name| name == offer.0 || name == "all");
        let chosen: Vec<&Offer> = offers.iter().filter(is_chosen).collect();
        let rounds = self.rounds.map(NonZeroUsize::get);
        let cells = self.cells.clone().map(|name| &*name.leak());
        for (_, _, usual, run) in &chosen {
            let seconds = self.seconds.unwrap_or(*usual);
            let report = run(Budget { seconds, rounds, quick: self.quick, cells })?;
            report.print(command);
            match &self.json {
                Some(path) if chosen.len() > 1 => report.write_json(&with_name(path, &report.bench))?,
                Some(path) => report.write_json(path)?,
                None => (),
            }
        }
        Ok(())
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
