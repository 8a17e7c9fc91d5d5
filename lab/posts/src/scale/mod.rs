//! `scale`: what operations of the library cost on machines with more CPUs and threads than this one.
//!
//! The [model] says how many system calls, interrupts, cache lines and wake-ups an operation takes. Their costs are
//! [measured](constants) here, or given. `--count` compares the model's numbers with those that this machine
//! [counts](count).

mod constants;
mod count;
mod model;
mod service;

use constants::Constants;
use harness::report::Grid;
use harness::units::duration;
use model::{Machine, Operation};

/// Compute what a grace period, a fence, a counter's sum and a lock cost on larger machines.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    given: constants::Given,
    /// Compare the model's numbers of interrupts, cache lines and wake-ups with those of this machine, and exit.
    #[arg(long)]
    count: bool,
}

/// From 2 to 1024 CPUs.
const CPUS: [usize; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// From 1 to 100,000 threads.
const THREADS: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// The machine on which the number of threads varies.
const CPUS_OF_THREADS: usize = 64;

/// Prints the tables, or compares the numbers.
///
/// # Errors
///
/// Returns an error if a thread cannot be started, or if the numbers differ.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.count {
        return count::run();
    }
    let constants = Constants::measure(&args.given)?;
    println!("{}", constants.grid());
    let (readers, scan) = constants.idle_scan();
    println!("A scan of {readers} readers of idle threads: {}", duration(scan));
    println!("{}", service::grid(&CPUS, constants.miss));
    for operation in &model::OPERATIONS {
        let by_cpus = CPUS.map(|cpus| (cpus, Machine { cpus, threads: 2 * cpus }));
        show(operation, "CPUs", &by_cpus, &constants);
        if operation.by_threads {
            let by_threads = THREADS.map(|threads| (threads, Machine { cpus: CPUS_OF_THREADS, threads }));
            show(operation, "threads", &by_threads, &constants);
        }
    }
    Ok(())
}

/// Prints an operation on several machines.
fn show(operation: &Operation, axis: &str, machines: &[(usize, Machine)], constants: &Constants) {
    let title = match axis {
        "threads" => format!("{}, {CPUS_OF_THREADS} CPUs", operation.title),
        _ => format!("{}, 2 threads for each CPU", operation.title),
    };
    let costs =
        |machine: &Machine| operation.variants.map(|variant| constants.cost(&(variant.counts)(machine)));
    let rows = machines.iter().map(|(number, machine)| {
        [number.to_string()].into_iter().chain(costs(machine).map(duration)).collect()
    });
    let head: Vec<&str> = [axis].into_iter().chain(operation.variants.map(|variant| variant.name)).collect();
    println!("{}", Grid::new(&title, &head, rows.collect()));
    for (place, variant) in operation.variants.iter().enumerate().filter(|(_, variant)| variant.is_ours) {
        let cost = |machine: &Machine| costs(machine)[place];
        let least = cost(&machines[0].1);
        match machines.iter().find(|(_, machine)| cost(machine) >= BEND * least) {
            Some((number, machine)) => {
                let most = constants.largest(&(variant.counts)(machine));
                println!(
                    "{}: from {number} {axis} on {BEND} times the first row, most of it {most}",
                    variant.name
                );
            }
            None => println!("{}: less than {BEND} times the first row everywhere", variant.name),
        }
    }
}

/// A curve bends where it is so many times as high as at its beginning.
const BEND: f64 = 4.0;
