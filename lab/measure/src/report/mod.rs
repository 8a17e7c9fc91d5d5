//! `report`: what this machine and this library do, at a glance.
//!
//! Measures [parts](part), each in a process of its own, and writes a [summary] of the results: what it shows is
//! data, in `figures.txt` and `posts.txt`. They are written after each part, so that a failure later loses none.

pub mod claims;
mod document;
mod figures;
pub mod part;
mod plot;
mod posts;
mod programs;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use document::Document;
use harness::Origin;
use harness::given::{ENOUGH, given_now};
use harness::probe;
use harness::report::OURS;
use harness::{Recorder, Report, Skipped, units};
use part::{PARTS, Part};
use summary::Summary;

/// Measure this machine and write a summary and the raw results.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Ten minutes of measurements instead of half an hour.
    #[arg(long)]
    quick: bool,
    /// Only these parts, in this order.
    #[arg(long, value_parser = part::parser(), value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Time for each part [default: as much as it needs].
    #[arg(long, value_name = "S", value_parser = units::seconds)]
    seconds: Option<f64>,
    /// Measure nothing: write the summary of the results in a report.json, or of a summary.json again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "seconds"])]
    from: Option<PathBuf>,
    /// Fail if the code had changes that were not committed, or half of the parts did not get the CPUs of the machine.
    #[arg(long, requires = "from")]
    one_run: bool,
    /// Where the summary and the results go; it is made if need be.
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
    let parts = if args.only.is_empty() { &PARTS[..] } else { &args.only };
    let timed: Vec<(Part, f64)> =
        parts.iter().map(|part| (*part, args.seconds.unwrap_or(part.seconds(args.quick)))).collect();
    let (document, took) = measure_all(&timed, out_dir)?;
    println!("{took}; {}", out_dir.join("summary.md").display());
    let is_lost = |result: &&Report| result.rows.is_empty();
    let lost: Vec<&str> = document.results.iter().filter(is_lost).map(|result| &*result.bench).collect();
    ensure!(lost.is_empty(), "not measured: {}", lost.join(", "));
    Ok(())
}

/// Measures parts, each for some seconds, and writes the files after each. What got too few CPUs is measured again at
/// the end. Returns how long all took, too.
fn measure_all(parts: &[(Part, f64)], out_dir: &Path) -> anyhow::Result<(Document, String)> {
    let facts = probe::facts()?.into_iter().map(|(name, value)| (name.to_owned(), value));
    let (origin, machine, results) = (Some(Origin::read()), facts.collect(), Vec::new());
    let mut document = Document { origin, machine, results };
    let begin = Instant::now();
    for (place, (part, time)) in parts.iter().enumerate() {
        let left: f64 = parts[place..].iter().map(|(_, time)| time).sum();
        eprintln!("[{}/{}] {}: {time:.0} s; {left:.0} s left", place + 1, parts.len(), part.name);
        document.results.push(measure(*part, *time));
        write_all(&document, out_dir)?;
    }
    if given_now()? >= ENOUGH * 2.0 {
        for (place, (part, time)) in parts.iter().enumerate() {
            if let Some(why) = document.results[place].lacks_cpus() {
                eprintln!("{} again, {time:.0} s: {why}", part.name);
                document.results[place] = measure(*part, *time);
                write_all(&document, out_dir)?;
            }
        }
    }
    Ok((document, format!("{:.0} s", begin.elapsed().as_secs_f64())))
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

/// Measures a part. One that fails is missing in the result, which says why: others are measured nevertheless.
fn measure(part: Part, seconds: f64) -> Report {
    part.start().and_then(|mut worker| worker.measure(&seconds)).unwrap_or_else(|why| {
        eprintln!("{} failed: {why:#}", part.name);
        let skipped = Skipped { system: OURS.into(), why: format!("{why:#}").replace(['|', '\n'], " ") };
        Report { seconds: Some(seconds), ..Report::new(&Recorder::new(part.name), vec![skipped]) }
    })
}

fn write_all(document: &Document, out_dir: &Path) -> anyhow::Result<Summary> {
    document.write(&out_dir.join("report.json"))?;
    let summary = Summary::of(document);
    summary.write(out_dir)?;
    Ok(summary)
}

fn write(out_dir: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = out_dir.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
