//! The demo on a terminal: what happens in a table under live updates, as it happens, and the last figures of each
//! store side by side. First it shows each store for a while, in turn.

use std::collections::VecDeque;
use std::io::{Stdout, stdout};
use std::panic;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui_core::layout::{Constraint, Layout};
use ratatui_core::style::{Color, Stylize as _};
use ratatui_core::symbols::Marker;
use ratatui_core::terminal::{Frame, Terminal};
use ratatui_core::text::Line;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui_crossterm::crossterm::{cursor, execute, terminal};
use ratatui_widgets::block::Block;
use ratatui_widgets::borders::BorderType;
use ratatui_widgets::chart::{Axis, Chart, Dataset, GraphType};
use ratatui_widgets::paragraph::Paragraph;

use super::traffic::{Rates, STORES, Start};
use super::{HEADS, cells, rate};
use harness::units::figure;

/// Time between two snapshots.
const TICK: Duration = Duration::from_millis(200);
/// Snapshots that curves go back.
const HISTORY: usize = 300;
/// Snapshots of which the mean is shown: as many as make a second.
const SHOWN: usize = 5;
/// Snapshots of a store before the first look at the next one.
const STAY: usize = 10;

/// Shows the tables until the user quits.
pub(super) fn run(stores: &[Start], cpus: usize) -> Result<()> {
    let message = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        give_back();
        message(panic);
    }));
    let outcome = take_over().context("cannot take over the terminal");
    let outcome = outcome.and_then(|mut terminal| Live::new(cpus).show(stores, &mut terminal));
    give_back();
    outcome?;
    println!("Measured, in tables: stillpoint demo --seconds 20");
    Ok(())
}

type Screen = Terminal<CrosstermBackend<Stdout>>;

fn take_over() -> std::io::Result<Screen> {
    terminal::enable_raw_mode()?;
    execute!(stdout(), terminal::EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(stdout()))
}

/// Restores what the terminal was. If that fails, nothing else can be done.
fn give_back() {
    let _ = terminal::disable_raw_mode();
    let _ = execute!(stdout(), terminal::LeaveAlternateScreen, cursor::Show);
}

/// Name, how a value is written, colour, and which value.
type Curve = (&'static str, fn(f64) -> String, Color, fn(&Rates) -> f64);

/// What is shown.
#[derive(Debug)]
struct Live {
    readers: usize,
    store: usize,
    /// Whether the stores are still shown in turn.
    is_touring: bool,
    rates: VecDeque<Rates>,
    /// The last figures of each store.
    figures: [Option<Rates>; STORES.len()],
}

impl Live {
    fn new(readers: usize) -> Self {
        let (rates, figures) = Default::default();
        Self { readers, store: 0, is_touring: true, rates, figures }
    }

    fn show(&mut self, stores: &[Start], terminal: &mut Screen) -> Result<()> {
        loop {
            let shown = self.store;
            let mut running = stores[shown](self.readers)?;
            self.rates.clear();
            while shown == self.store {
                terminal.draw(|frame| self.draw(frame))?;
                let next = Instant::now() + TICK;
                while event::poll(next.saturating_duration_since(Instant::now()))? {
                    let Event::Key(key) = event::read()? else { continue };
                    if key.kind == KeyEventKind::Press && !self.press(key) {
                        return running.stop();
                    }
                }
                // A key may have chosen another store.
                if shown == self.store {
                    self.add(running.rates());
                }
            }
            running.stop()?;
        }
    }

    fn add(&mut self, rates: Rates) {
        self.rates.push_back(rates);
        if self.rates.len() > HISTORY {
            self.rates.pop_front();
        }
        let shown = || self.rates.iter().rev().take(SHOWN);
        let mean = |of: fn(&Rates) -> f64| shown().map(of).sum::<f64>() / shown().count() as f64;
        let most = |of: fn(&Rates) -> f64| shown().map(of).fold(0.0, f64::max);
        self.figures[self.store] = Some(Rates {
            lookups: mean(|rates| rates.lookups),
            updates: mean(|rates| rates.updates),
            longest_update_ns: most(|rates| rates.longest_update_ns),
            awaiting: most(|rates| rates.awaiting),
        });
        if self.is_touring && self.rates.len() >= STAY {
            let next = self.figures.iter().position(Option::is_none);
            self.is_touring = next.is_some();
            self.store = next.unwrap_or(0);
        }
    }

    /// Does what a key asks for. Returns `false` to end the demo.
    fn press(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('s') => {
                self.is_touring = false;
                self.store = (self.store + 1) % STORES.len();
            }
            _ => {}
        }
        true
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        use Constraint::{Fill, Length, Min};
        let rows = Layout::vertical([Length(2), Min(8), Length(STORES.len() as u16 + 3), Length(1)]);
        let [head, curves, table, keys] = rows.areas(frame.area());
        let columns: [_; 3] = Layout::horizontal([Fill(1); 3]).areas(curves);
        frame.render_widget(Paragraph::new(self.heading()), head);
        let curves: [Curve; 3] = [
            ("lookups/s", rate, Color::Cyan, |rates| rates.lookups),
            ("updates/s", rate, Color::Yellow, |rates| rates.updates),
            ("unreclaimed", |bytes| figure(bytes, "bytes"), Color::Magenta, |rates| rates.awaiting),
        ];
        for ((name, text, color, of), area) in curves.into_iter().zip(columns) {
            let at = |place: usize| (place as f64 + 1.0 - self.rates.len() as f64) * TICK.as_secs_f64();
            let points: Vec<(f64, f64)> =
                self.rates.iter().enumerate().map(|(place, rates)| (at(place), of(rates))).collect();
            let top = round_up(points.iter().map(|point| point.1).fold(1.0, f64::max), name == "unreclaimed");
            let first = at(0).min(-2.0);
            let line = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line);
            let chart = Chart::new(vec![line.fg(color).data(&points)])
                .x_axis(Axis::default().bounds([first, 0.0]).labels([format!("{first:.0} s"), "now".into()]))
                .y_axis(Axis::default().bounds([0.0, top]).labels(["0".into(), text(top / 2.0), text(top)]));
            let last = points.last().map_or_else(String::new, |last| text(last.1));
            let title = Line::from(vec![format!(" {name} ").into(), format!("{last} ").fg(color).bold()]);
            frame.render_widget(chart.block(frame_of(title)), area);
        }
        let title = format!(" the last figures of each, with {} readers ", self.readers);
        frame.render_widget(Paragraph::new(self.table()).block(frame_of(title.into())), table);
        let named = [("s", " synchronization  "), ("q", " quit")];
        let named = Line::from_iter(named.into_iter().flat_map(|(name, what)| [name.bold(), what.into()]));
        frame.render_widget(Paragraph::new(named), keys);
    }

    fn heading(&self) -> Vec<Line<'static>> {
        let mut words = vec![
            "synchronization ".into(),
            STORES[self.store].0.bold().green(),
            "  readers ".into(),
            self.readers.to_string().bold().green(),
        ];
        if self.store == 0 {
            words.extend([
                "  fence ".into(),
                stillpoint::fence::report().backend().to_string().bold().green(),
            ]);
        }
        let title = vec!["stillpoint".bold(), "  a routing table under live updates".into()];
        vec![Line::from(title), Line::from(words)]
    }

    fn table(&self) -> Vec<Line<'static>> {
        let line = |[name, lookups, updates, longest, awaiting]: [&str; 5]| {
            Line::raw(format!(" {name:<17}{lookups:>12}{updates:>12}{longest:>17}{awaiting:>15}"))
        };
        let mut lines = vec![line(HEADS).dark_gray()];
        for (store, (name, _)) in STORES.into_iter().enumerate() {
            let text = match &self.figures[store] {
                Some(rates) => {
                    let [lookups, updates, longest, awaiting] = cells(rates);
                    line([name, &lookups, &updates, &longest, &awaiting])
                }
                None => line([name, "", "", "", ""]),
            };
            lines.push(if store == self.store { text.bold().green() } else { text });
        }
        lines
    }
}

fn frame_of(title: Line<'static>) -> Block<'static> {
    Block::bordered().border_type(BorderType::Rounded).border_style(Color::DarkGray).title(title)
}

/// Returns the next of 1, 2, 5, 10, 20 and so on, or of bytes the next power of two, so that a scale rarely changes.
fn round_up(value: f64, is_bytes: bool) -> f64 {
    if is_bytes {
        return value.log2().ceil().exp2();
    }
    let unit = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|part| part * unit).find(|round| *round >= value).unwrap_or(10.0 * unit)
}

#[cfg(test)]
mod tests {
    use ratatui_core::backend::TestBackend;

    use super::*;

    fn rates() -> Rates {
        Rates {
            lookups: 41.2e6,
            updates: 350e3,
            longest_update_ns: 123e6,
            awaiting: 111.5 * f64::from(1 << 20),
        }
    }

    fn screen(live: &Live) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
        terminal.draw(|frame| live.draw(frame)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn stores_are_shown_in_turn_and_then_side_by_side() {
        let mut live = Live::new(2);
        for store in 0..STORES.len() {
            assert_eq!((live.store, live.is_touring), (store, true));
            for _ in 0..STAY {
                live.add(rates());
            }
            live.rates.clear();
        }
        assert_eq!((live.store, live.is_touring), (0, false));
        let row = "      41.2 M     350.0 k           123 ms        112 MiB";
        assert_eq!(screen(&live).matches(row).count(), STORES.len(), "{}", screen(&live));
    }

    #[test]
    fn screen_of_80_columns_has_scales_figures_and_a_fence_where_there_is_one() {
        let mut live = Live::new(128);
        for (store, (name, _)) in STORES.into_iter().enumerate() {
            live.store = store;
            live.rates.clear();
            (0..2 * STAY).for_each(|_| live.rates.push_back(rates()));
            let screen = screen(&live);
            let name = format!("synchronization {name}  readers 128");
            for part in [
                &*name,
                "lookups/s 41.2 M ",
                "updates/s 350.0 k ",
                "unreclaimed 112 MiB ",
                "50.0 M│",
                "500.0 k│",
                "128 MiB │",
                "64.0 MiB",
                "now",
                "longest update    unreclaimed",
                "q quit",
            ] {
                assert!(screen.contains(part), "{part} is missing in\n{screen}");
            }
            assert_eq!(screen.contains("fence"), store == 0, "{screen}");
        }
    }

    #[test]
    fn keys_change_the_store_or_end_the_demo() {
        let mut live = Live::new(2);
        live.add(rates());
        let mut press = |key| live.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
        assert!(press('s') && press('x'));
        assert!(!press('q'));
        assert_eq!(STORES[live.store].0, "crossbeam-epoch");
        assert!(!live.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
