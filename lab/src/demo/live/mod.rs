//! The demo on a terminal: what happens in a table under live updates, as it happens.
//!
//! The table and its threads live in a [process of their own](work). It is started again for another backend of the fence, which
//! is chosen once in each process, or another way of synchronization. This process takes a snapshot of it some times a second, and
//! draws.

mod view;
pub(crate) mod work;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::Args;
use crate::harness::buckets::BUCKETS;
use crate::harness::report::OURS;
use crate::harness::worker::Worker as Lane;
use work::{Request, Snapshot};

/// Time between two snapshots.
const TICK: Duration = Duration::from_millis(200);
/// Snapshots that curves go back.
const HISTORY: usize = 300;
/// The most readers for each CPU.
const MAX_READERS: usize = 64;

const BACKENDS: [&str; 3] = ["membarrier", "signal", "seqcst"];
const STORES: [&str; 5] = [OURS, "crossbeam-epoch", "arc-swap", "rwlock", "mutex"];

/// Shows the table until the user has seen enough.
pub(super) fn run(args: &Args, cpus: usize) -> Result<()> {
    let mut live = Live::new(args, cpus);
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let outcome = live.show(&mut terminal);
    ratatui::restore();
    outcome?;
    println!("Beside each other, in tables: stillpoint demo --seconds 20");
    Ok(())
}

/// What is shown, and the process that runs it.
#[derive(Debug)]
struct Live {
    prefixes: String,
    lane: Option<Lane>,
    cpus: usize,
    backend: usize,
    store: usize,
    readers_per_cpu: usize,
    /// Why a backend is not available.
    message: Option<String>,
    last: Option<(Instant, Snapshot)>,
    /// Waits for grace periods before the last change.
    before: [u64; BUCKETS],
    rates: VecDeque<Rates>,
}

/// What happened between two snapshots, for each second, and the most bytes that waited.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    lookups: u64,
    updates: u64,
    grace_periods: u64,
    awaiting: u64,
}

impl Live {
    fn new(args: &Args, cpus: usize) -> Self {
        let backend = stillpoint::fence::backend().to_string();
        Self {
            prefixes: args.prefixes.to_string(),
            lane: None,
            cpus,
            backend: BACKENDS.iter().position(|name| *name == backend).unwrap_or(0),
            store: 0,
            readers_per_cpu: 1,
            message: None,
            last: None,
            before: [0; BUCKETS],
            rates: VecDeque::new(),
        }
    }

    fn show(&mut self, terminal: &mut DefaultTerminal) -> Result<()> {
        loop {
            if self.lane.is_none() {
                terminal.draw(|frame| view::draw(frame, self))?;
                self.start()?;
            }
            self.update()?;
            terminal.draw(|frame| view::draw(frame, self))?;
            let next = Instant::now() + TICK;
            while event::poll(next.saturating_duration_since(Instant::now()))? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press && !self.press(key) => return Ok(()),
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
        }
    }

    /// Starts the process, on the next backend if the wanted one is not available.
    fn start(&mut self) -> Result<()> {
        for _ in BACKENDS {
            let arguments = ["live", STORES[self.store], "--prefixes", &self.prefixes];
            let lane = Lane::start_silent(&arguments, Some(BACKENDS[self.backend]))?;
            let Some(why) = lane.missing() else {
                self.lane = Some(lane);
                break;
            };
            self.message = Some(why.to_owned());
            self.backend = (self.backend + 1) % BACKENDS.len();
        }
        self.last = None;
        self.before = [0; BUCKETS];
        self.rates.clear();
        Ok(())
    }

    /// Takes a snapshot of the process.
    fn update(&mut self) -> Result<()> {
        let readers = self.readers_per_cpu * self.cpus;
        let lane = self.lane.as_mut().context("no backend of the fence is available")?;
        let now: Snapshot = lane.measure(&Request { readers })?;
        let at = Instant::now();
        if let Some((then, old)) = &self.last {
            let seconds = (at - *then).as_secs_f64();
            let rate = |now: u64, old: u64| (now.saturating_sub(old) as f64 / seconds) as u64;
            self.rates.push_back(Rates {
                lookups: rate(now.traffic.lookups, old.traffic.lookups),
                updates: rate(now.traffic.updates, old.traffic.updates),
                grace_periods: rate(now.grace_periods, old.grace_periods),
                awaiting: now.traffic.awaiting as u64,
            });
            if self.rates.len() > HISTORY {
                self.rates.pop_front();
            }
        }
        self.last = Some((at, now));
        Ok(())
    }

    /// Does what a key asks for. Returns `false` to end the demo.
    fn press(&mut self, key: KeyEvent) -> bool {
        self.message = None;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('b') => {
                self.backend = (self.backend + 1) % BACKENDS.len();
                self.lane = None;
            }
            KeyCode::Char('s') => {
                self.store = (self.store + 1) % STORES.len();
                self.lane = None;
            }
            KeyCode::Char('+' | '=') | KeyCode::Up => {
                self.set_readers((self.readers_per_cpu * 2).min(MAX_READERS))
            }
            KeyCode::Char('-') | KeyCode::Down => self.set_readers((self.readers_per_cpu / 2).max(1)),
            _ => {}
        }
        true
    }

    fn set_readers(&mut self, readers_per_cpu: usize) {
        self.readers_per_cpu = readers_per_cpu;
        if let Some((_, last)) = &self.last {
            self.before.iter_mut().zip(&last.waits).for_each(|(before, waits)| *before = *waits);
        }
    }

    fn has_grace_periods(&self) -> bool {
        STORES[self.store] == OURS
    }

    /// Returns the waits for grace periods since the last change, by bucket.
    fn waits(&self) -> [u64; BUCKETS] {
        let mut waits = [0; BUCKETS];
        if let Some((_, last)) = &self.last {
            let since = last.waits.iter().zip(self.before).map(|(now, before)| now.saturating_sub(before));
            waits.iter_mut().zip(since).for_each(|(wait, since)| *wait = since);
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Live {
        Live::new(&Args::default(), 2)
    }

    #[test]
    fn keys_change_readers_and_store_or_end_the_demo() {
        let mut live = live();
        let mut press = |key| live.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
        assert!(press('+') && press('+') && press('-') && press('s') && press('x'));
        assert!(!press('q'));
        assert_eq!((live.readers_per_cpu, STORES[live.store]), (2, "crossbeam-epoch"));
        assert!(!live.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn waits_are_counted_since_the_last_change() {
        let mut live = live();
        let snapshot = |waits| Snapshot { waits, ..Snapshot::default() };
        live.last = Some((Instant::now(), snapshot(vec![0, 5, 1])));
        live.set_readers(4);
        live.last = Some((Instant::now(), snapshot(vec![0, 7, 1])));
        assert_eq!(live.waits()[..3], [0, 2, 0]);
    }
}
