//! The frontier of throughput and longest wait: a dot for each lock, in the mean over cells.
//!
//! A lock is on the frontier if no other one has a shorter wait and no less throughput, or more throughput and no longer
//! wait. A step line joins these: to the right of it and below it, a lock of the line is at least as good in both.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::chart::{Scale, WIDTH, at, path, plot, tick_text};
use super::labels;
use crate::bench::lock::ablation::PEERS;
use harness::Config;
use harness::report::OURS;
use harness::stats::Row;

/// A lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    system: String,
    /// Longest wait and throughput.
    wait: f64,
    throughput: f64,
}

/// Returns a point for each system that was measured in all cells: those in which waits were timed.
pub(super) fn points(waits: &[&Row], throughputs: &[&Row]) -> Vec<Point> {
    let cells = cells(waits);
    let mut points: Vec<Point> = Vec::new();
    for system in waits.iter().map(|row| &row.system) {
        let value = |rows: &[&Row], cell: &Config| {
            let own = rows.iter().find(|row| row.system == *system && row.config == *cell);
            own.map(|row| row.summary.median)
        };
        let mean = |rows: &[&Row]| {
            let values: Option<Vec<f64>> = cells.iter().map(|cell| value(rows, cell)).collect();
            values.map(|values| geometric_mean(&values))
        };
        if points.iter().all(|point| point.system != *system) {
            let both = mean(waits).zip(mean(throughputs));
            points.extend(both.map(|(wait, throughput)| Point {
                system: system.to_string(),
                wait,
                throughput,
            }));
        }
    }
    points
}

/// Returns the configurations of the rows, each once.
fn cells<'a>(rows: &[&'a Row]) -> Vec<&'a Config> {
    let mut cells = Vec::new();
    for row in rows {
        if !cells.contains(&&row.config) {
            cells.push(&row.config);
        }
    }
    cells
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Returns the points of the frontier, the shortest wait first.
fn frontier(points: &[Point]) -> Vec<&Point> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|a, b| a.wait.total_cmp(&b.wait).then(b.throughput.total_cmp(&a.throughput)));
    let mut most = 0.0;
    sorted.retain(|point| {
        let is_better = point.throughput > most;
        most = point.throughput.max(most);
        is_better
    });
    sorted
}

/// Replaces `{cells}` in a title by their number, and each `{name}` by the values of that parameter.
fn fill(title: &str, cells: &[&Config]) -> String {
    let title = title.replace("{cells}", &cells.len().to_string());
    cells.first().map_or_else(Vec::new, |cell| cell.names()).iter().fold(title, |title, name| {
        let mut values: Vec<String> = Vec::new();
        for value in cells.iter().filter_map(|cell| cell.text(name)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        title.replace(&format!("{{{name}}}"), &values.join(", "))
    })
}

/// Returns the least and the greatest of the values.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(least, most), value| (value.min(least), value.max(most)))
}

/// Points below this part of the best throughput are drawn at the lower edge, with their value.
const SLOW: f64 = 0.5;

/// Draws the points of all systems, of which some are variants of ours. The rows are of the ratios of longest waits and
/// of throughputs.
pub(super) fn draw_ratios(title: &str, waits: &[&Row], throughputs: &[&Row]) -> Markup {
    let axes = [
        ("longest wait / that of std, logarithmic", "ratio"),
        ("throughput / that of the best peer", "ratio"),
    ];
    let points = points(waits, throughputs);
    let is_variant = |point: &&Point| point.system != OURS && !PEERS.contains(&&*point.system);
    let variants: Vec<&str> = points.iter().filter(is_variant).map(|point| &*point.system).collect();
    draw(&fill(title, &cells(waits)), axes, &points, &variants)
}

/// More points than these have numbers, and their names stand below the plot, in so many columns.
const NAMED: usize = 10;
const COLUMNS: usize = 2;

const LEFT: f64 = 44.0;
const RIGHT: f64 = WIDTH - 4.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = TOP + 290.0;
const LEGEND: f64 = BOTTOM + 50.0;

/// The name and the unit of an axis.
type Axis<'a> = (&'a str, &'a str);

/// Draws points and the frontier. The axes are of waits and of throughputs.
pub(super) fn draw(title: &str, axes: [Axis<'_>; 2], points: &[Point], variants: &[&str]) -> Markup {
    let [(_, wait_unit), (_, throughput_unit)] = axes;
    let waits_shown = range(points.iter().map(|point| point.wait));
    let best = points.iter().map(|point| point.throughput).fold(0.0, f64::max);
    let is_shown = |throughput: &f64| *throughput >= SLOW * best;
    let throughputs_shown = range(points.iter().map(|point| point.throughput).filter(is_shown));
    let x = Scale::log(waits_shown.0, waits_shown.1, LEFT, RIGHT);
    let y = Scale::between(throughputs_shown.0, throughputs_shown.1, BOTTOM, TOP);
    let place = |point: &Point| (x.place(point.wait), y.place(point.throughput).min(BOTTOM));
    let name = |point: &Point| match is_shown(&point.throughput) {
        true => point.system.clone(),
        false => format!("{} ({})", point.system, tick_text(point.throughput, throughput_unit)),
    };
    let mut line: Vec<(f64, f64)> = Vec::new();
    for point in frontier(points) {
        let (x, y) = place(point);
        line.extend([(x, line.last().map_or(BOTTOM, |last| last.1)), (x, y)]);
    }
    line.extend(line.last().map(|last| (RIGHT, last.1)));
    let is_numbered = points.len() > NAMED;
    let texts: Vec<String> = match is_numbered {
        true => (1..=points.len()).map(|number| number.to_string()).collect(),
        false => points.iter().map(name).collect(),
    };
    let places: Vec<_> = points.iter().map(place).zip(&texts).map(|((x, y), text)| (x, y, &**text)).collect();
    let axis = [(RIGHT, BOTTOM), (LEFT, BOTTOM)];
    let covered: Vec<(f64, f64)> = axis.into_iter().chain(line.iter().copied()).collect();
    let labels = labels::place(&places, &covered, LEFT, RIGHT);
    let body = html! {
        (frame(axes, &x, &y))
        polyline .frontier points=(path(line)) {}
        @for (((x, y, text), label), point) in places.iter().zip(&labels).zip(points) {
            g .named .(kind(&point.system, variants)) {
                title {
                    (point.system) ": throughput " (tick_text(point.throughput, throughput_unit))
                    ", longest wait " (tick_text(point.wait, wait_unit))
                }
                circle cx=(at(*x)) cy=(at(*y)) r="4" {}
                text x=(at(label.x)) y=(at(label.y)) text-anchor=(label.anchor) { (text) }
            }
        }
        @for (index, point) in points.iter().enumerate().filter(|_| is_numbered) {
            @let left = LEFT + (index % COLUMNS) as f64 * (RIGHT - LEFT) / COLUMNS as f64;
            g .named .(kind(&point.system, variants)) {
                text x=(at(left)) y=(at(LEGEND + (index / COLUMNS) as f64 * 15.0)) { (index + 1) " " (name(point)) }
            }
        }
    };
    let rows = if is_numbered { points.len().div_ceil(COLUMNS) } else { 0 };
    plot(title, LEGEND - 14.0 + rows as f64 * 15.0, &body)
}

/// Draws the axes and the grid.
fn frame([wait, throughput]: [Axis<'_>; 2], x: &Scale, y: &Scale) -> Markup {
    html! {
        @for tick in y.ticks() {
            @let place = y.place(tick);
            line .grid x1=(at(LEFT)) x2=(at(RIGHT)) y1=(at(place)) y2=(at(place)) {}
            text .tick x=(at(LEFT - 6.0)) y=(at(place + 4.0)) text-anchor="end" { (tick_text(tick, throughput.1)) }
        }
        @for tick in x.ticks() {
            @let place = at(x.place(tick));
            line .grid x1=(place) x2=(place) y1=(at(TOP)) y2=(at(BOTTOM)) {}
            text .tick x=(place) y=(at(BOTTOM + 14.0)) text-anchor="middle" { (tick_text(tick, wait.1)) }
        }
        line .axis x1=(at(LEFT)) x2=(at(RIGHT)) y1=(at(BOTTOM)) y2=(at(BOTTOM)) {}
        text .tick x="0" y="11" { (throughput.0) " (up and to the left is better)" }
        text .tick x=(at((LEFT + RIGHT) / 2.0)) y=(at(BOTTOM + 29.0)) text-anchor="middle" { (wait.0) }
    }
}

/// Returns the class of a system in the style sheet.
fn kind(system: &str, variants: &[&str]) -> &'static str {
    match system {
        OURS => "ours",
        _ if variants.contains(&system) => "variant",
        _ => "peer p0",
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::Document;
    use super::super::page;
    use super::*;
    use crate::bench::lock::ablation::{MAX_WAIT_TO_STD, MOPS_TO_BEST_PEER};
    use harness::{Profile, Recorder, Report};

    fn point(system: &str, wait: f64, throughput: f64) -> Point {
        Point { system: system.to_owned(), wait, throughput }
    }

    /// Returns the result of four locks: in two cells, in one without timed waits, and in two that are not of the
    /// frontier.
    fn report() -> Report {
        let mut recorder = Recorder::new("lock-ablation");
        let config = |threads: u64, cs: u64, ncs: u64, profile: Profile| {
            Config::new([("threads", threads.into()), ("cs_ns", cs.into()), ("ncs_ns", ncs.into())])
                .on(profile)
        };
        let cells = [
            (8, 100, 100, Profile::All),
            (64, 100, 100, Profile::All),
            (2, 0, 0, Profile::All),
            (8, 100, 200, Profile::All),
            (8, 100, 100, Profile::One),
        ];
        let mut record = |system, waits: [f64; 2], throughputs: [f64; 2]| {
            let others = [7.0, 7.0, 7.0];
            let all =
                waits.into_iter().chain([f64::NAN, 7.0, 7.0]).zip(throughputs.into_iter().chain(others));
            for ((threads, cs, ncs, profile), (wait, throughput)) in cells.into_iter().zip(all) {
                let config = config(threads, cs, ncs, profile);
                recorder.record(0, system, &MAX_WAIT_TO_STD, &config, wait);
                recorder.record(0, system, &MOPS_TO_BEST_PEER, &config, throughput);
            }
        };
        record(OURS, [0.1, 0.4], [0.5, 2.0]);
        record("variant", [0.1, f64::NAN], [0.5, 0.5]);
        record("std", [1.0, 1.0], [0.9, 0.4]);
        record("slow", [0.01, 0.01], [0.2, 0.2]);
        Report::new(&recorder, Vec::new())
    }

    #[test]
    fn point_is_the_geometric_mean_of_all_cells() {
        let report = report();
        let waits = report.select(MAX_WAIT_TO_STD.name, "ncs_ns=cs_ns");
        let throughputs = report.select(MOPS_TO_BEST_PEER.name, "");
        let found = points(&waits, &throughputs);
        // The variant has no wait in one of the cells.
        let expected = [point(OURS, 0.2, 1.0), point("std", 1.0, 0.6), point("slow", 0.01, 0.2)];
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.system, expected.system);
            assert!((found.wait - expected.wait).abs() < 1e-9, "{found:?}");
            assert!((found.throughput - expected.throughput).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn frontier_has_the_points_that_no_other_dominates() {
        let points = [
            point("fast", 1.0, 1.0),
            point("slower, longer wait", 1.1, 0.9),
            point("short", 0.1, 0.5),
            point("same wait, slower", 0.1, 0.4),
            point("same throughput, longer wait", 0.2, 0.5),
            point("between", 0.5, 0.6),
            point("shortest", 0.05, 0.1),
        ];
        let names: Vec<&str> = frontier(&points).iter().map(|point| &*point.system).collect();
        assert_eq!(names, ["shortest", "short", "between", "fast"]);
    }

    #[test]
    fn page_has_the_frontier_with_its_cells_and_kinds_of_locks() {
        let page = page::render(&Document { machine: Vec::new(), results: vec![report()] });
        let caption = "geometric mean of 2 cells (threads: 8, 64; 100 ns under the lock, as many without)";
        for part in [
            caption,
            r#"class="named ours""#,
            r#"class="named peer p0""#,
            r#"class="named variant""#,
            "stillpoint: throughput 1×, longest wait 0.2×",
            ">slow (0.2×)</text>",
        ] {
            assert!(page.contains(part), "{part} is missing in\n{page}");
        }
        assert!(!page.contains("<title>variant"), "{page}");
    }
}
