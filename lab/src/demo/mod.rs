//! `stillpoint demo`: a routing table under live updates.
//!
//! On a terminal it is shown [live]. Elsewhere, or for a given time, it is measured. Readers look up the longest prefix around
//! an address while one thread announces and withdraws routes as fast as it can. The same table serves on a mutex, a
//! reader-writer lock, `arc-swap`, `crossbeam-epoch` and stillpoint: in turns, in several rounds, first with one reader for each
//! CPU, then with many. In the end a reader of stillpoint is timed beside an updater on another CPU and without.

pub(crate) mod live;
mod rib;
mod run;
mod show;
mod stores;
mod table;

use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use rib::{MAX_PREFIXES, Rib};
use run::{Contestant, Outcome, Plan, Table};
use show::Slowdown;
use stores::{InArcSwap, InEpoch, InMutex, InRcu, InRwLock};

use crate::harness::Progress;
use crate::harness::pin::{self, CpuPair};

const SECONDS: f64 = 20.0;
const PREFIXES: usize = 100_000;

/// Readers for each CPU in the second part.
const OVERSUBSCRIBED: usize = 8;

/// The share of the time that each of the first two parts takes.
const TOURNAMENT: f64 = 0.375;

/// Rounds of the first two parts. In each, another contestant comes first.
const ROUNDS: usize = 5;

/// Contestants that are not ours.
const PEERS: usize = 4;

/// Rounds of the third part.
const PINNED_ROUNDS: usize = 31;

/// What the generated table and the updates are drawn from.
const SEED: u64 = 1;

/// Addresses of one reader: few enough to stay in its cache with the routes behind them, and prime, so that the timed
/// lookup, one in 64, is another one in every pass.
const ADDRESSES: usize = 1021;

/// Options of `stillpoint demo`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure for so long and print tables, on a terminal too [default without one: 20]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,

    /// Size of the generated table: prefix lengths as in the global IPv4 table
    #[arg(long, value_name = "N", default_value_t = PREFIXES, value_parser = prefixes)]
    prefixes: usize,
}

impl Default for Args {
    fn default() -> Args {
        Args { seconds: None, prefixes: PREFIXES }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let limits = 1.0..=3600.0;
    text.parse()
        .ok()
        .filter(|seconds| limits.contains(seconds))
        .ok_or("must be a number from 1 to 3600".into())
}

fn prefixes(text: &str) -> Result<usize, String> {
    let limits = 1..=MAX_PREFIXES;
    let allowed = text.parse().ok().filter(|count| limits.contains(count));
    allowed.ok_or_else(|| format!("must be a number from 1 to {MAX_PREFIXES}"))
}

/// Shows the demo on a terminal, or runs it and prints its tables.
pub(crate) fn run(args: Args) -> Result<()> {
    let cpus = thread::available_parallelism().context("cannot find out how many CPUs there are")?.get();
    if args.seconds.is_none() && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return live::run(&args, cpus);
    }
    let pinned = pin::pair()?;
    let rib = Rib::generate(args.prefixes, SEED);
    show::opening(rib.len(), cpus);

    let mut demo = Demo::new(&rib, cpus, args.seconds.unwrap_or(SECONDS));
    let usual = demo.tournament(1)?;
    let crowded = demo.tournament(OVERSUBSCRIBED)?;
    let slowdown = pinned.map(|cpus| demo.slowdown(cpus)).transpose()?;
    drop(demo);

    show::table(&format!("1 reader per CPU ({cpus} in all), 1 updater"), &usual);
    let crowd = OVERSUBSCRIBED * cpus;
    show::table(
        &format!("Oversubscribed: {OVERSUBSCRIBED} readers per CPU ({crowd} in all), 1 updater"),
        &crowded,
    );
    show::slowdown(slowdown);
    show::closing(ROUNDS);
    Ok(())
}

struct Demo {
    peers: [Box<dyn Contestant>; PEERS],
    ours: Table<InRcu>,
    /// One more of ours, for the updater when it must leave the readers' table alone.
    other: Table<InRcu>,
    /// A list for each reader, the same for every contestant.
    addresses: Vec<Box<[u32]>>,
    cpus: usize,
    seconds: f64,
    progress: Progress,
}

/// A contestant's name and what it measured in each round.
type Outcomes = (&'static str, Vec<Outcome>);

impl Demo {
    fn new(rib: &Rib, cpus: usize, seconds: f64) -> Self {
        let steps = 2 * ROUNDS * (PEERS + 1) + 3 * PINNED_ROUNDS;
        let progress = Progress::new("demo", steps, Duration::from_secs_f64(seconds));
        progress.show(|| "filling the tables".into());
        let addresses = (0..OVERSUBSCRIBED * cpus).map(|reader| addresses(rib, reader)).collect();
        let peers: [Box<dyn Contestant>; PEERS] = [
            Box::new(Table::<InMutex>::new(rib)),
            Box::new(Table::<InRwLock>::new(rib)),
            Box::new(Table::<InArcSwap>::new(rib)),
            Box::new(Table::<InEpoch>::new(rib)),
        ];
        Self { peers, ours: Table::new(rib), other: Table::new(rib), addresses, cpus, seconds, progress }
    }

    /// Lets each contestant work once a round, with so many readers for each CPU.
    fn tournament(&mut self, readers: usize) -> Result<Vec<Outcomes>> {
        let mut contestants: Vec<&mut dyn Contestant> =
            self.peers.iter_mut().map(|peer| &mut **peer as _).collect();
        contestants.push(&mut self.ours);
        let slices = ROUNDS * contestants.len();
        let time = Duration::from_secs_f64(TOURNAMENT * self.seconds / slices as f64);
        let plan = Plan { readers: readers * self.cpus, pinned: None, time };
        let mut outcomes: Vec<Outcomes> =
            contestants.iter().map(|contestant| (contestant.name(), vec![])).collect();
        for round in 0..ROUNDS {
            for turn in 0..contestants.len() {
                let number = (round + turn) % contestants.len();
                let contestant = &mut contestants[number];
                self.progress.show(|| format!("{} with {} readers", contestant.name(), plan.readers));
                outcomes[number].1.push(contestant.run(&plan, &self.addresses)?);
                self.progress.advance();
            }
        }
        Ok(outcomes)
    }

    /// Returns by which parts of its rate a reader on a CPU of its own is slower while an updater works on another CPU: on the
    /// reader's table, and on another table. Medians over the rounds.
    fn slowdown(&mut self, cpus: CpuPair) -> Result<Slowdown> {
        let slices = 3 * PINNED_ROUNDS;
        let time = Duration::from_secs_f64((1.0 - 2.0 * TOURNAMENT) * self.seconds / slices as f64);
        let plan = Plan { readers: 1, pinned: Some(cpus), time };
        let mut slowdowns = [vec![], vec![]];
        pin::all_threads_to(cpus.second)?;
        for round in 0..PINNED_ROUNDS {
            let mut rates = [0.0; 3];
            for turn in 0..rates.len() {
                let number = (round + turn) % rates.len();
                let doing = ["is idle", "works on its table", "works on another table"][number];
                self.progress.show(|| format!("1 reader while the updater {doing}"));
                let outcome = match number {
                    0 => self.ours.run_beside(None, &plan, &self.addresses),
                    1 => self.ours.run(&plan, &self.addresses),
                    _ => self.ours.run_beside(Some(&mut self.other), &plan, &self.addresses),
                };
                rates[number] = outcome?.lookups;
                self.progress.advance();
            }
            let [idle, here, elsewhere] = rates;
            slowdowns[0].push(1.0 - here / idle);
            slowdowns[1].push(1.0 - elsewhere / idle);
        }
        let [here, elsewhere] = slowdowns.map(show::median);
        Ok(Slowdown { cpus, here, elsewhere })
    }
}

/// Returns the addresses that a reader looks up.
fn addresses(rib: &Rib, reader: usize) -> Box<[u32]> {
    let mut random = fastrand::Rng::with_seed(reader as u64);
    (0..ADDRESSES).map(|_| rib.address(&mut random)).collect()
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

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Ok(Line::try_parse_from(line.split_whitespace())?.args)
    }

    #[test]
    fn options_are_checked_and_default_to_those_of_no_command() {
        assert_eq!(format!("{:?}", parse("demo").unwrap()), format!("{:?}", Args::default()));
        assert_eq!(parse("demo --seconds 2.5").unwrap().seconds, Some(2.5));
        for wrong in ["--seconds 0", "--seconds nan", "--prefixes 0", "--prefixes 2000001"] {
            assert!(parse(&format!("demo {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_contestant_agrees_with_the_rib_after_each_slice() {
        let mut demo = Demo::new(&Rib::generate(100, SEED), 1, 0.5);
        for readers in [1, OVERSUBSCRIBED] {
            let outcomes = demo.tournament(readers).unwrap();
            assert_eq!(outcomes.len(), 5);
            for (name, outcomes) in outcomes {
                assert!(outcomes.iter().any(|outcome| outcome.lookups > 0.0), "{name} looked nothing up");
                assert!(outcomes.iter().any(|outcome| outcome.updates > 0.0), "{name} updated nothing");
            }
        }
    }
}
