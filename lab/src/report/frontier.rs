//! The frontier of throughput and longest wait: a dot for each lock, in the mean over cells.
//!
//! A lock is on the frontier if no other one has a shorter wait and no less throughput, or more throughput and no longer
//! wait. A step line joins these: to the right of it and below it, a lock of the line is at least as good in both.

use std::f64::consts::TAU;

use maud::{Markup, html};

use super::chart::{LETTER, Scale, WIDTH, at, path, plot, tick_text};
use crate::bench::lock::ablation::PEERS;
use crate::harness::Config;
use crate::harness::report::OURS;
use crate::harness::stats::Row;

/// A lock.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    system: String,
    /// Longest wait and throughput, as ratios.
    wait: f64,
    throughput: f64,
}

/// Returns a point for each system that was measured in all cells.
fn points(waits: &[&Row], throughputs: &[&Row]) -> Vec<Point> {
    let cells = cells(waits).len();
    let mut points: Vec<Point> = Vec::new();
    for wait in waits {
        if points.iter().any(|point| point.system == wait.system) {
            continue;
        }
        let values = |rows: &[&Row]| {
            let own = rows.iter().filter(|row| row.system == wait.system);
            own.map(|row| row.summary.median).collect::<Vec<f64>>()
        };
        let (own_waits, own_throughputs) = (values(waits), values(throughputs));
        if own_waits.len() == cells && own_throughputs.len() == cells {
            let (wait_ratio, throughput) = (geometric_mean(&own_waits), geometric_mean(&own_throughputs));
            points.push(Point { system: wait.system.to_string(), wait: wait_ratio, throughput });
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

/// A rectangle: its least and its greatest place.
#[derive(Clone, Copy, Debug)]
struct Area {
    from: (f64, f64),
    to: (f64, f64),
}

impl Area {
    fn around((x, y): (f64, f64), half: f64) -> Self {
        Self { from: (x - half, y - half), to: (x + half, y + half) }
    }

    fn meets(&self, other: &Self) -> bool {
        let meets = |a: (f64, f64), b: (f64, f64)| a.0 < b.1 && b.0 < a.1;
        meets((self.from.0, self.to.0), (other.from.0, other.to.0))
            && meets((self.from.1, self.to.1), (other.from.1, other.to.1))
    }

    fn contains(&self, other: &Self) -> bool {
        let Self { from, to } = other;
        from.0 >= self.from.0 && from.1 >= self.from.1 && to.0 <= self.to.0 && to.1 <= self.to.1
    }
}

/// The label of a dot.
#[derive(Clone, Copy, Debug)]
struct Label {
    area: Area,
    /// The end of the line from the dot to its label, if the label is not beside the dot.
    lead: Option<(f64, f64)>,
}

/// Half the height of a label.
const HALF: f64 = 6.5;

/// Places a label near each dot, within `frame`. None covers another one. Where there is room, none covers a dot or a
/// line to a label.
fn labels(dots: &[(f64, f64)], widths: &[f64], frame: &Area) -> Vec<Label> {
    let mut labels: Vec<Label> = Vec::new();
    let mut marks: Vec<Area> = dots.iter().map(|dot| Area::around(*dot, 5.0)).collect();
    for (index, (&(x, y), &width)) in dots.iter().zip(widths).enumerate() {
        // The nearest places first.
        let candidates = (0..40).flat_map(|ring| (0..16).map(move |part| (ring, part)));
        let candidate = |(ring, part): (u32, u32)| {
            let (sin, cos) = (f64::from(part) / 16.0 * TAU).sin_cos();
            let distance = 7.0 + 7.0 * f64::from(ring);
            let end = (x + distance * cos, y + distance * sin);
            // The label begins or ends there, or is above or below.
            let left = end.0 - width * (1.0 - cos.signum() * cos.abs().sqrt()) / 2.0;
            let middle = end.1 + HALF * sin;
            let area = Area { from: (left, middle - HALF), to: (left + width, middle + HALF) };
            frame.contains(&area).then_some(Label { area, lead: (ring > 0).then_some(end) })
        };
        let others = |label: &Label| {
            let is_other = |(mark, area): &(usize, &Area)| *mark != index && area.meets(&label.area);
            let covered = marks.iter().enumerate().filter(is_other).count();
            let crossed = trace((x, y), label.lead).filter(|place| {
                let hits = |(mark, area): (usize, &Area)| mark != index && area.meets(place);
                marks.iter().enumerate().any(hits) || labels.iter().any(|other| other.area.meets(place))
            });
            covered + crossed.count()
        };
        let chosen = candidates.filter_map(candidate).min_by_key(|label| {
            (labels.iter().filter(|other| other.area.meets(&label.area)).count(), others(label))
        });
        let beside = Area { from: (x, y - HALF), to: (x + width, y + HALF) };
        let chosen = chosen.unwrap_or(Label { area: beside, lead: None });
        marks.extend(trace((x, y), chosen.lead));
        labels.push(chosen);
    }
    labels
}

/// Returns the places of a line from a dot to its label.
fn trace(dot: (f64, f64), lead: Option<(f64, f64)>) -> impl Iterator<Item = Area> {
    let places = lead.into_iter().flat_map(move |end| {
        let steps = ((end.0 - dot.0).hypot(end.1 - dot.1) / 3.0) as u32;
        (2..=steps).map(move |step| {
            let part = f64::from(step) / f64::from(steps);
            (dot.0 + part * (end.0 - dot.0), dot.1 + part * (end.1 - dot.1))
        })
    });
    places.map(|place| Area::around(place, 1.0))
}

/// Draws the points of all systems, and the frontier. The rows are of the ratios of longest waits and of throughputs.
pub(super) fn draw(title: &str, waits: &[&Row], throughputs: &[&Row]) -> Markup {
    const LEFT: f64 = 44.0;
    const RIGHT: f64 = WIDTH - 4.0;
    const TOP: f64 = 22.0;
    const BOTTOM: f64 = TOP + 290.0;
    let points = points(waits, throughputs);
    // With the ratio of 1, which peers have.
    let ends = |value: fn(&Point) -> f64| {
        let values = points.iter().map(value);
        values.fold((1.0_f64, 1.0_f64), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (waits_ends, ends) = (ends(|point| point.wait), ends(|point| point.throughput));
    let x = Scale::log(waits_ends.0, waits_ends.1, LEFT, RIGHT);
    let y = Scale::between(ends.0, ends.1, BOTTOM, TOP);
    let place = |point: &Point| (x.place(point.wait), y.place(point.throughput));
    let dots: Vec<(f64, f64)> = points.iter().map(place).collect();
    let widths: Vec<f64> = points.iter().map(|point| point.system.len() as f64 * LETTER).collect();
    let labels = labels(&dots, &widths, &Area { from: (LEFT, TOP), to: (RIGHT, BOTTOM) });
    let mut line: Vec<(f64, f64)> = Vec::new();
    for point in frontier(&points) {
        let (x, y) = place(point);
        line.extend([(x, line.last().map_or(BOTTOM, |last| last.1)), (x, y)]);
    }
    line.extend(line.last().map(|last| (RIGHT, last.1)));
    let body = html! {
        @for tick in y.ticks() {
            @let place = y.place(tick);
            line .grid x1=(at(LEFT)) x2=(at(RIGHT)) y1=(at(place)) y2=(at(place)) {}
            text .tick x=(at(LEFT - 6.0)) y=(at(place + 4.0)) text-anchor="end" { (tick_text(tick, "ratio")) }
        }
        @for tick in x.ticks() {
            @let place = at(x.place(tick));
            line .grid x1=(place) x2=(place) y1=(at(TOP)) y2=(at(BOTTOM)) {}
            text .tick x=(place) y=(at(BOTTOM + 14.0)) text-anchor="middle" { (tick_text(tick, "ratio")) }
        }
        line .axis x1=(at(LEFT)) x2=(at(RIGHT)) y1=(at(BOTTOM)) y2=(at(BOTTOM)) {}
        text .tick x="0" y="11" { "throughput / that of the best peer" }
        text .tick x=(at((LEFT + RIGHT) / 2.0)) y=(at(BOTTOM + 29.0)) text-anchor="middle" {
            "longest wait / that of std, logarithmic"
        }
        polyline .frontier points=(path(line)) {}
        @for ((point, dot), label) in points.iter().zip(&dots).zip(&labels) {
            g .named .(kind(&point.system)) {
                title {
                    (point.system) ": throughput " (tick_text(point.throughput, "ratio"))
                    ", longest wait " (tick_text(point.wait, "ratio"))
                }
                @if let Some(end) = label.lead {
                    line .lead x1=(at(dot.0)) y1=(at(dot.1)) x2=(at(end.0)) y2=(at(end.1)) {}
                }
                circle cx=(at(dot.0)) cy=(at(dot.1)) r="4" {}
                @let middle = (label.area.from.0 + label.area.to.0) / 2.0;
                text x=(at(middle)) y=(at(label.area.to.1 - 2.5)) text-anchor="middle" { (point.system) }
            }
        }
    };
    plot(&fill(title, &cells(waits)), BOTTOM + 34.0, &body)
}

/// Returns the class of a system in the style sheet.
fn kind(system: &str) -> &'static str {
    match system {
        OURS => "ours",
        _ if PEERS.contains(&system) => "peer p0",
        _ => "variant",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::lock::ablation::{MAX_WAIT_TO_STD, MOPS_TO_BEST_PEER};
    use crate::harness::{Recorder, Report};

    fn point(system: &str, wait: f64, throughput: f64) -> Point {
        Point { system: system.to_owned(), wait, throughput }
    }

    /// Returns the result of three locks in two cells.
    fn report() -> Report {
        let mut recorder = Recorder::new("lock-ablation");
        let mut record = |system, wait: [f64; 2], throughput: [f64; 2]| {
            for (index, threads) in [8, 64].into_iter().enumerate() {
                let config = Config::new([("threads", threads.into()), ("cs_ns", 100.into())]);
                recorder.record(0, system, &MAX_WAIT_TO_STD, &config, wait[index]);
                recorder.record(0, system, &MOPS_TO_BEST_PEER, &config, throughput[index]);
            }
        };
        record(OURS, [0.1, 0.4], [0.5, 2.0]);
        record("variant", [0.1, f64::NAN], [0.5, 0.5]);
        record("std", [1.0, 1.0], [0.9, 0.4]);
        Report::new(&recorder, Vec::new())
    }

    #[test]
    fn point_is_the_geometric_mean_of_all_cells() {
        let report = report();
        let (waits, throughputs) =
            (report.select(MAX_WAIT_TO_STD.name, ""), report.select(MOPS_TO_BEST_PEER.name, ""));
        let found = points(&waits, &throughputs);
        // The variant has no wait in one of the cells.
        let expected = [point(OURS, 0.2, 1.0), point("std", 1.0, 0.6)];
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
    fn labels_of_crowded_dots_do_not_meet() {
        let frame = Area { from: (44.0, 22.0), to: (436.0, 312.0) };
        let dots: Vec<(f64, f64)> =
            (0..18).map(|n| (200.0 + f64::from(n % 5), 80.0 + f64::from(n % 7))).collect();
        let labels = labels(&dots, &[120.0; 18], &frame);
        for (index, label) in labels.iter().enumerate() {
            assert!(frame.contains(&label.area), "{label:?}");
            assert!(!labels[index + 1..].iter().any(|other| other.area.meets(&label.area)), "{label:?}");
        }
    }

    #[test]
    fn plot_names_its_cells_and_the_kinds_of_locks() {
        let report = report();
        let rows = |metric| report.select(metric, "cs_ns=100");
        let title = "mean of {cells} cells, threads: {threads}, {cs_ns} ns";
        let plot = draw(title, &rows(MAX_WAIT_TO_STD.name), &rows(MOPS_TO_BEST_PEER.name)).into_string();
        for part in [
            "mean of 2 cells, threads: 8, 64, 100 ns",
            r#"class="named ours""#,
            r#"class="named peer p0""#,
            "stillpoint: throughput 1×, longest wait 0.2×",
        ] {
            assert!(plot.contains(part), "{part} is missing in\n{plot}");
        }
        assert!(!plot.contains("variant"), "{plot}");
    }
}
