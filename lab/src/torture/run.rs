//! `torture rcu`, `qsbr` and `srcu`: readers and updaters of one kind, shift after shift.
//!
//! | in | is |
//! |---|---|
//! | [`flavor`](super::flavor) | what the kinds of readers differ in |
//! | [`oracle`](super::oracle) | the check |
//! | [`reader`](super::reader), [`updater`](super::updater) | what threads do |
//! | [`disturb`](super::disturb) | what comes between |
//! | [`history`](super::history) | what is told when something is wrong |
//!
//! Each shift has another number of threads, its own limits, and random choices that follow from the seed. At its end all stop, and
//! everything must have been freed. Readers end within a shift too, and others take their seats.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use comfy_table::{CellAlignment, Table, presets};
use fastrand::Rng;
use stillpoint::rcu::Limits;

use super::disturb::{self, Signals};
use super::flavor::Flavor;
use super::oracle::{READERS, Stage, UPDATERS};
use super::updater::{Count, Desk, WAITS, WAYS};
use super::{Common, enough, fail, history, patience, reader, updater};
use crate::harness::pin;
use crate::harness::progress::Progress;
use crate::harness::units::duration;

/// Time until all stop.
const SHIFT: Duration = Duration::from_millis(300);
/// Sections, and waits, of a second without which a run says nothing.
const LEAST: u64 = 100;
/// Time between two looks at the threads, signals, forks.
const BEAT: Duration = Duration::from_millis(1);
/// One beat in so many forks; in a storm, each.
const FORKS: u32 = 256;

/// Readers and updaters in a shift. Few at first, and often: they meet each other's every step.
const CASTS: [(usize, usize); 8] = [(1, 1), (2, 2), (1, 2), (2, 1), (1, 1), (4, 4), (1, 16), (8, 12)];
/// Casts that leave most threads a CPU: the first.
const FEW: usize = 5;

/// What all threads share.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) stage: &'static Stage,
    pub(super) desks: [Desk; UPDATERS],
    pub(super) signals: Signals,
    pub(super) cpus: Vec<usize>,
    pub(super) far: Box<[AtomicU64]>,
    start: Instant,
    /// Microseconds that this process has had: see [`clock`](Self::clock).
    clock: AtomicU64,
    stop: AtomicBool,
    shy: AtomicBool,
    /// Ways that updaters choose from: the first, and the one after the last.
    ways: [AtomicUsize; 2],
}

impl Scene {
    fn new() -> anyhow::Result<&'static Self> {
        history::begin();
        // For ever, as callbacks may come late, and signals.
        Ok(Box::leak(Box::new(Self {
            stage: Stage::new(),
            desks: Default::default(),
            signals: Signals::default(),
            cpus: pin::allowed()?,
            far: reader::far(),
            start: Instant::now(),
            clock: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            shy: AtomicBool::new(false),
            ways: Default::default(),
        })))
    }

    #[inline]
    pub(super) fn stops(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Whether readers take turns with updaters, who wait all the time: most of what can happen between a section's end and a leader's
    /// sleep does so then.
    #[inline]
    pub(super) fn is_shy(&self) -> bool {
        self.shy.load(Relaxed)
    }

    /// What updaters do in this shift.
    pub(super) fn ways(&self) -> Range<usize> {
        let [first, end] = &self.ways;
        first.load(Relaxed)..end.load(Relaxed)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The time by which patience goes: it stands still while the whole process does (stopped, or starved), as nobody can be
    /// blamed for that.
    pub(super) fn clock(&self) -> Duration {
        Duration::from_micros(self.clock.load(Relaxed))
    }

    /// What has lasted too long, if something has, and what happened before.
    fn overdue<F: Flavor>(&self) -> Option<String> {
        self.desks.iter().enumerate().find_map(|(updater, desk)| {
            let (way, since) = desk.busy()?;
            let lasted = self.clock().saturating_sub(since);
            (lasted > patience()).then(|| {
                let seconds = lasted.as_secs_f64();
                let what = format!("{way} of updater {updater} has not returned for {seconds:.1} s");
                self.tell::<F>(&what, Some(updater))
            })
        })
    }

    /// `what` is wrong, with all that is known of the readers, and of an updater.
    fn tell<F: Flavor>(&self, what: &str, updater: Option<usize>) -> String {
        let seats: Vec<_> = (0..READERS).chain(updater.map(|updater| READERS + updater)).collect();
        let inside: Vec<_> = (0..READERS)
            .filter(|&reader| self.stage.number(reader) % 2 == 1)
            .map(|reader| format!("reader {reader} in section {}", self.stage.number(reader) / 2))
            .collect();
        let inside = if inside.is_empty() { "nobody".to_owned() } else { inside.join(", ") };
        let recent = history::recent(self.stage, &seats, history::ticks());
        format!("{what}; inside: {inside}; {}{recent}", F::stats())
    }
}

/// What goes on beside the threads.
#[derive(Debug)]
struct Director {
    scene: &'static Scene,
    name: &'static str,
    progress: Progress,
    total: Duration,
    shown: u64,
    shifts: u64,
    forks: u64,
    threads: u64,
}

/// Runs the torture; what passed.
///
/// # Errors
///
/// Fails if a check does, or the machine does not allow the threads. A wait that does not end ends the process, and so does
/// whatever the oracle finds.
pub(super) fn run<F: Flavor>(args: &Common, seed: u64) -> anyhow::Result<String> {
    let scene = Scene::new()?;
    Signals::handle::<F>(scene)?;
    let total = Duration::from_secs_f64(args.seconds);
    let progress = Progress::new(&format!("torture {}", F::NAME), args.seconds.ceil() as usize, total);
    let mut director =
        Director { scene, name: F::NAME, progress, total, shown: 0, shifts: 0, forks: 0, threads: 0 };
    while scene.elapsed() < total {
        // Each shift's choices are its own, however long those before took.
        let rng = Rng::with_seed(seed.wrapping_add(director.shifts.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        director.shift::<F>(rng).with_context(|| format!("in shift {}", director.shifts))?;
        director.shifts += 1;
    }
    drop(director.progress);
    println!("{}", table(scene));
    let stats = F::stats();
    println!("{stats}");
    let sections = scene.stage.sections();
    let waits = scene.desks.iter().flat_map(Desk::counts).map(|count| count.times.load(Relaxed)).sum();
    enough("sections", sections, LEAST, args.seconds)?;
    enough("waits", waits, LEAST, args.seconds)?;
    Ok(format!(
        "{sections} sections and {waits} waits by {} threads in {} shifts and {:.1} s; {} handlers, {} forks; nothing freed too early, \
         nothing left",
        director.threads,
        director.shifts,
        scene.elapsed().as_secs_f64(),
        scene.signals.handled.load(Relaxed),
        director.forks,
    ))
}

impl Director {
    /// One shift: threads that work and end; then nothing must be left.
    fn shift<F: Flavor>(&mut self, mut rng: Rng) -> anyhow::Result<()> {
        let scene = self.scene;
        let shy = if self.shifts < 4 { self.shifts % 2 == 1 } else { rng.bool() };
        let cast = if self.shifts < 4 {
            self.shifts as usize / 2
        } else {
            rng.usize(..if shy { FEW } else { CASTS.len() })
        };
        let (readers, updaters) = CASTS[cast];
        let count = if rng.bool() { 1 << rng.u32(8..14) } else { Limits::default().count };
        F::set_limits(Limits { count, ..Limits::default() });
        let storm = !shy && rng.u8(..8) == 0;
        scene.shy.store(shy, Relaxed);
        // All, those that wait, or one, for its own sake: early on the plainest.
        let one = if self.shifts < 4 { 0 } else { rng.usize(..if shy { WAITS } else { WAYS.len() }) };
        let ways = match rng.u8(..3) {
            0 if !shy => 0..WAYS.len(),
            0 | 1 => 0..WAITS,
            _ => one..one + 1,
        };
        scene.ways[0].store(ways.start, Relaxed);
        scene.ways[1].store(ways.end, Relaxed);
        scene.stop.store(false, Relaxed);

        let mut threads = Vec::new();
        let mut start = |seed: u64, body: Box<dyn FnOnce() + Send>| {
            let seeded = move || {
                fastrand::seed(seed);
                body();
            };
            threads.push(thread::Builder::new().spawn(seeded).context("cannot start another thread")?);
            anyhow::Ok(())
        };
        for seat in 0..readers {
            start(rng.u64(..), Box::new(move || reader::lives::<F>(scene, seat)))?;
        }
        for seat in 0..updaters {
            start(rng.u64(..), Box::new(move || updater::live::<F>(scene, seat)))?;
        }
        for _ in 0..if shy { 0 } else { rng.usize(..=scene.cpus.len()) } {
            start(rng.u64(..), Box::new(|| disturb::jitter(scene)))?;
        }
        self.threads += threads.len() as u64;

        fastrand::seed(rng.u64(..));
        let end = scene.elapsed() + SHIFT.min(self.total);
        while scene.elapsed() < end {
            self.beat::<F>();
            if !shy {
                // Their sections would wake whom others have forgotten.
                scene.signals.send::<F>(fastrand::usize(..READERS));
            }
            if storm || fastrand::u32(..FORKS) == 0 {
                disturb::fork::<F>()?;
                self.forks += 1;
            }
        }
        scene.stop.store(true, Relaxed);
        self.wait_for::<F>(threads, "ended")?;
        // Twice, as callbacks defer some.
        let barriers = thread::Builder::new().spawn(|| (0..2).for_each(|_| F::barrier()));
        self.wait_for::<F>(
            vec![barriers.context("cannot start another thread")?],
            "returned from barrier()",
        )?;
        self.check::<F>()
    }

    /// A moment passes; ends the process if something is wrong.
    fn beat<F: Flavor>(&mut self) {
        let begin = Instant::now();
        super::sleep(BEAT);
        let passed = begin.elapsed().min(10 * BEAT).as_micros() as u64;
        self.scene.clock.fetch_add(passed, Relaxed);
        if let Some(why) = history::failure(self.scene.stage) {
            fail(self.name, &why);
        }
        if let Some(why) = self.scene.overdue::<F>() {
            fail(self.name, &why);
        }
        let stage = self.scene.stage;
        self.progress
            .show(|| format!("shift {}: {} sections, {}", self.shifts, stage.sections(), F::stats()));
        while self.shown < self.scene.elapsed().min(self.total).as_secs() {
            self.shown += 1;
            self.progress.advance();
        }
    }

    fn wait_for<F: Flavor>(&mut self, threads: Vec<JoinHandle<()>>, what: &str) -> anyhow::Result<()> {
        let begin = self.scene.clock();
        while !threads.iter().all(JoinHandle::is_finished) {
            self.beat::<F>();
            let waited = self.scene.clock() - begin;
            if waited > patience() {
                let what = format!("a thread has not {what} for {:.1} s", waited.as_secs_f64());
                fail(self.name, &self.scene.tell::<F>(&what, None));
            }
        }
        for thread in threads {
            ensure!(thread.join().is_ok(), "a thread panicked; its message is above");
        }
        Ok(())
    }

    /// All threads have ended, and nothing is deferred any more.
    fn check<F: Flavor>(&mut self) -> anyhow::Result<()> {
        self.beat::<F>();
        let missing = self.scene.stage.missing();
        ensure!(missing == 0, "{missing} elements have not been freed after the barrier");
        for (seat, desk) in self.scene.desks.iter().enumerate() {
            let (posted, ran) = desk.callbacks();
            ensure!(
                posted == ran,
                "{ran} of {posted} callbacks of updater {seat} have run after the barrier"
            );
        }
        let stats = F::stats();
        ensure!(stats.queued == 0, "{} queued after the barrier", stats.queued);
        ensure!(stats.panics == 0, "{} panics", stats.panics);
        Ok(())
    }
}

/// What was done in each way.
fn table(scene: &Scene) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["wait", "number", "beside open sections", "longest"]);
    for (way, (name, ..)) in WAYS.iter().enumerate() {
        let all = || scene.desks.iter().filter_map(|desk| desk.counts().nth(way));
        let sum = |word: fn(&Count) -> &AtomicU64| all().map(|count| word(count).load(Relaxed)).sum::<u64>();
        let longest = all().map(|count| count.longest.load(Relaxed)).max().unwrap_or(0);
        let [times, beside] = [sum(|count| &count.times), sum(|count| &count.beside)];
        table.add_row([(*name).to_owned(), times.to_string(), beside.to_string(), duration(longest as f64)]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
