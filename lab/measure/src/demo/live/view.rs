//! What the live demo looks like.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, BorderType, Paragraph, RenderDirection, Sparkline};

use super::{BACKENDS, Live, Rates};
use crate::demo::show::rate;
use harness::report::figure;
use harness::units::duration;

/// Snapshots of which the mean is shown: as many as make a second.
const SHOWN: usize = 5;

pub(super) fn draw(frame: &mut Frame<'_>, live: &Live) {
    use Constraint::{Length, Min};
    let rows = Layout::vertical([Length(2), Min(5), Min(5), Min(8), Length(1)]);
    let [head, curves, memory, waits, keys] = rows.areas(frame.area());
    let [lookups, updates] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(curves);
    let mean = |of: fn(&Rates) -> u64| {
        let shown = live.rates.iter().rev().take(SHOWN);
        shown.clone().map(of).sum::<u64>() as f64 / shown.count().max(1) as f64
    };
    let longest = live.last.as_ref().map_or(0, |(_, last)| last.longest_update_ns);
    let updated = format!("{}, the longest {}", rate(mean(|r| r.updates)), duration(longest as f64));
    let awaiting = figure(live.rates.back().map_or(0.0, |rates| rates.awaiting as f64), "bytes");
    frame.render_widget(Paragraph::new(heading(live)), head);
    let mut curve = |area, name, number: &str, color, of| {
        frame.render_widget(curve(live, name, number, color, of), area);
    };
    curve(lookups, "lookups/s", &rate(mean(|r| r.lookups)), Color::Cyan, |r| r.lookups);
    curve(updates, "updates/s", &updated, Color::Yellow, |r| r.updates);
    curve(memory, "awaiting reclamation", &awaiting, Color::Magenta, |r| r.awaiting);
    grace_periods(frame, waits, live, mean(|r| r.grace_periods));
    frame.render_widget(Paragraph::new(footer(live)), keys);
}

fn heading(live: &Live) -> Vec<Line<'static>> {
    let readers = format!("{}", live.readers_per_cpu * live.cpus);
    let state = if live.worker.is_none() { "  starting ..." } else { "" };
    vec![
        Line::from(vec!["stillpoint".bold(), "  a routing table under live updates".into(), state.into()]),
        Line::from(vec![
            "synchronization ".into(),
            live.store().bold().green(),
            "  fence ".into(),
            BACKENDS[live.backend].bold().green(),
            "  readers ".into(),
            readers.bold().green(),
            format!(" ({} per CPU)", live.readers_per_cpu).into(),
        ]),
    ]
}

/// Returns a number with its course, the last snapshot at the right.
fn curve(live: &Live, name: &str, number: &str, color: Color, of: fn(&Rates) -> u64) -> Sparkline<'static> {
    let title = Line::from(vec![format!(" {name} ").into(), format!("{number} ").fg(color).bold()]);
    let course: Vec<u64> = live.rates.iter().rev().map(of).collect();
    let line = Sparkline::default().data(course).direction(RenderDirection::RightToLeft);
    line.fg(color).block(frame_of(title))
}

fn frame_of(title: Line<'static>) -> Block<'static> {
    Block::bordered().border_type(BorderType::Rounded).border_style(Color::DarkGray).title(title)
}

/// Draws how long synchronize() took, in power-of-two buckets.
fn grace_periods(frame: &mut Frame<'_>, area: Rect, live: &Live, a_second: f64) {
    if !live.has_grace_periods() {
        let text = format!("{} has no grace periods to wait for", live.store());
        let block = frame_of(Line::raw(" grace periods "));
        frame.render_widget(Paragraph::new(text).block(block).centered(), area);
        return;
    }
    let waits = live.last.as_ref().map_or(&[][..], |(_, last)| &last.waits);
    let total = waits.iter().sum::<u64>();
    // From half a microsecond on, or as much up to the longest as there is room for.
    let (shortest, gap, width) = (9, 1, 5);
    let room = usize::from(area.width.saturating_sub(2)) / usize::from(gap + width);
    let longest = waits.iter().rposition(|count| *count > 0).unwrap_or(0);
    let title = format!(" grace periods {}/s; {total} waits, all below {} ", rate(a_second), bound(longest));
    let first = (longest + 1).saturating_sub(room).max(shortest);
    let bars = (first..waits.len()).take(room).map(|bucket| {
        let share = if total == 0 { String::new() } else { percent(waits[bucket], total) };
        Bar::default().value(waits[bucket]).text_value(share).label(Line::raw(bound(bucket)))
    });
    let group = BarGroup::default().bars(&bars.collect::<Vec<_>>());
    let chart = BarChart::default().data(group).bar_width(width).bar_gap(gap).bar_style(Color::Green);
    let chart = chart.value_style(Style::new().green().reversed()).block(frame_of(Line::raw(title)));
    frame.render_widget(chart, area);
}

/// Returns the part in percent; nothing of nothing.
fn percent(part: u64, whole: u64) -> String {
    match 100.0 * part as f64 / whole as f64 {
        0.0 => String::new(),
        percent if percent < 0.5 => "<1%".to_owned(),
        percent => format!("{percent:.0}%"),
    }
}

/// Returns the upper bound of a bucket, in the usual units.
fn bound(bucket: usize) -> String {
    let unit = ["ns", "us", "ms", "s"][(bucket / 10).min(3)];
    format!("{}{unit}", 1_u64 << (bucket % 10))
}

fn footer(live: &Live) -> Line<'static> {
    if let Some(message) = &live.message {
        return Line::raw(message.clone()).red();
    }
    let keys = [("b", " fence  "), ("s", " synchronization  "), ("+ -", " readers  "), ("q", " quit")];
    Line::from_iter(keys.into_iter().flat_map(|(name, what)| [name.bold(), what.into()]))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::demo::Args;
    use crate::demo::worker::Snapshot;

    #[test]
    fn view_fits_on_a_small_terminal() {
        let mut live = Live::new(&Args::default(), 2);
        let mut waits = vec![0; 40];
        waits[15] = 30;
        waits[16] = 10;
        live.last = Some((std::time::Instant::now(), Snapshot { waits, ..Snapshot::default() }));
        live.rates.push_back(Rates {
            lookups: 41_200_000,
            updates: 350_000,
            grace_periods: 950,
            awaiting: 3 << 20,
        });
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &live)).expect("drawn");
        let screen = terminal.backend().to_string();
        for part in [
            "readers 2 (1 per CPU)",
            "41.2 M",
            "350.0 k",
            "3.00 MiB",
            "950/s",
            "all below 64us",
            "75%",
            "32us",
            "q quit",
        ] {
            assert!(screen.contains(part), "{part} is missing in\n{screen}");
        }
    }

    #[test]
    fn bounds_and_shares_have_short_names() {
        assert_eq!([9, 10, 15, 20, 31].map(bound), ["512ns", "1us", "32us", "1ms", "2s"]);
        assert_eq!([(0, 9), (1, 900), (1, 3)].map(|(part, whole)| percent(part, whole)), ["", "<1%", "33%"]);
    }
}
