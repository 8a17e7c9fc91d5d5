//! The options of every measuring command.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::plan::Budget;
use super::report::Report;
use super::units::seconds;

/// How long to measure, and where to write the result.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Time for each result [default: 30 to 60 s].
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Number of rounds [default: as many as fit].
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
    /// Only these cells: a program of `programs`, or the `jobs` of `map`.
    #[arg(long, value_name = "NAME")]
    cells: Option<String>,
}

/// A bench or an experiment: its name, what it measures, its usual time in seconds, and how to run it.
pub type Offer = (&'static str, &'static str, f64, fn(Budget) -> anyhow::Result<Report>);

/// Parses the name of an offer.
pub fn parser(offers: &[Offer]) -> PossibleValuesParser {
    PossibleValuesParser::new(offers.iter().map(|offer| PossibleValue::new(offer.0).help(offer.1)))
}

impl Options {
    /// Measures what is offered under `name`, prints the report and writes it to the file that the user chose.
    pub fn run(&self, command: &str, name: &str, offers: &[Offer]) -> anyhow::Result<()> {
        let (.., usual, run) = offers.iter().find(|offer| offer.0 == name).context("no such name")?;
        let (seconds, rounds) = (self.seconds.unwrap_or(*usual), self.rounds.map(NonZeroUsize::get));
        let cells = self.cells.clone().map(|name| &*name.leak());
        let report = run(Budget { seconds, rounds, cells })?;
        report.print(command);
        self.json.as_ref().map_or(Ok(()), |path| report.write_json(path))
    }
}
