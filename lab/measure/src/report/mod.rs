//! `report`: what this machine and this library do, at a glance.
//!
//! Measures [parts](part), each in a process of its own. From the results it writes a [page] and a [summary]: what these
//! show is data, in [contents] and in `figures.txt`. A part that is measured again replaces its older result, so that a
//! report can be made piece by piece. Results are written after each part, so that a failure later loses none.

pub mod claims;
mod contents;
pub(crate) mod document;
mod figures;
pub mod page;
pub mod part;
pub mod plot;
mod posts;
mod summary;

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use indicatif::HumanDuration;

use document::Document;
use harness::Origin;
use harness::probe;
use harness::report::OURS;
use harness::{Recorder, Report, Skipped, units};
use part::{PARTS, Part};
use summary::Summary;

/// Measure this machine and write a page about it, a summary and the raw results.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Ten minutes of measurements instead of twenty-five.
    #[arg(long)]
    quick: bool,
    /// Only these parts, in this order; the others stay as the directory has them.
    #[arg(long, value_parser = part::parser(), value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Time for each part [default: as much as it needs].
    #[arg(long, value_name = "S", value_parser = units::seconds)]
    seconds: Option<f64>,
    /// Measure nothing: write the page and the summary of these results; of a summary.json, only the summary.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "seconds"])]
    from: Option<PathBuf>,
    /// Fail if the results are not of one run of one commit on one machine, or threads did not get its CPUs.
    #[arg(long, requires = "from")]
    one_run: bool,
    /// Where the page, the summary and the results go; it is made if need be.
    #[arg(long, value_name = "DIR", default_value = "report")]
    out_dir: PathBuf,
}

/// Measures the chosen parts and writes the files.
///
/// # Errors
///
/// Returns an error if a part does, or if a file cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let out_dir = &args.out_dir;
    make(out_dir)?;
    if let Some(from) = &args.from {
        return redo(from, args);
    }
    let raw = out_dir.join("report.json");
    let keep = !args.only.is_empty() && raw.exists();
    let mut document = if keep { Document::read(&raw)? } else { Document::default() };
    let parts = if args.only.is_empty() { &PARTS[..] } else { &args.only };
    let timed: Vec<(Part, f64)> =
        parts.iter().map(|part| (*part, args.seconds.unwrap_or(part.seconds(args.quick)))).collect();
    let took = measure_all(&timed, &mut document, out_dir)?;
    println!("{took}; {}", out_dir.join("report.html").display());
    if io::stdout().is_terminal() {
        println!("{}", out_dir.join("summary.md").display());
    }
    Ok(())
}

/// Measures parts, each for some seconds, and writes the files after each. Returns how long that took.
fn measure_all(
    parts: &[(Part, f64)],
    document: &mut Document,
    out_dir: &Path,
) -> anyhow::Result<HumanDuration> {
    let (origin, facts) = (Origin::read(out_dir), probe::facts()?);
    document.machine = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let begin = Instant::now();
    for (place, (part, time)) in parts.iter().enumerate() {
        let left: f64 = parts[place..].iter().map(|(_, time)| time).sum();
        eprintln!(
            "[{}/{}] {}: {time:.0} s; {} left",
            place + 1,
            parts.len(),
            part.name,
            HumanDuration(Duration::from_secs_f64(left))
        );
        document.put(Report { origin: Some(origin.clone()), ..measure(*part, *time)? });
        write_all(document, out_dir)?;
    }
    Ok(HumanDuration(begin.elapsed()))
}

fn make(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Writes the files of results that exist.
fn redo(from: &Path, args: &Args) -> anyhow::Result<()> {
    let summary = match Summary::read(from) {
        Some(summary) => {
            summary.write(&args.out_dir)?;
            summary
        }
        None => write_all(&Document::read(from)?, &args.out_dir)?,
    };
    if args.one_run && summary.origin.is_none() {
        bail!("{} is not to be published: {}", from.display(), summary.headline);
    }
    Ok(())
}

fn measure(part: Part, seconds: f64) -> anyhow::Result<Report> {
    let measured = part.start().and_then(|mut worker| worker.measure(&seconds));
    match measured {
        Err(why) if part.may_be_missing() => {
            let skipped = Skipped { system: OURS.into(), why: format!("{why:#}") };
            Ok(Report { seconds: Some(seconds), ..Report::new(&Recorder::new(part.name), vec![skipped]) })
        }
        measured => measured.with_context(|| format!("the part {} failed", part.name)),
    }
}

fn write_all(document: &Document, out_dir: &Path) -> anyhow::Result<Summary> {
    document.write(&out_dir.join("report.json"))?;
    write(out_dir, "report.html", &page::render(document))?;
    let summary = Summary::of(document);
    summary.write(out_dir)?;
    Ok(summary)
}

fn write(out_dir: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = out_dir.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
