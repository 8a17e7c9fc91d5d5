//! `torture waiters`: threads that wait for grace periods, each time in another way, beside readers.
//!
//! Each wait is checked: it ends ([`PATIENCE`]), and every section that was open before it has ended ([`readers`]).
//!
//! [`readers`]: super::readers

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use comfy_table::{CellAlignment, Table, presets};
use crossbeam_utils::CachePadded;
use stillpoint::rcu::{self, GracePeriod};

use super::futures::block_on_all;
use super::readers::Readers;
use super::{PATIENCE, fail};
use crate::harness::crew;
use crate::harness::options::seconds;
use crate::harness::progress::Progress;
use crate::harness::report::duration;

pub(super) const NAME: &str = "waiters";

/// How long to run, and how many take part.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How long to run.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    seconds: f64,
    /// Threads that wait.
    #[arg(long, value_name = "N", default_value = "32")]
    threads: NonZeroUsize,
    /// Threads that read; every other one has sections of a millisecond.
    #[arg(long, value_name = "N", default_value = "4")]
    readers: usize,
}

/// Time between two looks at the waiters.
const BEAT: Duration = Duration::from_millis(50);

/// Futures that one thread awaits together, at most.
const FUTURES: usize = 8;

/// A way to wait. Returns whether a section was open before; fails if one still is.
type Wait = fn(&Arc<Readers>) -> anyhow::Result<bool>;

const WAYS: [(&str, Wait); 8] = [
    ("synchronize()", |readers| check(readers, rcu::synchronize)),
    ("now(), wait()", |readers| check(readers, || GracePeriod::now().wait())),
    ("start(), is_elapsed()", |readers| check(readers, spin)),
    ("wait_timeout()", |readers| check(readers, wait_again_and_again)),
    (".await", |readers| check(readers, || block_on_all([GracePeriod::now().into_future()], |_| {}))),
    ("several .await", await_several),
    ("call()", call),
    ("call(), barrier()", barrier),
];

fn check(readers: &Arc<Readers>, wait: impl FnOnce()) -> anyhow::Result<bool> {
    let look = readers.look();
    wait();
    look.check()
}

fn spin() {
    let period = GracePeriod::start();
    while !period.is_elapsed() {
        thread::yield_now();
    }
}

fn wait_again_and_again() {
    let period = GracePeriod::now();
    while period.wait_timeout(Duration::from_micros(fastrand::u64(..2000))).is_err() {}
}

/// Each future is checked on its own, when it is ready; one more is given up before.
fn await_several(readers: &Arc<Readers>) -> anyhow::Result<bool> {
    let mut given_up = GracePeriod::now().into_future();
    let _ = Pin::new(&mut given_up).poll(&mut Context::from_waker(Waker::noop()));
    let (mut looks, futures): (Vec<_>, Vec<_>) = (0..fastrand::usize(2..=FUTURES))
        .map(|_| {
            let look = readers.look();
            let period = if fastrand::bool() { GracePeriod::start() } else { GracePeriod::now() };
            (Some(look), period.into_future())
        })
        .unzip();
    drop(given_up);
    let mut outcome = Ok(false);
    block_on_all(futures, |place| {
        if let Some(look) = looks[place].take()
            && let Ok(was_open) = outcome
        {
            outcome = look.check().map(|is_open| is_open || was_open);
        }
    });
    outcome
}

/// Has a callback check at its beginning, and send what it found out.
fn call_and_check(readers: &Arc<Readers>) -> mpsc::Receiver<anyhow::Result<bool>> {
    let (sender, receiver) = mpsc::channel();
    let look = readers.look();
    rcu::call(move || {
        // The other end is gone only if the barrier came too early, which has been reported.
        let _ = sender.send(look.check());
    });
    receiver
}

fn call(readers: &Arc<Readers>) -> anyhow::Result<bool> {
    call_and_check(readers).recv().context("the callback was dropped and not called")?
}

fn barrier(readers: &Arc<Readers>) -> anyhow::Result<bool> {
    let outcome = call_and_check(readers);
    rcu::barrier();
    outcome.try_recv().context("returned before a callback that was queued earlier had been called")?
}

/// What a waiter waits for and since when: 0, or nanoseconds, shifted, and the place in [`WAYS`] plus one.
#[derive(Debug, Default)]
struct Watch(CachePadded<AtomicU64>);

impl Watch {
    // Relaxed, as nothing follows from the word but what it says.
    fn begin(&self, way: usize, now: Duration) {
        self.0.store((now.as_nanos() as u64) << 8 | (way as u64 + 1), Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// What it waits for, and since when.
    fn read(&self) -> Option<(usize, Duration)> {
        let word = self.0.load(Ordering::Relaxed);
        let way = (word & 0xff).checked_sub(1)?;
        Some((way as usize, Duration::from_nanos(word >> 8)))
    }
}

/// The waits of one way.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    waits: u64,
    beside_sections: u64,
    longest: Duration,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.waits += other.waits;
        self.beside_sections += other.beside_sections;
        self.longest = self.longest.max(other.longest);
    }
}

type Counts = [Count; WAYS.len()];

/// What the threads share.
#[derive(Debug)]
struct Run {
    start: Instant,
    readers: Arc<Readers>,
    watches: Box<[Watch]>,
    stop_waiters: AtomicBool,
    stop_readers: AtomicBool,
}

/// Runs the torture; what passed.
///
/// # Errors
///
/// Fails if a check does, or the machine does not allow the threads. A wait that does not end ends the process.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    let run = Run {
        start: Instant::now(),
        readers: Arc::new(Readers::new(args.readers)),
        watches: (0..args.threads.get()).map(|_| Watch::default()).collect(),
        stop_waiters: AtomicBool::new(false),
        stop_readers: AtomicBool::new(false),
    };
    let counts = thread::scope(|scope| {
        let counts = run.wait(scope, args);
        run.stop_waiters.store(true, Ordering::Relaxed);
        run.stop_readers.store(true, Ordering::Relaxed);
        counts
    })?;
    let stats = rcu::stats();
    println!("{}", table(&counts));
    println!("{} sections of {} readers; {stats}", run.readers.sections(), args.readers);
    ensure!(stats.panics == 0, "{} callbacks panicked", stats.panics);
    ensure!(stats.lost == 0, "{} callbacks were lost", stats.lost);
    let mut all = Count::default();
    counts.iter().for_each(|count| all.add(*count));
    Ok(format!(
        "{} waits of {} threads in {:.1} s, the longest {}; {} began beside an open section, and none ended in it",
        all.waits,
        args.threads,
        run.start.elapsed().as_secs_f64(),
        duration(all.longest.as_nanos() as f64),
        all.beside_sections,
    ))
}

impl Run {
    /// Has all threads at work for as long as `args` say, and looks after them.
    fn wait<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, args: &Args) -> anyhow::Result<Counts> {
        for place in 0..args.readers {
            crew::spawn(scope, move || self.readers.read(place, &self.stop_readers))?;
        }
        let mut waiters = Vec::new();
        for watch in &self.watches {
            waiters.push(crew::spawn(scope, || self.waiter(watch))?);
        }
        let total = Duration::from_secs_f64(args.seconds);
        let progress = Progress::new("torture waiters", total.as_secs_f64().ceil() as usize, total);
        let mut shown = 0;
        while !waiters.iter().all(|waiter| waiter.is_finished()) {
            thread::sleep(BEAT);
            if self.start.elapsed() >= total {
                self.stop_waiters.store(true, Ordering::Relaxed);
            }
            if let Some(why) = self.overdue() {
                drop(progress);
                fail(NAME, &why);
            }
            progress.show(|| rcu::stats().to_string());
            while shown < self.start.elapsed().min(total).as_secs() {
                shown += 1;
                progress.advance();
            }
        }
        let mut counts = Counts::default();
        for waiter in waiters {
            counts.iter_mut().zip(crew::join(waiter)??).for_each(|(sum, count)| sum.add(count));
        }
        Ok(counts)
    }

    fn waiter(&self, watch: &Watch) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        while !self.stop_waiters.load(Ordering::Relaxed) {
            if fastrand::u8(..4) == 0 {
                // Some waiters are registered readers, and some not yet.
                drop(rcu::enter());
            }
            let way = fastrand::usize(..WAYS.len());
            let (name, wait) = WAYS[way];
            let began = self.start.elapsed();
            watch.begin(way, began);
            let outcome = wait(&self.readers);
            watch.end();
            let longest = self.start.elapsed() - began;
            let was_open = outcome.with_context(|| format!("{name} was too short")).inspect_err(|_| {
                self.stop_waiters.store(true, Ordering::Relaxed);
            })?;
            counts[way].add(Count { waits: 1, beside_sections: was_open.into(), longest });
        }
        Ok(counts)
    }

    /// Which wait has lasted too long, if one has.
    fn overdue(&self) -> Option<String> {
        self.watches.iter().enumerate().find_map(|(waiter, watch)| {
            let (way, since) = watch.read()?;
            let lasted = self.start.elapsed().saturating_sub(since);
            let (name, lasted_s) = (WAYS[way].0, lasted.as_secs_f64());
            (lasted > PATIENCE).then(|| {
                format!("{name} of waiter {waiter} has not returned for {lasted_s:.1} s; {}", rcu::stats())
            })
        })
    }
}

fn table(counts: &Counts) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["wait", "number", "beside open sections", "longest"]);
    for ((name, _), count) in WAYS.iter().zip(counts) {
        let longest = duration(count.longest.as_nanos() as f64);
        table.add_row([
            (*name).to_owned(),
            count.waits.to_string(),
            count.beside_sections.to_string(),
            longest,
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_overdue_after_thirty_seconds_and_named() {
        let now = Instant::now();
        let Some(start) = now.checked_sub(Duration::from_secs(40)) else { return };
        let run = Run {
            start,
            readers: Arc::new(Readers::new(0)),
            watches: [(); 2].map(|()| Watch::default()).into(),
            stop_waiters: AtomicBool::new(false),
            stop_readers: AtomicBool::new(false),
        };
        run.watches[0].begin(0, Duration::from_secs(39));
        run.watches[1].begin(3, Duration::from_secs(5));
        let why = run.overdue().expect("the second waits too long");
        assert!(why.starts_with("wait_timeout() of waiter 1 has not returned for 35."), "{why}");
        run.watches[1].end();
        assert_eq!(run.overdue(), None);
    }

    #[test]
    fn every_way_waits_and_finds_no_open_section() {
        let readers = Arc::new(Readers::new(1));
        for (name, wait) in WAYS {
            assert!(!wait(&readers).unwrap_or_else(|why| panic!("{name}: {why}")));
        }
    }
}
