//! `torture rcu`, `qsbr` and `srcu`: readers and updaters of one flavor, interval after interval.
//!
//! Each interval has another number of threads, its own limits, and random choices that follow from the seed. At its
//! end all threads stop, and everything must have been freed. Readers end within an interval too, and others take
//! their slots.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use fastrand::Rng;
use stillpoint::Domain as _;
use stillpoint::rcu::Limits;

use super::common::{Common, Kind, check, fail, require, sleep};
use super::flavor::Flavor;
use super::intervals::{TICK, Watch, interval, repeat};
use super::slots::{BLOCKING_MODES, READERS, WAIT_MODES};
use super::state::{TestState, UpdaterState};
use super::{canary, faults, reader, rounds, updater, violation};
use harness::units::duration;

/// Length of an interval.
const INTERVAL: Duration = Duration::from_millis(300);
/// Sections, and waits, per second that a conclusive run needs.
const LEAST: u64 = 100;
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

/// What a thread of an interval does.
#[derive(Clone)]
enum Role {
    Reads { slot: usize, alternating: bool },
    Updates { slot: usize, modes: Range<usize> },
    Disturbs,
    ReadsTightly,
    UpdatesTightly,
    WaitsForCallbacks,
}

/// An interval: its threads, and how they are disturbed.
struct Plan {
    roles: Vec<Role>,
    length: Duration,
    /// No thread runs only if a wake-up is lost.
    is_quiet: bool,
    sends_signals: bool,
    /// One tick in so many forks; none if 0.
    forks: u32,
    limits: Limits,
}

impl Plan {
    /// Draws the interval with this number.
    fn draw(number: u64, cpus: usize, mut rng: Rng) -> Self {
        let plain = number < PLAIN;
        let rounds = if plain { number } else { rng.u64(..8) };
        if rounds < ROUNDS {
            let roles = match rounds {
                // They need a CPU each.
                0 if cpus > 1 => vec![Role::ReadsTightly, Role::UpdatesTightly],
                0 => Vec::new(),
                _ => vec![Role::WaitsForCallbacks],
            };
            let length = if roles.is_empty() { Duration::ZERO } else { 2 * INTERVAL };
            let limits = Limits::default();
            return Self { roles, length, is_quiet: true, sends_signals: false, forks: 0, limits };
        }
        let alternating = if plain { number % 2 == 1 } else { rng.bool() };
        let thread_mix = match plain {
            true => (number - ROUNDS) as usize / 2,
            false => rng.usize(..if alternating { FEW } else { THREAD_MIXES.len() }),
        };
        let (readers, updaters) = THREAD_MIXES[thread_mix];
        let count = if rng.bool() { 1 << rng.u32(8..14) } else { Limits::default().count };
        let fork_storm = !alternating && rng.u8(..8) == 0;
        let all = if alternating { BLOCKING_MODES } else { WAIT_MODES.len() };
        let one = if plain { 0 } else { rng.usize(..all) };
        let modes = match rng.u8(..3) {
            0 => 0..all,
            1 => 0..BLOCKING_MODES,
            _ => one..one + 1,
        };
        let disturbing = if alternating { 0 } else { rng.usize(..=cpus) };
        let reads = (0..readers).map(|slot| Role::Reads { slot, alternating });
        let updates = (0..updaters).map(|slot| Role::Updates { slot, modes: modes.clone() });
        let roles = reads.chain(updates).chain((0..disturbing).map(|_| Role::Disturbs)).collect();
        Self {
            roles,
            length: INTERVAL,
            is_quiet: alternating,
            // The handler's section would make up for a lost wake-up.
            sends_signals: !alternating,
            forks: if fork_storm { 1 } else { FORKS },
            limits: Limits { count, ..Limits::default() },
        }
    }
}

impl Role {
    fn run<F: Flavor>(self, state: &'static TestState) {
        match self {
            Self::Reads { slot, alternating } => reader::run::<F>(state, slot, alternating),
            Self::Updates { slot, modes } => updater::run::<F>(state, slot, modes),
            Self::Disturbs => faults::jitter(&state.cpus, || state.stops()),
            Self::ReadsTightly => rounds::read_tightly::<F>(state),
            Self::UpdatesTightly => rounds::update_tightly::<F>(state),
            Self::WaitsForCallbacks => rounds::wait_for_callbacks::<F>(state),
        }
    }
}

/// Runs the torture. Returns what passed.
pub(super) fn run<F: Flavor>(args: &Common, seed: u64) -> anyhow::Result<String> {
    let state = TestState::new()?;
    canary::start(|| ())?;
    if F::READS_IN_HANDLERS {
        faults::handle_signals(|| reader::interrupt::<F>(state))?;
    }
    let (mut threads, mut forks) = (0, 0);
    let most = Duration::from_secs_f64(args.seconds);
    let intervals = repeat(args.seconds, |number| {
        let number = number as u64;
        // The choices of an interval do not depend on the time that earlier ones took.
        let mut rng = Rng::with_seed(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        fastrand::seed(rng.u64(..));
        let mut plan = Plan::draw(number, state.cpus.len(), rng);
        // Most of a short run is for intervals in which readers count their sections.
        plan.length = plan.length.min(if number < ROUNDS { most / 4 } else { most });
        threads += plan.roles.len();
        forks += one_interval::<F>(state, &plan).with_context(|| format!("in interval {number}"))?;
        Ok(())
    })?;
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

/// Runs threads that work and end, and checks that everything has been freed then. Returns the number of forks.
fn one_interval<F: Flavor>(state: &'static TestState, plan: &Plan) -> anyhow::Result<u64> {
    F::domain().set_limits(plan.limits);
    let what = || describe::<F>(state);
    let excused = |thread| state.excuses(thread);
    let watch = Watch { name: F::NAME, state: &what, excused: &excused, longest_timer: F::LONGEST_TIMER };
    let (mut forks, mut stillness) = (0, watch.stillness());
    let body = |number: usize| plan.roles[number].clone().run::<F>(state);
    interval(&watch, plan.roles.len(), plan.length, &state.stop, body, |ends| {
        tick::<F>(state);
        if ends {
            return Ok(());
        }
        if plan.is_quiet && stillness.check(watch.excused) {
            watch.hang("no thread runs");
        }
        if plan.sends_signals && F::READS_IN_HANDLERS {
            state.signals.send();
        }
        if plan.forks > 0 && fastrand::u32(..plan.forks) == 0 {
            forks += fork::<F>()?;
        }
        Ok(())
    })?;
    // Twice, as callbacks defer some.
    let barriers = |_| (0..2).for_each(|_| F::domain().barrier());
    interval(&watch, 1, Duration::ZERO, &state.stop, barriers, |_| {
        tick::<F>(state);
        Ok(())
    })?;
    check_all::<F>(state)?;
    Ok(forks)
}

/// Sleeps for a tick; ends the process if something is wrong.
fn tick<F: Flavor>(state: &TestState) {
    let begin = Instant::now();
    sleep(TICK);
    state.advance_clock(begin.elapsed().min(10 * TICK));
    let stuck = || Some((Kind::Hang, stuck::<F>(state)?));
    if let Some((kind, why)) = violation::failure().or_else(stuck) {
        fail(F::NAME, kind, &why);
    }
}

/// Checks that nothing leaks, once all threads have ended and all callbacks have run.
fn check_all<F: Flavor>(state: &TestState) -> anyhow::Result<()> {
    tick::<F>(state);
    let missing = state.oracle.missing();
    check(missing == 0, Kind::Leak, || format!("{missing} elements have not been freed after the barrier"))?;
    for (slot, updater) in state.updaters.iter().enumerate() {
        let (posted, ran) = (updater.posted.load(Acquire), updater.ran.load(Acquire));
        check(posted == ran, Kind::Order, || {
            format!("{ran} of {posted} callbacks of updater {slot} have run after the barrier")
        })?;
    }
    let stats = F::domain().stats();
    check(stats.queued == 0, Kind::Order, || format!("{} queued after the barrier", stats.queued))?;
    check(stats.panics == 0, Kind::Panic, || format!("{} panics", stats.panics))
}

/// Forks, inside a section or not, and waits for the child, in which the library must work. Returns how many children
/// there were.
fn fork<F: Flavor>() -> anyhow::Result<u64> {
    let mut child = None;
    if fastrand::bool() {
        F::visit(|| child = faults::fork());
    } else {
        child = faults::fork();
    }
    faults::finish(child, F::works_in_child)
}

/// Returns the first wait that has lasted too long.
fn stuck<F: Flavor>(state: &TestState) -> Option<String> {
    state.updaters.iter().enumerate().find_map(|(updater, own)| {
        let (mode, since) = own.busy()?;
        let lasted = state.clock().saturating_sub(since);
        let what =
            format!("{mode:?} of updater {updater} has not returned for {:.1} s", lasted.as_secs_f64());
        (lasted > canary::wait_limit()).then(|| format!("{what}; {}", describe::<F>(state)))
    })
}

/// Returns the state of the readers.
fn describe<F: Flavor>(state: &TestState) -> String {
    let inside: Vec<_> = (0..READERS)
        .filter(|&reader| state.oracle.clock(reader) % 2 == 1)
        .map(|reader| format!("reader {reader} in section {}", state.oracle.clock(reader) / 2))
        .collect();
    format!("inside: {}; {}", inside.join(", "), F::domain().stats())
}
