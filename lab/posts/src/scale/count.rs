//! The model's numbers of interrupts, cache lines and wake-ups beside those that this machine counts.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use stillpoint::rcu;

use super::model::{Machine, grace_period_of_idle};
use harness::controls::{Controls, spawn_all};
use harness::report::Grid;
use harness::units::digits;
use harness::{crew, pin};

/// Registered threads that sleep.
const SLEEPING: usize = 1000;
/// How long a section is that grace periods wait for.
const LONG: Duration = Duration::from_millis(5);

/// Prints them.
///
/// # Errors
///
/// Returns an error if a number differs from that of the model.
pub(super) fn run() -> anyhow::Result<()> {
    let cpus = pin::allowed()?;
    let (first, others) = cpus.split_first().context("this process may use no CPU")?;
    pin::to(*first)?;
    let controls = Controls::default();
    let (running, waiting) = controls.scope(|scope| {
        spawn_all(scope, SLEEPING, |_| {
            drop(rcu::enter());
            rcu::hint_idle();
            controls.ready.arrive();
            controls.end.wait();
        })?;
        controls.ready.wait_for(SLEEPING);
        let running = beside(others, 2000, Duration::ZERO, || (0..100).for_each(|_| drop(rcu::enter())))?;
        let waiting = beside(others, 40, LONG / 5, || {
            let _section = rcu::enter();
            thread::sleep(LONG);
        })?;
        Ok((running, waiting))
    })?;

    let machine = Machine { cpus: cpus.len(), threads: SLEEPING + cpus.len() - 1 };
    let model = grace_period_of_idle(&machine);
    let rows = [
        ("fences", model.fences, running.fences),
        ("interrupts in each", model.interrupts, running.interrupts),
        ("readers visited", model.misses, running.scanned),
        ("fences of one that sleeps", 2.0, 1.0 + waiting.further_fences),
        ("wake-ups of one that sleeps", 1.0, waiting.wakeups),
    ];
    let text =
        |&(name, model, counted): &(&str, f64, f64)| vec![name.to_owned(), digits(model), digits(counted)];
    let title = format!("A grace period: {} CPUs, {SLEEPING} sleeping threads", cpus.len());
    println!("{}", Grid::new(&title, &["", "model", "counted"], rows.iter().map(text).collect()));
    // Not the fences: a grace period that finds a preempted reader has a second one.
    for &(name, model, counted) in &rows[1..] {
        // A thread that is preempted is not interrupted; a reader may leave before the leader sleeps.
        ensure!(counted <= model * 1.1 + 0.1, "{name}: more than in the model");
    }
    Ok(())
}

/// Counts for each grace period; the last two for each that sleeps.
#[derive(Debug)]
struct Sample {
    fences: f64,
    interrupts: f64,
    scanned: f64,
    further_fences: f64,
    wakeups: f64,
}

/// Counts `grace_periods`, a `pause` after each, beside a thread on each of `cpus` that calls `read` again and again.
fn beside(
    cpus: &[usize],
    grace_periods: u64,
    pause: Duration,
    read: impl Fn() + Copy + Send,
) -> anyhow::Result<Sample> {
    let controls = Controls::default();
    controls.scope(|scope| {
        for &cpu in cpus {
            let controls = &controls;
            crew::spawn(scope, move || {
                let bound = pin::to(cpu);
                read();
                controls.ready.arrive();
                while !controls.background_must_stop() {
                    read();
                }
                bound
            })?;
        }
        controls.ready.wait_for(cpus.len());
        let (before, interrupts) = (rcu::stats(), interrupts(cpus)?);
        for _ in 0..grace_periods {
            rcu::synchronize();
            thread::sleep(pause);
        }
        let (after, interrupts) = (rcu::stats(), self::interrupts(cpus)? - interrupts);
        let fences = after.heavy_fences - before.heavy_fences;
        let sleeps = (after.sleeps - before.sleeps).max(1);
        let each = |count: u64, of: u64| count as f64 / of as f64;
        Ok(Sample {
            fences: each(fences, grace_periods),
            interrupts: each(interrupts, fences.max(1)),
            scanned: each(after.scanned - before.scanned, grace_periods),
            further_fences: each(fences.saturating_sub(grace_periods), sleeps),
            wakeups: each(after.wakeups - before.wakeups, sleeps),
        })
    })
}

/// Returns the number of function call interrupts of these CPUs so far, of which `membarrier` sends one to each CPU.
fn interrupts(cpus: &[usize]) -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/interrupts").context("cannot read /proc/interrupts")?;
    let is_call =
        |line: &&str| line.trim_start().starts_with("CAL:") || line.contains("Function call interrupts");
    let line = text.lines().find(is_call).context("/proc/interrupts has no function call interrupts")?;
    // A column for each CPU that is online.
    let names = text.lines().next().unwrap_or_default().split_whitespace();
    let counts = line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
    let of_cpu = |name: &str| name.strip_prefix("CPU").and_then(|number| number.parse().ok());
    let counted = names.map(of_cpu).zip(counts);
    Ok(counted.filter(|(cpu, _)| cpu.is_some_and(|cpu| cpus.contains(&cpu))).map(|(_, count)| count).sum())
}
