//! The demo on a terminal: what happens in a table under live updates, as it happens.
//!
//! The table and its threads live in a [process of their own](super::worker), which is started again for another
//! backend of the fence or another store. This process takes a snapshot of it some times a second, and draws.

mod view;

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::Args;
use super::worker::{Load, Request, STORES, Snapshot, Updates};
use harness::worker::Worker;

/// Time between two snapshots.
const TICK: Duration = Duration::from_millis(200);
/// Snapshots that curves go back.
const HISTORY: usize = 300;
/// The most readers per CPU.
const MAX_READERS: usize = 64;

const BACKENDS: [&str; 2] = ["membarrier", "seqcst"];

/// Shows the table until the user quits.
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
    worker: Option<Worker>,
    cpus: usize,
    backend: usize,
    store: usize,
    readers_per_cpu: usize,
    /// Why a backend is not available.
    message: Option<String>,
    last: Option<(Instant, Snapshot)>,
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
            worker: None,
            cpus,
            backend: BACKENDS.iter().position(|name| *name == backend).unwrap_or(0),
            store: 0,
            readers_per_cpu: 1,
            message: None,
            last: None,
            rates: VecDeque::new(),
        }
    }

    fn show(&mut self, terminal: &mut DefaultTerminal) -> Result<()> {
        loop {
            if self.worker.is_none() {
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
            let arguments = ["table", self.store(), "--prefixes", &self.prefixes];
            let worker = Worker::start_with(&arguments, Some(BACKENDS[self.backend]), Stdio::null())?;
            let Some(why) = worker.missing() else {
                self.worker = Some(worker);
                break;
            };
            self.message = Some(why.to_owned());
            self.backend = (self.backend + 1) % BACKENDS.len();
        }
        self.last = None;
        self.rates.clear();
        Ok(())
    }

    /// Takes a snapshot of the process.
    fn update(&mut self) -> Result<()> {
        let load = Load {
            readers: self.readers_per_cpu * self.cpus,
            updates: Updates::Table,
            synchronizes: self.has_grace_periods(),
            cpus: None,
        };
        let worker = self.worker.as_mut().context("no backend of the fence is available")?;
        let now: Snapshot = worker.measure(&Request { load, time: None })?;
        let at = Instant::now();
        if let Some((then, old)) = &self.last {
            let seconds = (at - *then).as_secs_f64();
            let rate = |now: u64, old: u64| (now.saturating_sub(old) as f64 / seconds) as u64;
            self.rates.push_back(Rates {
                lookups: rate(now.lookups, old.lookups),
                updates: rate(now.updates, old.updates),
                grace_periods: rate(now.grace_periods, old.grace_periods),
                awaiting: now.awaiting as u64,
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
                self.worker = None;
            }
            KeyCode::Char('s') => {
                self.store = (self.store + 1) % STORES.len();
                self.worker = None;
            }
            KeyCode::Char('+' | '=') | KeyCode::Up => {
                self.set_readers((self.readers_per_cpu * 2).min(MAX_READERS))
            }
            KeyCode::Char('-') | KeyCode::Down => self.set_readers((self.readers_per_cpu / 2).max(1)),
            _ => {}
        }
        true
    }

    /// Sets another load, for which the snapshots start again.
    fn set_readers(&mut self, readers_per_cpu: usize) {
        self.readers_per_cpu = readers_per_cpu;
        self.last = None;
    }

    fn store(&self) -> &'static str {
        STORES[self.store].0
    }

    fn has_grace_periods(&self) -> bool {
        self.store == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_readers_and_store_or_end_the_demo() {
        let mut live = Live::new(&Args::default(), 2);
        let mut press = |key| live.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
        assert!(press('+') && press('+') && press('-') && press('s') && press('x'));
        assert!(!press('q'));
        assert_eq!((live.readers_per_cpu, live.store()), (2, "crossbeam-epoch"));
        assert!(!live.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
