//! `stillpoint demo`: a routing table under live updates.
//!
//! On a terminal it is shown [live]. Elsewhere, or for a given time, it is measured. Readers look up the longest
//! prefix around an address while one thread announces and withdraws routes as fast as it can. Each [store](stores)
//! serves such a [table](table) in turn, first with one reader per CPU, then with many.

mod live;
mod stores;
mod table;
mod traffic;

use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use harness::grid::Grid;
use harness::units::{self, duration, figure};
use table::Rib;
use traffic::{Rates, STORES, Start};

const SECONDS: f64 = 20.0;
const PREFIXES: usize = 100_000;
/// What the generated table and the updates are drawn from.
const SEED: u64 = 1;
/// Readers per CPU.
const READERS: [usize; 2] = [1, 8];

/// What is said of a store.
const HEADS: [&str; 5] = ["", "lookups/s", "updates/s", "longest update", "unreclaimed"];

/// Options of `stillpoint demo`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Measure for so long and print tables, on a terminal too [default without one: 20]
    #[arg(long, value_name = "S", value_parser = units::seconds)]
    seconds: Option<f64>,
}

/// Shows the demo on a terminal, or runs it and prints its tables.
///
/// # Errors
///
/// Returns an error if a thread cannot be started, if a lookup is wrong, or if the terminal cannot be used.
pub fn run(args: &Args) -> Result<()> {
    let cpus = thread::available_parallelism().context("cannot find out how many CPUs there are")?.get();
    let is_live = args.seconds.is_none() && io::stdout().is_terminal() && io::stdin().is_terminal();
    if !is_live {
        println!("Longest-prefix match on {PREFIXES} IPv4 prefixes under live updates.");
        println!(
            "CPUs: {cpus}. Updaters: 1. Fences of stillpoint: {}.",
            stillpoint::fence::report().backend()
        );
    }
    let rib = Rib::generate(PREFIXES, SEED);
    let stores = STORES.into_iter().map(|(_, starter)| starter(&rib)).collect::<Result<Vec<Start>>>()?;
    if is_live {
        return live::run(&stores, cpus);
    }
    let time = args.seconds.unwrap_or(SECONDS) / (READERS.len() * STORES.len()) as f64;
    for readers in READERS.map(|per_cpu| per_cpu * cpus) {
        let mut rows = Vec::new();
        for ((name, _), start) in STORES.into_iter().zip(&stores) {
            let mut running = start(readers)?;
            thread::sleep(Duration::from_secs_f64(time));
            let rates = running.rates();
            running.stop().with_context(|| format!("{name} failed"))?;
            rows.push([&[name.to_owned()][..], &cells(&rates)].concat());
        }
        println!("{}", Grid::new(&format!("Readers: {readers}"), &HEADS, rows));
    }
    Ok(())
}

/// Returns what the columns of a table show, without the name.
fn cells(rates: &Rates) -> [String; 4] {
    let (longest, awaiting) = (duration(rates.longest_update_ns), figure(rates.awaiting, "bytes"));
    [rate(rates.lookups), rate(rates.updates), longest, awaiting]
}

fn rate(per_second: f64) -> String {
    match per_second {
        1e7.. => format!("{:.1} M", per_second / 1e6),
        1e6.. => format!("{:.2} M", per_second / 1e6),
        1e3.. => format!("{:.1} k", per_second / 1e3),
        _ => format!("{per_second:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_the_unit_that_keeps_them_short() {
        assert_eq!([1.0, 1234.0, 2_345_678.0, 2e7].map(rate), ["1", "1.2 k", "2.35 M", "20.0 M"]);
    }
}
