//! `stillpoint top`: what the library does in a running process, which publishes a [page](page) of statistics.
//!
//! The page is a file in memory that the [process] has open; it is read, and nothing else happens to the process. On
//! a terminal the screen is drawn again with each sample, elsewhere one block follows another; `--json` prints the
//! samples.

mod document;
mod page;
mod process;
mod show;

use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ratatui_crossterm::crossterm::cursor::MoveTo;
use ratatui_crossterm::crossterm::queue;
use ratatui_crossterm::crossterm::terminal::{self, Clear, ClearType};
use serde_json::Value;

use document::one_line;
use harness::units;
use process::Process;
use show::Shown;

/// Options of `stillpoint top`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The process, which calls `stillpoint::statistics_page::publish`
    pid: u32,

    /// Print each sample as one line of JSON
    #[arg(long)]
    json: bool,

    /// End after so many samples
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU64>,

    /// The time between samples
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = units::seconds)]
    interval: f64,
}

/// Shows samples until the process ends, or as many as are asked for.
pub fn run(args: &Args) -> Result<()> {
    let process = Process::open(args.pid)?;
    let mut page = process.page()?;
    let mut last: Option<(u64, Value)> = None;
    let mut left = args.count.map(NonZeroU64::get);
    loop {
        let mut sample = page::read(&page)?;
        if last.as_ref().is_some_and(|(number, _)| *number == sample.number) {
            // No new sample: the process has ended, has another page now, or none; or it is stopped.
            if !process.is_alive() {
                eprintln!("process {} has ended", args.pid);
                return Ok(());
            }
            match process.page() {
                Ok(again) => page = again,
                Err(error) => {
                    eprintln!("{error:#}");
                    return Ok(());
                }
            }
            sample = page::read(&page)?;
        }
        let parsed = document::parse(&sample.text)?;
        let text = if args.json {
            one_line(&parsed) + "\n"
        } else {
            show::text(&Shown {
                pid: args.pid,
                process: process.name(),
                number: sample.number,
                sample: &parsed,
                previous: last.as_ref().map(|(_, sample)| sample),
            })
        };
        match print(&text, args.json, last.is_some()) {
            // `head` has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            result => result.context("cannot print")?,
        }
        last = Some((sample.number, parsed));
        left = left.map(|left| left - 1);
        if left == Some(0) {
            return Ok(());
        }
        thread::sleep(Duration::from_secs_f64(args.interval));
    }
}

/// Prints a sample: on a terminal, in the place of the one before, and as much of it as there is room for.
fn print(text: &str, is_json: bool, is_further: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match terminal::size() {
        // Some terminals do not know their size, which is then 0.
        Ok((columns @ 1.., rows @ 1..)) if !is_json && out.is_terminal() => {
            queue!(out, Clear(ClearType::All), MoveTo(0, 0))?;
            for line in screen(text, columns.into()).take(usize::from(rows).saturating_sub(1)) {
                writeln!(out, "{line}")?;
            }
        }
        _ => {
            let separator = if is_json || !is_further { "" } else { "\n" };
            write!(out, "{separator}{text}")?;
        }
    }
    out.flush()
}

/// Returns the lines of a terminal with so many columns: a row of a table is cut, other lines are continued.
fn screen(text: &str, columns: usize) -> impl Iterator<Item = String> {
    text.lines().flat_map(move |line| {
        let characters: Vec<char> = line.chars().collect();
        let most = if line.starts_with('|') { 1 } else { usize::MAX };
        let mut pieces: Vec<String> = characters.chunks(columns).take(most).map(String::from_iter).collect();
        pieces.resize(pieces.len().max(1), String::new());
        pieces
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn screen_cuts_rows_and_continues_other_lines() {
        let lines: Vec<_> = super::screen("| row |\n\nthread 7", 4).collect();
        assert_eq!(lines, ["| ro", "", "thre", "ad 7"]);
    }
}
