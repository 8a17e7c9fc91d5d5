//! Plots as SVG: rows of dots with their spread, and curves. The name of a mark stands beside it: no legend has to be
//! looked up, and no two colours have to be told apart.

use std::error::Error;
use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};

use harness::report::{OURS, figure};
use harness::stats::{Config, Row, Summary};
use harness::units::digits;

/// Width of a plot, of a letter in the mean, and height of a name.
const WIDTH: u32 = 440;
const LETTER: u32 = 7;
const NAME: i32 = 13;

pub(super) const MIB: f64 = 1048576.0;

/// The colours of the page by their names in `plot.css`, which has others for a dark screen.
const PALETTE: [(&str, RGBColor); 13] = [
    ("ours", RGBColor(0x00, 0x5f, 0xae)),
    ("ink", RGBColor(0x1c, 0x20, 0x24)),
    ("quiet", RGBColor(0x62, 0x6a, 0x73)),
    ("rule", RGBColor(0xdd, 0xe1, 0xe5)),
    ("p0", RGBColor(0xb3, 0x40, 0x0a)),
    ("p1", RGBColor(0x00, 0x79, 0x5a)),
    ("p2", RGBColor(0xa4, 0x48, 0x7f)),
    ("p3", RGBColor(0x96, 0x69, 0x0a)),
    ("p4", RGBColor(0x5b, 0x6d, 0xd0)),
    ("p5", RGBColor(0x2b, 0x2f, 0x33)),
    ("p6", RGBColor(0x7a, 0x52, 0x30)),
    ("p7", RGBColor(0x5a, 0x8a, 0x1f)),
    ("p8", RGBColor(0x8b, 0x93, 0x9b)),
];
const OUR: RGBColor = PALETTE[0].1;
const INK: RGBColor = PALETTE[1].1;
const QUIET: RGBColor = PALETTE[2].1;
const RULE: RGBColor = PALETTE[3].1;
const PEER: usize = 4;
const PEERS: usize = 9;

type Drawn = Result<(), Box<dyn Error>>;
type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Scale, Scale>>;

/// The name of an axis, and the unit of its values.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a>(pub &'a str, pub &'a str);

/// The values of an axis: from zero on, or logarithmic.
#[derive(Clone, Debug)]
struct Scale {
    is_log: bool,
    least: f64,
    most: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// Returns a scale that is logarithmic if the values lie far apart.
    fn of(values: impl Iterator<Item = f64>, unit: &str) -> Self {
        Self::new(values, unit, 15.0)
    }

    fn linear(values: impl Iterator<Item = f64>) -> Self {
        Self::new(values, "linear", f64::INFINITY)
    }

    /// Returns a scale that is logarithmic if the greatest value is more than `wide` times the least above zero.
    fn new(values: impl Iterator<Item = f64>, unit: &str, wide: f64) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let most = values.last().copied().filter(|most| *most > 0.0).unwrap_or(1.0);
        let least = values.iter().copied().find(|value| *value > 0.0).unwrap_or(most);
        let is_log = most > wide * least;
        let (least, most) = if is_log { (least / 1.15, most * 1.15) } else { (0.0, most * 1.02) };
        // A few numbers, of CPUs or of threads, have a tick each.
        let few = unit.is_empty() && (2..12).contains(&values.len()) && (is_log || most < 20.0);
        let ticks = if few { values } else { ticks(is_log, least, most) };
        Self { is_log, least, most, ticks }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = match self.is_log {
            true => (value.max(self.least) / self.least).ln() / (self.most / self.least).ln(),
            false => (value - self.least) / (self.most - self.least),
        };
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.least..self.most
    }
}

/// Returns round values between two, three to six of them where there are as many.
fn ticks(is_log: bool, least: f64, most: f64) -> Vec<f64> {
    let (step, parts): (i32, &[f64]) = match (most / least).log10() {
        _ if !is_log => {
            let unit = 10_f64.powf((most / 5.0).log10().floor());
            let step =
                [1.0, 2.0, 5.0, 10.0].map(|part| part * unit).into_iter().find(|step| *step >= most / 5.0);
            let step = step.unwrap_or(most);
            return (0..).map(|number| f64::from(number) * step).take_while(|tick| *tick <= most).collect();
        }
        decades if decades < 2.2 => (1, &[1.0, 3.0]),
        decades => ((decades / 5.0).ceil() as i32, &[1.0]),
    };
    let powers =
        (least.log10().floor() as i32..=most.log10().ceil() as i32).filter(|power| power % step == 0);
    let all = powers.flat_map(|power| parts.iter().map(move |part| part * 10_f64.powi(power)));
    all.filter(|tick| (least..=most).contains(tick)).collect()
}

/// Returns a value; bytes on a scale are in MiB, as round bytes are not round MiB.
fn text(value: f64, unit: &str) -> String {
    match unit {
        "MiB" => format!("{} MiB", digits(value)),
        "" => value.to_string(),
        _ => figure(value, unit),
    }
}

/// Returns a value at an axis: without redundant zeros.
fn tick_text(value: f64, unit: &str) -> String {
    let text = text(if unit.is_empty() { value.round() } else { value }, unit);
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    if number == "0" { "0".to_owned() } else { format!("{number}{rest}") }
}

fn draw(title: &str, height: u32, drawn: impl FnOnce(&Canvas<'_>) -> Drawn) -> Markup {
    let mut svg = String::new();
    let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    drawn(&canvas).and_then(|()| Ok(canvas.present()?)).expect("a text takes what is drawn");
    drop(canvas);
    for (name, RGBColor(r, g, b)) in PALETTE {
        svg = svg.replace(&format!("#{r:02X}{g:02X}{b:02X}"), &format!("var(--{name})"));
    }
    let svg = svg.replace('\n', "").replace("<text", "\n<text");
    let svg = svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", " role=\"img\"", 1);
    html! { figure { figcaption { (title) } (PreEscaped(svg)) } }
}

/// Returns a plot as a file of its own, with its colours.
pub(super) fn file(plot: &Markup) -> String {
    let svg =
        plot.0.split_once("<svg").and_then(|(_, rest)| rest.split_once("</svg>")).map_or("", |(svg, _)| svg);
    let svg = svg.replacen(" role", " xmlns=\"http://www.w3.org/2000/svg\" role", 1);
    let paper = "<rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>";
    let style = format!(">\n<style>\n{}</style>\n{paper}", include_str!("plot.css"));
    format!("<svg{}</svg>\n", svg.replacen('>', &style, 1))
}

/// Draws the axes of a plot, with so many places at the left and at the right.
fn chart<'a>(
    canvas: &Canvas<'a>,
    (left, right): (u32, u32),
    (x, x_axis): (&Scale, Axis<'_>),
    (y, y_text): (&Scale, &dyn Fn(&f64) -> String),
) -> Result<Chart<'a>, Box<dyn Error>> {
    let bottom = if x_axis.0.is_empty() { 20 } else { 34 };
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(14)
        .margin_right(right)
        .x_label_area_size(bottom)
        .y_label_area_size(left)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let label = |color: RGBColor| ("sans-serif", 13).into_font().color(&color);
    chart
        .configure_mesh()
        .axis_style(QUIET)
        .bold_line_style(RULE)
        .set_all_tick_mark_size(3)
        .x_desc(x_axis.0)
        .axis_desc_style(label(QUIET))
        .x_label_style(label(QUIET))
        .y_label_style(label(if left > 60 { INK } else { QUIET }))
        .x_label_formatter(&|at| tick_text(*at, x_axis.1))
        .y_label_formatter(y_text)
        .draw()?;
    Ok(chart)
}

fn write(canvas: &Canvas<'_>, words: &str, at: (i32, i32), color: RGBColor) -> Drawn {
    let font = ("sans-serif", 14).into_font().color(&color).pos(Pos::new(HPos::Left, VPos::Center));
    Ok(canvas.draw(&Text::new(words.to_owned(), at, font))?)
}

/// A row of a plot.
#[derive(Clone, Debug)]
pub(super) struct Dot {
    label: String,
    is_ours: bool,
    pub(super) summary: Summary,
}

impl Dot {
    pub(super) fn new(label: &str, is_ours: bool, summary: Summary) -> Self {
        Self { label: label.to_owned(), is_ours, summary }
    }
}

/// Draws a row for each system, in their order: its median as a dot, its spread as a line, and the number. A line marks
/// the value `mark`.
pub(super) fn dots(title: &str, unit: &str, dots: &[Dot], mark: Option<f64>) -> Markup {
    let longest = dots.iter().map(|dot| dot.label.chars().count()).max().unwrap_or(0) as u32;
    let values = dots.iter().flat_map(|dot| [dot.summary.min, dot.summary.median, dot.summary.max]);
    let x = Scale::of(values.chain(mark), unit);
    let rows = dots.len() as f64;
    let row = |index: usize| rows - index as f64 - 0.5;
    let y = Scale { is_log: false, least: 0.0, most: rows, ticks: (0..dots.len()).map(row).collect() };
    let name = |at: &f64| dots[(rows - at) as usize].label.clone();
    draw(title, 21 * dots.len() as u32 + 36, |canvas| {
        let mut chart = chart(canvas, (longest * LETTER + 14, 70), (&x, Axis("", unit)), (&y, &name))?;
        if let Some(mark) = mark {
            chart.draw_series([PathElement::new([(mark, 0.0), (mark, rows)], INK)])?;
        }
        for (index, Dot { is_ours, summary, .. }) in dots.iter().enumerate() {
            let color = if *is_ours { OUR } else { PALETTE[PEER + PEERS - 1].1 };
            let (Summary { median, min, max }, row) = (*summary, row(index));
            chart.draw_series([PathElement::new([(min, row), (max, row)], color.stroke_width(2))])?;
            chart.draw_series([Circle::new((median, row), 4, color.filled())])?;
            let at = chart.plotting_area().map_coordinate(&(x.most, row));
            write(canvas, &text(median, unit), (at.0 + 8, at.1), if *is_ours { OUR } else { INK })?;
        }
        Ok(())
    })
}

/// A curve, in the order of its abscissa, or a point.
#[derive(Clone, Debug)]
pub struct Curve {
    pub label: String,
    pub is_ours: bool,
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    pub fn new(label: &str, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.to_owned(), is_ours: label == OURS, points }
    }
}

/// Draws curves, each with its name at its end; ours above the others.
pub fn curves(title: &str, x_axis: Axis<'_>, y_axis: Axis<'_>, curves: &[Curve]) -> Markup {
    draw_curves(title, [x_axis, y_axis], curves, &Kind::Usual)
}

/// What is drawn as curves.
enum Kind {
    Usual,
    /// Courses over time, on linear scales, with their names at their greatest values.
    Courses,
    /// Shares of a whole.
    Shares,
    /// Points, and a line that joins some of them.
    Frontier(Vec<(f64, f64)>),
}

fn draw_curves(title: &str, [x_axis, y_axis]: [Axis<'_>; 2], curves: &[Curve], kind: &Kind) -> Markup {
    let curves: Vec<&Curve> = curves.iter().filter(|curve| !curve.points.is_empty()).collect();
    let longest = curves.iter().map(|curve| curve.label.chars().count()).max().unwrap_or(0) as u32;
    let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let (xs, ys) = (points().map(|point| point.0), points().map(|point| point.1));
    let (x, y) = match kind {
        Kind::Usual => (Scale::of(xs, x_axis.1), Scale::of(ys, "y")),
        Kind::Courses => (Scale::linear(xs), Scale::linear(ys)),
        Kind::Shares | Kind::Frontier(_) => (Scale::of(xs, x_axis.1), Scale::linear(ys)),
    };
    let named = |curve: &Curve| match kind {
        Kind::Courses => curve.points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)),
        _ => curve.points.last().copied(),
    };
    let height = 250.max(NAME * curves.len() as i32 + 60);
    draw(title, height as u32, |canvas| {
        let margins = (58, longest * LETTER + 20);
        let mut chart = chart(canvas, margins, (&x, x_axis), (&y, &|at| tick_text(*at, y_axis.1)))?;
        write(canvas, y_axis.0, (2, 6), QUIET)?;
        if let Kind::Frontier(line) = kind {
            chart.draw_series([PathElement::new(line.clone(), QUIET)])?;
        }
        let ends = curves.iter().map(|curve| named(curve).expect("a curve that is drawn has points"));
        let ends: Vec<(i32, i32)> = ends.map(|end| chart.plotting_area().map_coordinate(&end)).collect();
        let names = spread(&ends.iter().map(|end| end.1).collect::<Vec<_>>(), 14, height - 34);
        let mut order: Vec<usize> = (0..curves.len()).collect();
        order.sort_by_key(|&place| curves[place].is_ours);
        for place in order {
            let Curve { label, is_ours, points } = curves[place];
            let color = if *is_ours { OUR } else { PALETTE[PEER + place % PEERS].1 };
            let style = color.stroke_width(if *is_ours { 3 } else { 1 });
            if points.len() < 20 {
                chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
            }
            chart.draw_series([PathElement::new(points.clone(), style)])?;
            let name = (WIDTH as i32 - (longest * LETTER) as i32 - 6, names[place]);
            canvas.draw(&PathElement::new([ends[place], (name.0 - 3, name.1)], color.mix(0.4)))?;
            write(canvas, label, name, color)?;
        }
        Ok(())
    })
}

/// Returns places near the wanted ones, in their order, that leave room for a name each, between `top` and `bottom`.
fn spread(wanted: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&place| wanted[place]);
    let mut places = wanted.to_vec();
    let mut least = top;
    for &place in &order {
        places[place] = places[place].max(least);
        least = places[place] + NAME;
    }
    let mut most = bottom;
    for &place in order.iter().rev() {
        places[place] = places[place].min(most);
        most = places[place] - NAME;
    }
    places
}

/// Draws courses of bytes over milliseconds.
pub(super) fn courses(title: &str, courses: &[Curve]) -> Markup {
    let thinned = |course: &Curve| {
        // As many points as a plot can show: of each group the greatest value.
        let groups = course.points.chunks(course.points.len().div_ceil(220).max(1));
        let greatest = groups.filter_map(|group| group.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)));
        let points = greatest.map(|(time, bytes)| (time, bytes / MIB)).collect();
        Curve { points, ..course.clone() }
    };
    let curves: Vec<Curve> = courses.iter().map(thinned).collect();
    draw_curves(title, [Axis("milliseconds", ""), Axis("", "MiB")], &curves, &Kind::Courses)
}

/// Draws histograms of latencies in power-of-two buckets: the share of each bucket.
pub(super) fn histograms(title: &str, histograms: &[Curve]) -> Markup {
    let shares = |one: &Curve| {
        let total: f64 = one.points.iter().map(|point| point.1).sum();
        let is_used = |point: &(f64, f64)| point.1 > 0.0;
        let (first, last) = (one.points.iter().position(is_used)?, one.points.iter().rposition(is_used)?);
        let used = one.points[first..=last].iter();
        let points = used.map(|&(below, count)| (below, 100.0 * count / total)).collect();
        Some(Curve { points, ..one.clone() })
    };
    let shares: Vec<Curve> = histograms.iter().filter_map(shares).collect();
    draw_curves(
        title,
        [Axis("a call takes less than", "ns"), Axis("% of the calls", "")],
        &shares,
        &Kind::Shares,
    )
}

/// A lock: its longest wait and its throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) system: String,
    wait: f64,
    throughput: f64,
}

/// Returns the geometric means of the medians of each system that was measured in all cells in which waits were timed.
pub(super) fn points(waits: &[&Row], throughputs: &[&Row]) -> Vec<Point> {
    let mut cells: Vec<&Config> = Vec::new();
    for row in waits {
        if !cells.contains(&&row.config) {
            cells.push(&row.config);
        }
    }
    let mut points: Vec<Point> = Vec::new();
    for system in waits.iter().map(|row| &row.system) {
        let mean = |rows: &[&Row]| {
            let in_cell = |cell: &&Config| {
                let own = rows.iter().find(|row| row.system == *system && row.config == **cell);
                own.map(|row| row.summary.median.ln())
            };
            let logarithms = cells.iter().map(in_cell).collect::<Option<Vec<f64>>>()?;
            Some((logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
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

/// Draws a point for each lock, and a line that joins those than which no other one has a shorter wait and as much
/// throughput: to the right of it and below it, a lock of the line is at least as good in both. `ours` are in our colour.
pub(super) fn frontier(title: &str, axes: [Axis<'_>; 2], points: &[Point], ours: &[&str]) -> Markup {
    let mut line: Vec<(f64, f64)> = Vec::new();
    for Point { wait, throughput, .. } in best(points) {
        line.extend(line.last().map(|last| (*wait, last.1)));
        line.push((*wait, *throughput));
    }
    let curve = |point: &Point| Curve {
        is_ours: point.system == OURS || ours.contains(&&*point.system),
        ..Curve::new(&point.system, vec![(point.wait, point.throughput)])
    };
    draw_curves(title, axes, &points.iter().map(curve).collect::<Vec<_>>(), &Kind::Frontier(line))
}

/// Returns the points than which no other one is better in both, the shortest wait first.
fn best(points: &[Point]) -> Vec<&Point> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use harness::stats::{Metric, Recorder};
    use harness::{Better, Report};

    #[test]
    fn ticks_are_round_and_few_and_counts_have_one_each() {
        assert_eq!(Scale::of([1.0, 7.5].into_iter(), "ns").ticks, [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(Scale::of([3.5, 5e6].into_iter(), "ns").ticks, [1e2, 1e4, 1e6]);
        assert_eq!(Scale::of([1.0, 8.0, 64.0, 8.0].into_iter(), "").ticks, [1.0, 8.0, 64.0]);
        for (least, most) in [(1.1, 20.0), (0.5, 20.0), (1e-3, 1e9), (7.5, 120.0)] {
            let ticks = Scale::of([least, most].into_iter(), "ns").ticks.len();
            assert!((2..=8).contains(&ticks), "{ticks} ticks from {least} to {most}");
        }
        let ticks = [(1e3, "ns"), (0.0, "ns"), (2e6, "ns"), (0.5, "ratio"), (1e3, "1/s"), (64.0, "")];
        assert_eq!(
            ticks.map(|(value, unit)| tick_text(value, unit)),
            ["1 us", "0", "2 ms", "0.5x", "1000", "64"]
        );
    }

    #[test]
    fn names_do_not_overlap_and_keep_their_order() {
        assert_eq!(spread(&[50, 51, 200, 50, 199], 10, 200), [50, 76, 200, 63, 187]);
    }

    #[test]
    fn plot_has_names_figures_and_scales_and_can_be_a_file() {
        let summary = Summary { median: 2.0, min: 1.0, max: 4.0 };
        let dot = |name| Dot::new(name, name == OURS, summary);
        let plot = dots("A read", "ns", &[dot(OURS), dot("peer")], None);
        let curves = curves(
            "Waits",
            Axis("threads", ""),
            Axis("", "ns"),
            &[Curve::new(OURS, vec![(1.0, 2e3), (64.0, 9e3)])],
        );
        for (plot, parts) in [
            (&plot, [">stillpoint<", ">peer<", ">2.00 ns<", ">4 ns<", "<circle"]),
            (&curves, [">stillpoint<", ">threads<", ">64<", ">8 us<", "<polyline"]),
        ] {
            for part in parts {
                assert!(plot.0.contains(part), "{part} is missing in {}", plot.0);
            }
            assert!(!plot.0.contains("http") && plot.0.contains("var(--ours)"));
        }
        let file = file(&plot);
        assert!(file.starts_with("<svg ") && file.ends_with("</svg>\n"), "{file}");
        assert!(file.contains("xmlns=") && file.contains("prefers-color-scheme"), "{file}");
    }

    #[test]
    fn frontier_has_the_points_that_no_other_dominates() {
        let mut recorder = Recorder::new("lock-ablation");
        const WAIT: Metric = Metric::nanoseconds("wait_ns");
        const RATE: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
        let mut record = |system, waits: [f64; 2], rates: [f64; 2]| {
            for (threads, (wait, rate)) in [8, 64].into_iter().zip(waits.into_iter().zip(rates)) {
                let config = Config::new([("threads", threads.into())]);
                recorder.record(0, system, &WAIT, &config, wait);
                recorder.record(0, system, &RATE, &config, rate);
            }
        };
        record(OURS, [0.1, 0.4], [0.5, 2.0]);
        record("fast", [1.0, 1.0], [4.0, 4.0]);
        record("slower, longer wait", [1.0, 1.1], [0.9, 0.9]);
        record("not in all cells", [0.01, f64::NAN], [9.0, 9.0]);
        let report = Report::new(&recorder, Vec::new());
        let points = points(&report.select("wait_ns", ""), &report.select("mops", ""));
        assert_eq!(points.len(), 3);
        assert!(
            (points[0].wait - 0.2).abs() < 1e-9 && (points[0].throughput - 1.0).abs() < 1e-9,
            "{points:?}"
        );
        let names: Vec<&str> = best(&points).iter().map(|point| &*point.system).collect();
        assert_eq!(names, [OURS, "fast"]);
    }
}
