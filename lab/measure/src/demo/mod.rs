//! `stillpoint demo`: a routing table under live updates.
//!
//! On a terminal it is shown [live]. Elsewhere, or for a given time, it is measured. Readers look up the longest prefix
//! around an address while one thread announces and withdraws routes as fast as it can. Each [store](stores) serves
//! such a table, in a [process of its own](worker): in turns, in several rounds, first with one reader per CPU, then
//! with many. In the end a reader of stillpoint is timed beside an updater on another CPU and without.

pub mod live;
mod rib;
mod show;
mod stores;
mod table;
pub mod worker;

use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::value_parser;

use harness::pin::{self, CpuPair};
use harness::plan::order;
use harness::worker::Worker;
use harness::{Progress, units};
use rib::MAX_PREFIXES;
use show::Slowdown;
use worker::{Load, Request, STORES, Snapshot, Updates};

const SECONDS: f64 = 20.0;
const PREFIXES: u32 = 100_000;

/// Readers per CPU in the second part.
const OVERSUBSCRIBED: usize = 8;

/// The share of the time that each of the first two parts takes.
const STORES_SHARE: f64 = 0.375;

/// Rounds of the first two parts.
const ROUNDS: usize = 5;

/// Rounds of the third part.
const PINNED_ROUNDS: usize = 31;

/// Options of `stillpoint demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Measure for so long and print tables, on a terminal too [default without one: 20]
    #[arg(long, value_name = "S", value_parser = units::seconds)]
    seconds: Option<f64>,

    /// Size of the generated table: prefix lengths as in the global IPv4 table
    #[arg(long, value_name = "N", default_value_t = PREFIXES)]
    #[arg(value_parser = value_parser!(u32).range(1..=MAX_PREFIXES))]
    prefixes: u32,
}

impl Default for Args {
    fn default() -> Args {
        Args { seconds: None, prefixes: PREFIXES }
    }
}

/// Shows the demo on a terminal, or runs it and prints its tables.
pub fn run(args: Args) -> Result<()> {
    let cpus = thread::available_parallelism().context("cannot find out how many CPUs there are")?.get();
    if args.seconds.is_none() && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return live::run(&args, cpus);
    }
    let pair = pin::pair()?;
    show::opening(args.prefixes, cpus);

    let many = OVERSUBSCRIBED * cpus;
    let steps = 2 * ROUNDS * STORES.len() + 3 * PINNED_ROUNDS;
    let seconds = args.seconds.unwrap_or(SECONDS);
    let progress = Progress::new("demo", steps, Duration::from_secs_f64(seconds));
    progress.show(|| "filling the tables".into());
    let start = |(store, _)| Worker::start(&["table", store, "--prefixes", &args.prefixes.to_string()], None);
    let workers = STORES.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    let mut demo = Demo { workers, seconds, progress };
    let usual = demo.compare(cpus)?;
    let oversubscribed = demo.compare(many)?;
    let slowdown = pair.map(|pair| demo.slowdown(pair)).transpose()?;
    drop(demo);

    show::table(&format!("1 reader per CPU ({cpus} in all), 1 updater"), &usual);
    show::table(
        &format!("Oversubscribed: {OVERSUBSCRIBED} readers per CPU ({many} in all), 1 updater"),
        &oversubscribed,
    );
    show::slowdown(slowdown);
    show::closing(ROUNDS);
    Ok(())
}

struct Demo {
    /// One for each store, ours first.
    workers: Vec<Worker>,
    seconds: f64,
    progress: Progress,
}

impl Demo {
    fn measure(&mut self, store: usize, load: Load, seconds: f64) -> Result<Snapshot> {
        let time = Some(Duration::from_secs_f64(seconds));
        let done = self.workers[store].measure(&Request { load, time });
        self.progress.advance();
        done
    }

    /// Lets each store work once a round, for so many readers. Returns the snapshots of each.
    fn compare(&mut self, readers: usize) -> Result<Vec<Vec<Snapshot>>> {
        let seconds = STORES_SHARE * self.seconds / (ROUNDS * STORES.len()) as f64;
        let load = Load { readers, updates: Updates::Table, synchronizes: false, cpus: None };
        let mut done = vec![Vec::new(); STORES.len()];
        for (_, _, store) in order(ROUNDS, 1, STORES.len()) {
            let name = STORES[store].0;
            self.progress.show(|| format!("{name} with {readers} readers"));
            let snapshot = self.measure(store, load, seconds);
            done[store].push(snapshot.with_context(|| format!("{name} failed"))?);
        }
        Ok(done)
    }

    /// Returns by which parts of its rate a reader on a CPU of its own is slower while an updater works on another CPU:
    /// on the reader's table, and on another table. Medians over the rounds.
    fn slowdown(&mut self, cpus: CpuPair) -> Result<Slowdown> {
        const UPDATES: [Updates; 3] = [Updates::Nothing, Updates::Table, Updates::OtherTable];
        let seconds = (1.0 - 2.0 * STORES_SHARE) * self.seconds / (PINNED_ROUNDS * UPDATES.len()) as f64;
        let mut rates = [[0.0; UPDATES.len()]; PINNED_ROUNDS];
        for (round, _, number) in order(PINNED_ROUNDS, 1, UPDATES.len()) {
            let updates = UPDATES[number];
            self.progress.show(|| format!("1 reader; the updater changes {updates:?}"));
            let load =
                Load { readers: 1, updates, synchronizes: false, cpus: Some((cpus.first, cpus.second)) };
            let done = self.measure(0, load, seconds)?;
            rates[round][number] = done.lookups as f64 / done.seconds;
        }
        let lost = |number: usize| show::median(rates.iter().map(|of| 1.0 - of[number] / of[0]).collect());
        Ok(Slowdown { cpus, here: lost(1), elsewhere: lost(2) })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_have_the_defaults_of_no_command() {
        let line = Line::try_parse_from(["demo"]).expect("no option is required");
        assert_eq!(format!("{:?}", line.args), format!("{:?}", Args::default()));
        assert!(Line::try_parse_from(["demo", "--prefixes", "2000001"]).is_err());
    }
}
