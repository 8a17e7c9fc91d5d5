//! `bench`: the library beside its peers.

pub(crate) mod fence;
mod read;
mod sync;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::harness::{Budget, Report};

/// Measure the library beside its peers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum)]
    name: Name,
    /// Write the result as JSON; with `all`, one file a bench, its name before the extension.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Time for each bench [default: 30 to 40 s].
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Number of rounds [default: as many as fit].
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// A read-side section: open, load, close.
    Read,
    /// The latency of `synchronize()`.
    Sync,
    /// The process-wide fence.
    Fence,
    /// All of them, one after the other.
    All,
}

/// A time that a run can take.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number")?;
    if seconds > 0.0 && seconds < 1e6 { Ok(seconds) } else { Err("must be more than 0".to_owned()) }
}

/// Runs the benches that `args` names.
///
/// # Errors
///
/// Fails if the machine does not allow the measurement, or the JSON file cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let rounds = args.rounds.map(NonZeroUsize::get);
    let budget = |default: f64| Budget { seconds: args.seconds.unwrap_or(default), rounds };
    let wanted = |name| args.name == name || args.name == Name::All;
    if wanted(Name::Read) {
        finish(args, &read::run(budget(30.0))?)?;
    }
    if wanted(Name::Sync) {
        finish(args, &sync::run(budget(40.0))?)?;
    }
    if wanted(Name::Fence) {
        finish(args, &fence::run(budget(30.0))?)?;
    }
    Ok(())
}

fn finish(args: &Args, report: &Report) -> anyhow::Result<()> {
    report.print();
    match &args.json {
        Some(path) if args.name == Name::All => report.write_json(&with_name(path, report.bench())),
        Some(path) => report.write_json(path),
        None => Ok(()),
    }
}

/// `out.json` becomes `out.read.json`.
fn with_name(path: &Path, bench: &str) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{bench}.{}", extension.display())),
        None => path.with_extension(bench),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_benches_write_files_of_their_own() {
        assert_eq!(with_name(Path::new("a/out.json"), "read"), Path::new("a/out.read.json"));
        assert_eq!(with_name(Path::new("out"), "sync"), Path::new("out.sync"));
    }
}
