//! `report`: what this machine and this library do, at a glance.
//!
//! Measures [parts](part), each in a process of its own, and keeps what they found; from that it writes a [page](page) and a
//! [summary], and [all figures](figures) as text. A part that is measured again takes the place of its older result, so that a report can be made piece by
//! piece; and nothing that was measured is lost when a later part fails.

mod chart;
pub(crate) mod data;
mod experiments;
mod figures;
mod highlights;
mod page;
pub(crate) mod part;
mod sections;
mod shape;
mod summary;

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::harness::units;
use crate::harness::worker::Worker as Lane;
use crate::probe;
use data::{Document, Outcome};
use part::Part;

/// Measure this machine and write a page about it, a summary and the raw results.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Six minutes of measurements instead of twenty.
    #[arg(long)]
    quick: bool,
    /// Only these parts, in this order; the others stay as the directory has them.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Time for each part [default: as much as it needs].
    #[arg(long, value_name = "S", value_parser = units::seconds)]
    seconds: Option<f64>,
    /// Measure nothing: write the page and the summary of these results, from wherever they are.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "seconds"])]
    from: Option<PathBuf>,
    /// Where report.html, summary.md, figures.md and report.json go; it is made if need be.
    #[arg(long, value_name = "DIR", default_value = "report")]
    out_dir: PathBuf,
}

/// All parts, as they are measured.
const ORDER: [Part; 16] = [
    Part::Read,
    Part::Sync,
    Part::Fence,
    Part::Callback,
    Part::Qsbr,
    Part::Srcu,
    Part::Percpu,
    Part::Lock,
    Part::LockAblation,
    Part::E1,
    Part::E2,
    Part::E3,
    Part::E4,
    Part::E5,
    Part::E6,
    Part::E7,
];

/// Measures what `args` says and writes the files.
///
/// # Errors
///
/// Fails if a part does, or a file cannot be written; what was measured before is kept.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let out_dir = &args.out_dir;
    fs::create_dir_all(out_dir).with_context(|| format!("cannot make {}", out_dir.display()))?;
    if let Some(from) = &args.from {
        return write(&Document::read(from)?, out_dir);
    }
    let raw = out_dir.join("report.json");
    let keep = !args.only.is_empty() && raw.exists();
    let mut document = if keep { Document::read(&raw)? } else { Document::default() };
    let facts = probe::facts()?;
    document.machine = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();

    let parts = if args.only.is_empty() { &ORDER[..] } else { &args.only };
    let seconds: Vec<f64> =
        parts.iter().map(|part| args.seconds.unwrap_or(part.seconds(args.quick))).collect();
    let begin = Instant::now();
    for (place, (part, time)) in parts.iter().zip(&seconds).enumerate() {
        let left: f64 = seconds[place..].iter().sum();
        eprintln!("[{}/{}] {}: {time:.0} s; {} left", place + 1, parts.len(), part.name(), minutes(left));
        document.put(measure(*part, *time)?);
        write(&document, out_dir)?;
    }
    let took = minutes(begin.elapsed().as_secs_f64());
    println!("{took}; {}", out_dir.join("report.html").display());
    if io::stdout().is_terminal() {
        println!("{}", out_dir.join("summary.md").display());
    }
    Ok(())
}

fn measure(part: Part, seconds: f64) -> anyhow::Result<Outcome> {
    let mut lane = Lane::start(&["part", part.name()], None)?;
    lane.measure(&seconds).with_context(|| format!("the part {} failed", part.name()))
}

fn write(document: &Document, out_dir: &Path) -> anyhow::Result<()> {
    document.write(&out_dir.join("report.json"))?;
    let pages = [
        ("report.html", page::render(document)),
        ("summary.md", summary::render(document)),
        ("figures.md", figures::render(document)),
    ];
    for (name, text) in pages {
        let path = out_dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A time of this size as people say it.
fn minutes(seconds: f64) -> String {
    let time = Duration::from_secs_f64(seconds.round());
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
