//! `torture rcu`, `qsbr` and `srcu`: readers and updaters of one flavor, interval after interval.
//!
//! Each interval has another number of threads, its own limits, and random choices that follow from the seed. At its
//! end all threads stop, and everything must have been freed. Readers end within an interval too, and others take their
//! slots.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use fastrand::Rng;
use stillpoint::Domain as _;
use stillpoint::rcu::Limits;

use super::common::{Common, Kind, check, fail, require, seeded, sleep};
use super::flavor::Flavor;
use super::slots::{BLOCKING_MODES, READERS, WAIT_MODES, slot_name};
use super::state::{TestState, UpdaterState};
use super::stillness::Stillness;
use super::{canary, faults, history, reader, rounds, updater, violation};
use harness::progress::Progress;
use harness::units::duration;

/// Length of an interval.
const INTERVAL: Duration = Duration::from_millis(300);
/// Sections, and waits, per second that a conclusive run needs.
const LEAST: u64 = 100;
/// Time between two checks, signals, forks.
const TICK: Duration = Duration::from_millis(1);
/// One tick in so many forks; each one in a fork storm.
const FORKS: u32 = 256;

/// Readers and updaters in an interval. Mixes of few threads come first and often: their steps interleave most.
const THREAD_MIXES: [(usize, usize); 8] = [(1, 1), (2, 2), (1, 2), (2, 1), (1, 1), (4, 4), (1, 16), (8, 12)];
/// The first mixes, in which most threads have a CPU of their own.
const FEW: usize = 5;
/// Intervals at the start that are not drawn: those of [`rounds`], then some with few threads, `synchronize()` only,
/// alternating or not.
const ROUNDS: u64 = 2;
const PLAIN: u64 = ROUNDS + 4;

/// Starts and stops the threads, and checks them.
#[derive(Debug)]
struct Coordinator {
    state: &'static TestState,
    name: &'static str,
    progress: Progress,
    total: Duration,
    intervals: u64,
    forks: u64,
    threads: u64,
}

/// Runs the torture. Returns what passed.
pub(super) fn run<F: Flavor>(args: &Common, seed: u64) -> anyhow::Result<String> {
    let state = TestState::new()?;
    canary::start(|| ())?;
    if F::READS_IN_HANDLERS {
        faults::handle_signals(|| reader::interrupt::<F>(state))?;
    }
    let total = Duration::from_secs_f64(args.seconds);
    let progress = Progress::new(&format!("torture {}", F::NAME), args.seconds.ceil() as usize, total);
    let mut coordinator =
        Coordinator { state, name: F::NAME, progress, total, intervals: 0, forks: 0, threads: 0 };
    while state.elapsed() < total {
        let number = coordinator.intervals;
        // The choices of an interval do not depend on the time that earlier ones took.
        let rng = Rng::with_seed(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        coordinator.interval::<F>(rng).with_context(|| format!("in interval {number}"))?;
        coordinator.intervals += 1;
    }
    let Coordinator { intervals, forks, threads, .. } = coordinator;
    println!("{}", F::domain().stats());
    let sections = state.oracle.sections();
    let all =
        |word: fn(&UpdaterState) -> &AtomicU64| state.updaters.iter().map(move |own| word(own).load(Relaxed));
    let (waits, beside) = (all(|own| &own.returns).sum(), all(|own| &own.beside).sum::<u64>());
    let longest = all(|own| &own.longest_ns).max().unwrap_or(0);
    require(F::NAME, "sections", sections, LEAST, args.seconds);
    require(F::NAME, "waits", waits, LEAST, args.seconds);
    Ok(format!(
        "{sections} sections and {waits} waits by {threads} threads in {intervals} intervals and {:.1} s; {beside} \
         waits beside open sections, the longest {}; {} handlers, {forks} forks; nothing freed too early, nothing leaked",
        state.elapsed().as_secs_f64(),
        duration(longest as f64),
        faults::handled(),
    ))
}

impl Coordinator {
    /// Runs threads that work and end, and checks that everything has been freed then.
    fn interval<F: Flavor>(&mut self, mut rng: Rng) -> anyhow::Result<()> {
        let state = self.state;
        let plain = self.intervals < PLAIN;
        let rounds = if plain { self.intervals } else { rng.u64(..8) };
        if rounds < ROUNDS {
            return self.rounds::<F>(rounds, rng);
        }
        let alternating = if plain { self.intervals % 2 == 1 } else { rng.bool() };
        let thread_mix = match plain {
            true => (self.intervals - ROUNDS) as usize / 2,
            false => rng.usize(..if alternating { FEW } else { THREAD_MIXES.len() }),
        };
        let (readers, updaters) = THREAD_MIXES[thread_mix];
        let count = if rng.bool() { 1 << rng.u32(8..14) } else { Limits::default().count };
        F::domain().set_limits(Limits { count, ..Limits::default() });
        let fork_storm = !alternating && rng.u8(..8) == 0;
        let all = if alternating { BLOCKING_MODES } else { WAIT_MODES.len() };
        let one = if plain { 0 } else { rng.usize(..all) };
        let modes = match rng.u8(..3) {
            0 => 0..all,
            1 => 0..BLOCKING_MODES,
            _ => one..one + 1,
        };
        state.stop.store(false, Relaxed);

        let jitters = if alternating { 0 } else { rng.usize(..=state.cpus.len()) };
        let mut threads = Vec::new();
        let mut start = |body: Box<dyn FnOnce() + Send>| {
            fastrand::seed(rng.u64(..));
            threads.push(thread::Builder::new().spawn(seeded(body)).context("cannot start another thread")?);
            anyhow::Ok(())
        };
        for slot in 0..readers {
            start(Box::new(move || reader::run::<F>(state, slot, alternating)))?;
        }
        for slot in 0..updaters {
            let modes = modes.clone();
            start(Box::new(move || updater::run::<F>(state, slot, modes)))?;
        }
        for _ in 0..jitters {
            start(Box::new(|| faults::jitter(&state.cpus, || state.stops())))?;
        }
        self.threads += threads.len() as u64;

        fastrand::seed(rng.u64(..));
        let end = state.elapsed() + INTERVAL.min(self.total);
        let mut stillness = Stillness::beside_timers(F::LONGEST_TIMER);
        while state.elapsed() < end {
            self.tick::<F>();
            if alternating && stillness.check(|thread| state.excuses(thread)) {
                fail(self.name, Kind::Hang, &describe::<F>(state, "no thread runs", None));
            }
            if F::READS_IN_HANDLERS && !alternating {
                // Not if alternating: the handler's section would make up for a lost wake-up.
                state.signals.send();
            }
            if fork_storm || fastrand::u32(..FORKS) == 0 {
                self.forks += fork::<F>()?;
            }
        }
        self.end::<F>(threads)
    }

    /// Ends an interval, and checks that everything has been freed then.
    fn end<F: Flavor>(&self, threads: Vec<JoinHandle<()>>) -> anyhow::Result<()> {
        self.state.stop.store(true, Relaxed);
        self.wait_for::<F>(threads, "ended")?;
        // Twice, as callbacks defer some.
        let barriers = thread::Builder::new().spawn(|| (0..2).for_each(|_| F::domain().barrier()));
        self.wait_for::<F>(
            vec![barriers.context("cannot start another thread")?],
            "returned from barrier()",
        )?;
        self.check::<F>()
    }

    /// Runs an interval of [`rounds`].
    fn rounds<F: Flavor>(&mut self, number: u64, mut rng: Rng) -> anyhow::Result<()> {
        let state = self.state;
        F::domain().set_limits(Limits::default());
        state.stop.store(false, Relaxed);
        let mut bodies: Vec<Box<dyn FnOnce() + Send>> = match number {
            // They need a CPU each.
            0 if state.cpus.len() > 1 => {
                vec![
                    Box::new(|| rounds::read_tightly::<F>(state)),
                    Box::new(|| rounds::update_tightly::<F>(state)),
                ]
            }
            0 => Vec::new(),
            _ => vec![Box::new(|| rounds::wait_for_callbacks::<F>(state))],
        };
        self.threads += bodies.len() as u64;
        let mut threads = Vec::new();
        for body in bodies.drain(..) {
            fastrand::seed(rng.u64(..));
            threads.push(thread::Builder::new().spawn(seeded(body)).context("cannot start another thread")?);
        }
        // Most of a short run is for intervals in which readers count their sections.
        let (end, mut stillness) = (
            state.elapsed() + (2 * INTERVAL).min(self.total / 4),
            Stillness::beside_timers(F::LONGEST_TIMER),
        );
        while state.elapsed() < end && !threads.is_empty() {
            self.tick::<F>();
            if stillness.check(|thread| state.excuses(thread)) {
                fail(self.name, Kind::Hang, &describe::<F>(state, "no thread runs", None));
            }
        }
        self.end::<F>(threads)
    }

    /// Sleeps for a tick; ends the process if something is wrong.
    fn tick<F: Flavor>(&self) {
        let (state, begin) = (self.state, Instant::now());
        sleep(TICK);
        state.advance_clock(begin.elapsed().min(10 * TICK));
        let stuck = || Some((Kind::Hang, stuck::<F>(state)?));
        if let Some((kind, why)) = violation::failure(&state.oracle.histories).or_else(stuck) {
            fail(self.name, kind, &why);
        }
        let sections = || format!("{} sections, {}", state.oracle.sections(), F::domain().stats());
        self.progress.show(|| format!("interval {}: {}", self.intervals, sections()));
        self.progress.reach(state.elapsed().as_secs());
    }

    fn wait_for<F: Flavor>(&self, threads: Vec<JoinHandle<()>>, what: &str) -> anyhow::Result<()> {
        let begin = self.state.clock();
        let mut stillness = Stillness::beside_timers(F::LONGEST_TIMER);
        while !threads.iter().all(JoinHandle::is_finished) {
            self.tick::<F>();
            let waited = self.state.clock() - begin;
            let still = stillness.check(|thread| self.state.excuses(thread));
            if still || waited > canary::wait_limit() {
                let why = if still { ", and no thread runs" } else { "" };
                let what = format!("a thread has not {what} for {:.1} s{why}", waited.as_secs_f64());
                fail(self.name, Kind::Hang, &describe::<F>(self.state, &what, None));
            }
        }
        for thread in threads {
            let panicked = || "a thread panicked; its message is above".to_owned();
            check(thread.join().is_ok(), Kind::Panic, panicked)?;
        }
        Ok(())
    }

    /// Checks that nothing leaks, once all threads have ended and all callbacks have run.
    fn check<F: Flavor>(&self) -> anyhow::Result<()> {
        self.tick::<F>();
        let missing = self.state.oracle.missing();
        check(missing == 0, Kind::Leak, || {
            format!("{missing} elements have not been freed after the barrier")
        })?;
        for (slot, updater) in self.state.updaters.iter().enumerate() {
            let (posted, ran) = (updater.posted.load(Acquire), updater.ran.load(Acquire));
            check(posted == ran, Kind::Order, || {
                format!("{ran} of {posted} callbacks of updater {slot} have run after the barrier")
            })?;
        }
        let stats = F::domain().stats();
        check(stats.queued == 0, Kind::Order, || format!("{} queued after the barrier", stats.queued))?;
        check(stats.panics == 0, Kind::Panic, || format!("{} panics", stats.panics))
    }
}

/// Forks, inside a section or not, and waits for the child, in which the library must work. Returns how many children there
/// were.
fn fork<F: Flavor>() -> anyhow::Result<u64> {
    let mut child = None;
    if fastrand::bool() {
        F::visit(|| child = faults::fork());
    } else {
        child = faults::fork();
    }
    faults::finish(child, F::works_in_child)
}

/// Returns the first wait that has lasted too long, and the events before it.
fn stuck<F: Flavor>(state: &TestState) -> Option<String> {
    state.updaters.iter().enumerate().find_map(|(updater, own)| {
        let (mode, since) = own.busy()?;
        let lasted = state.clock().saturating_sub(since);
        (lasted > canary::wait_limit()).then(|| {
            let lasted = lasted.as_secs_f64();
            let what = format!("{mode:?} of updater {updater} has not returned for {lasted:.1} s");
            describe::<F>(state, &what, Some(updater))
        })
    })
}

/// Returns `what` is wrong, with the state of the readers, and of an updater.
fn describe<F: Flavor>(state: &TestState, what: &str, updater: Option<usize>) -> String {
    let slots: Vec<_> = (0..READERS).chain(updater.map(|updater| READERS + updater)).collect();
    let inside: Vec<_> = (0..READERS)
        .filter(|&reader| state.oracle.clock(reader) % 2 == 1)
        .map(|reader| format!("{} in section {}", slot_name(reader), state.oracle.clock(reader) / 2))
        .collect();
    let inside = if inside.is_empty() { "no reader".to_owned() } else { inside.join(", ") };
    let recent = history::recent(&state.oracle.histories, &slots, history::ticks());
    format!("{what}; inside: {inside}; {}{recent}", F::domain().stats())
}
