//! Plots as inline SVG, drawn for the width of a phone: on wider screens several stand side by side.
//!
//! Colours and fonts are the page's (see `plot.css`), so that a plot follows it from light to dark. The name of a mark
//! stands beside it: no legend has to be looked up, and no two colours have to be told apart. There are three kinds of
//! marks: dots with their spread, curves, and bands, which are filled shapes one above the other.

use maud::{Markup, html};

use harness::report::figure;
use harness::stats::Summary;
use harness::units::digits;

/// Width of every plot in its own units; a unit is a pixel or a little more.
pub(super) const WIDTH: f64 = 440.0;
/// Width of a letter, in the mean and with some room.
const LETTER: f64 = 7.4;

/// How values become places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    is_log: bool,
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

/// Values that lie further apart are shown on a logarithmic scale.
const WIDE: f64 = 15.0;

impl Scale {
    /// Returns a scale for `values`, between the places `from` and `to`: from zero on, or logarithmic if they lie far
    /// apart.
    fn of(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let most = values.clone().fold(0.0, f64::max);
        let least = values.filter(|value| *value > 0.0).fold(most, f64::min);
        if most > WIDE * least { Self::log(least, most, from, to) } else { Self::linear(most, from, to) }
    }

    fn linear(most: f64, from: f64, to: f64) -> Self {
        let most = if most > 0.0 { most * 1.02 } else { 1.0 };
        Self { is_log: false, least: 0.0, most, from, to }
    }

    /// Returns a linear scale that need not begin at zero, with room at both ends.
    pub(super) fn between(least: f64, most: f64, from: f64, to: f64) -> Self {
        let room = 0.08 * (most - least).max(0.1 * most);
        Self { is_log: false, least: (least - room).max(0.0), most: most + room, from, to }
    }

    pub(super) fn log(least: f64, most: f64, from: f64, to: f64) -> Self {
        let (least, most) = (least.max(1e-9), most.max(2e-9));
        Self { is_log: true, least: least / 1.15, most: most * 1.15, from, to }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let part = if self.is_log {
            (value.max(self.least) / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        self.from + part * (self.to - self.from)
    }

    /// Returns round values within the scale, three to six of them where there are as many.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            let step = round_up((self.most - self.least) / 5.0);
            let first = (self.least / step).ceil() as u32;
            return (first..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= self.most).collect();
        }
        let decades = (self.most / self.least).log10();
        let (first, last) = (self.least.log10().floor() as i32, self.most.log10().ceil() as i32);
        let (step, parts): (usize, &[f64]) = match decades {
            _ if decades < 1.2 => (1, &[1.0, 2.0, 5.0]),
            _ if decades < 2.2 => (1, &[1.0, 3.0]),
            _ => ((decades / 5.0).ceil() as usize, &[1.0]),
        };
        let round = (first..=last).filter(|power| power.rem_euclid(step as i32) == 0);
        let all = round.flat_map(|power| parts.iter().map(move |part| part * 10_f64.powi(power)));
        all.filter(|tick| (self.least..=self.most).contains(tick)).collect()
    }
}

/// Returns the next of 1, 2, 5, 10, 20, and so on.
fn round_up(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|part| part * unit).find(|round| *round >= value).unwrap_or(10.0 * unit)
}

/// Returns a text in ASCII, as commands print it, with the page's typography.
pub(super) fn pretty(ascii: &str) -> String {
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    if let Some(both) = ascii.split_once(" / ") {
        return format!("{} / {}", pretty(both.0), pretty(both.1));
    }
    if let Some(number) = ascii.strip_suffix(" us").filter(|number| is_number(number)) {
        return format!("{number} µs");
    }
    if let Some(number) = ascii.strip_suffix('x').filter(|number| is_number(number)) {
        return format!("{number}×");
    }
    match ascii.split_once("..") {
        Some((least, most)) if is_number(least) && is_number(most) => format!("{least} – {most}"),
        _ => ascii.to_owned(),
    }
}

/// Returns a value as the page writes it. Scales are in MiB, as round bytes are not round MiB.
fn text(value: f64, unit: &str) -> String {
    if unit == "MiB" { format!("{} MiB", digits(value)) } else { pretty(&figure(value, unit)) }
}

/// Returns a value at an axis: without redundant zeros.
pub(super) fn tick_text(value: f64, unit: &str) -> String {
    let text = text(value, unit);
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    if number == "0" { "0".to_owned() } else { format!("{number}{rest}") }
}

/// Returns a place, without digits that cannot be seen.
pub(super) fn at(place: f64) -> String {
    format!("{place:.1}")
}

pub(super) fn path(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let points = points.into_iter().map(|(x, y)| format!("{},{}", at(x), at(y)));
    points.collect::<Vec<_>>().join(" ")
}

/// Makes a plot with its title; `body` is drawn on `height` units.
pub(super) fn plot(title: &str, height: f64, body: &Markup) -> Markup {
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) { (body) }
        }
    }
}

/// Returns a plot as a file of its own, with its style.
pub(super) fn file(plot: Markup) -> String {
    let figure = plot.into_string();
    let svg =
        figure.find("<svg").zip(figure.find("</figure>")).map_or("", |(begin, end)| &figure[begin..end]);
    let style = concat!("<style>\n", include_str!("plot.css"), "</style>\n");
    let paper = "<rect width=\"100%\" height=\"100%\" style=\"fill: var(--paper)\"/>\n";
    let svg = svg.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"440\"", 1);
    svg.replacen('>', &format!(">\n{style}{paper}"), 1).replace("<text", "\n<text") + "\n"
}

/// A row of a plot.
#[derive(Clone, Debug)]
pub(super) struct Dot {
    pub(super) label: String,
    pub(super) is_ours: bool,
    pub(super) summary: Summary,
}

/// Draws a row for each system, in their order: its median as a dot, its spread as a line, and the number. A line marks
/// the value `mark`.
pub(super) fn dots(title: &str, unit: &str, dots: &[Dot], mark: Option<f64>) -> Markup {
    const ROW: f64 = 21.0;
    const FIGURE: f64 = 66.0;
    let longest = dots.iter().map(|dot| dot.label.chars().count()).max().unwrap_or(0);
    let (left, right) = ((longest as f64 * LETTER + 14.0).min(WIDTH * 0.42), WIDTH - FIGURE);
    let values = dots.iter().flat_map(|dot| [dot.summary.min, dot.summary.median, dot.summary.max]);
    let scale = match mark {
        Some(mark) => {
            // With room for the mark on both sides.
            let distances = values.filter(|value| *value > 0.0).map(|value| (value / mark).max(mark / value));
            let far = distances.fold(1.5, f64::max);
            Scale::log(mark / far, mark * far, left, right)
        }
        None => Scale::of(values, left, right),
    };
    let bottom = dots.len() as f64 * ROW + 4.0;
    let body = html! {
        @for tick in scale.ticks() {
            @let x = at(scale.place(tick));
            line .grid x1=(x) x2=(x) y1="2" y2=(at(bottom)) {}
            text .tick x=(x) y=(at(bottom + 14.0)) text-anchor="middle" { (tick_text(tick, unit)) }
        }
        @if let Some(mark) = mark {
            @let x = at(scale.place(mark));
            line .mark x1=(x) x2=(x) y1="2" y2=(at(bottom)) {}
        }
        @for (place, dot) in dots.iter().enumerate() {
            @let y = (place as f64 + 0.5) * ROW + 2.0;
            @let Summary { median, min, max } = dot.summary;
            g .ours[dot.is_ours] .theirs[!dot.is_ours] {
                text x=(at(left - 10.0)) y=(at(y + 4.0)) text-anchor="end" { (dot.label) }
                line .spread x1=(at(scale.place(min))) x2=(at(scale.place(max))) y1=(at(y)) y2=(at(y)) {}
                circle cx=(at(scale.place(median))) cy=(at(y)) r="4.5" {}
                text .figure x=(at(WIDTH - 2.0)) y=(at(y + 4.0)) text-anchor="end" { (text(median, unit)) }
            }
        }
    };
    plot(title, bottom + 20.0, &body)
}

/// A curve or a band, in the order of its abscissa.
#[derive(Clone, Debug)]
pub struct Curve {
    pub label: String,
    pub is_ours: bool,
    pub points: Vec<(f64, f64)>,
}

/// Draws curves over `axis`, each with its name at its end; ours above the others. If the abscissa `doubles`, each
/// doubling takes the same width, and each point has a label.
pub fn curves(title: &str, unit: &str, (axis, doubles): (&str, bool), curves: &[Curve]) -> Markup {
    const TOP: f64 = 8.0;
    const LEFT: f64 = 52.0;
    const BOTTOM: f64 = TOP + 210.0;
    let longest = curves.iter().map(|curve| curve.label.chars().count()).max().unwrap_or(0);
    let right = WIDTH - longest as f64 * LETTER - 16.0;
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let xs = points().map(|point| point.0);
    let (least, most) = (xs.clone().fold(f64::INFINITY, f64::min), xs.clone().fold(0.0, f64::max));
    let x = match doubles {
        true => Scale { is_log: true, least, most: most.max(least * 2.0), from: LEFT + 8.0, to: right },
        false => Scale { is_log: false, least: 0.0, most: most.max(1.0), from: LEFT, to: right },
    };
    let y = Scale::of(points().map(|point| point.1), BOTTOM, TOP);
    let mut ticks = if doubles { xs.collect() } else { x.ticks() };
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let ends: Vec<f64> =
        curves.iter().map(|curve| curve.points.last().map_or(BOTTOM, |end| y.place(end.1))).collect();
    let labels = spread(&ends, TOP + 4.0, BOTTOM);
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by_key(|&place| curves[place].is_ours);
    let body = html! {
        @for tick in y.ticks() {
            @let place = y.place(tick);
            line .grid x1=(at(LEFT)) x2=(at(right)) y1=(at(place)) y2=(at(place)) {}
            text .tick x=(at(LEFT - 6.0)) y=(at(place + 4.0)) text-anchor="end" { (tick_text(tick, unit)) }
        }
        line .axis x1=(at(LEFT)) x2=(at(right)) y1=(at(BOTTOM)) y2=(at(BOTTOM)) {}
        @for tick in ticks {
            text .tick x=(at(x.place(tick))) y=(at(BOTTOM + 14.0)) text-anchor="middle" { (tick) }
        }
        text .tick x=(at((LEFT + right) / 2.0)) y=(at(BOTTOM + 29.0)) text-anchor="middle" { (axis) }
        @for place in order {
            @let Curve { label, is_ours, points } = &curves[place];
            @let class = if *is_ours { "ours".to_owned() } else { format!("peer p{}", place % 9) };
            g class=(class) {
                polyline points=(path(points.iter().map(|point| (x.place(point.0), y.place(point.1))))) {}
                @if points.len() < 20 {
                    @for point in points {
                        circle cx=(at(x.place(point.0))) cy=(at(y.place(point.1))) r="3" {}
                    }
                }
                @if let Some(end) = points.last() {
                    @let (x1, x2) = (at(x.place(end.0) + 3.0), at(right + 10.0));
                    line .lead x1=(x1) y1=(at(ends[place])) x2=(x2) y2=(at(labels[place])) {}
                    text x=(at(right + 13.0)) y=(at(labels[place] + 4.0)) { (label) }
                }
            }
        }
    };
    plot(title, BOTTOM + 34.0, &body)
}

/// Returns places near the wanted ones, in their order, that leave room for a label each, between `top` and `bottom`.
fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    const LABEL: f64 = 13.0;
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = wanted.to_vec();
    let mut least = top;
    for &place in &order {
        places[place] = places[place].max(least);
        least = places[place] + LABEL;
    }
    let mut most = bottom;
    for &place in order.iter().rev() {
        places[place] = places[place].min(most);
        most = places[place] - LABEL;
    }
    places
}

/// Draws courses of bytes over milliseconds.
pub(super) fn courses(title: &str, courses: &[Curve]) -> Markup {
    let end = courses.iter().flat_map(|course| course.points.last()).map(|point| point.0).fold(1.0, f64::max);
    let x = Scale { is_log: false, least: 0.0, most: end, from: EDGE, to: WIDTH - EDGE };
    let ticks = x.ticks().into_iter().map(|tick| (x.place(tick), format!("{tick} ms")));
    let most = |course: &Curve| course.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let notes = courses.iter().map(|course| format!("at most {}", text(most(course), "bytes")));
    // As many points as a plot can show: of each group the greatest value.
    let thinned = |course: &Curve| {
        let groups = course.points.chunks(course.points.len().div_ceil(220).max(1));
        let points = groups.filter_map(|group| group.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)));
        points.map(|(time, bytes)| (x.place(time), bytes)).collect()
    };
    bands(title, &ticks.collect::<Vec<_>>(), courses, &notes.collect::<Vec<_>>(), thinned)
}

/// Draws histograms of latencies in power-of-two buckets: the share of each bucket.
pub(super) fn histograms(title: &str, histograms: &[Curve]) -> Markup {
    let used =
        |&bucket: &usize| histograms.iter().any(|one| one.points.get(bucket).is_some_and(|p| p.1 > 0.0));
    let buckets = histograms.iter().map(|one| one.points.len()).max().unwrap_or(0);
    let (first, last) = ((0..buckets).find(used).unwrap_or(0), (0..buckets).rfind(used).unwrap_or(0));
    let width = (WIDTH - 2.0 * EDGE) / (last - first + 1) as f64;
    let left = |bucket: usize| EDGE + (bucket - first) as f64 * width;
    // As many labels as have room.
    let every = (42.0 / width).ceil() as usize;
    let ticks = (first..=last + 1).step_by(every).map(|bucket| (left(bucket), bound(bucket)));
    let total = |one: &Curve| one.points.iter().map(|point| point.1).sum::<f64>().max(1.0);
    let notes = histograms.iter().map(|one| format!("half below {}", bound(median(&one.points) + 1)));
    let steps = |one: &Curve| {
        let bar = |(bucket, point): (usize, &(f64, f64))| {
            let share = point.1 / total(one);
            // Rare latencies are seen, too.
            let height = if share > 0.0 { share.max(0.025) } else { 0.0 };
            let (begin, end) = (left(bucket) + 1.0, left(bucket) + width - 1.0);
            [(begin, 0.0), (begin, height), (end, height), (end, 0.0)]
        };
        let buckets = one.points.iter().enumerate().skip(first).take(last - first + 1);
        buckets.flat_map(bar).collect()
    };
    bands(title, &ticks.collect::<Vec<_>>(), histograms, &notes.collect::<Vec<_>>(), steps)
}

/// Returns the bucket that the median lies in.
fn median(points: &[(f64, f64)]) -> usize {
    let mut left = points.iter().map(|point| point.1).sum::<f64>() / 2.0;
    let reached = |point: &(f64, f64)| {
        left -= point.1;
        left <= 0.0
    };
    points.iter().position(reached).unwrap_or(0)
}

/// Returns the lower bound of a bucket, with 1 µs for 1024 ns.
fn bound(bucket: usize) -> String {
    let power = bucket.saturating_sub(1);
    let unit = ["ns", "µs", "ms", "s"][(power / 10).min(3)];
    format!("{} {unit}", 1_u64 << (power % 10))
}

/// Room for labels at both ends of a band.
const EDGE: f64 = 22.0;

/// Draws a filled shape for each band, with its name and note above it, one above the other, on one scale. `outline`
/// returns its places and heights. `ticks` are labels at their places.
fn bands(
    title: &str,
    ticks: &[(f64, String)],
    bands: &[Curve],
    notes: &[String],
    outline: impl Fn(&Curve) -> Vec<(f64, f64)>,
) -> Markup {
    const HEIGHT: f64 = 52.0;
    const GAP: f64 = 26.0;
    let outlines: Vec<Vec<(f64, f64)>> = bands.iter().map(outline).collect();
    let most = outlines.iter().flatten().map(|point| point.1).fold(0.0, f64::max).max(0.01);
    let bottom = bands.len() as f64 * (HEIGHT + GAP);
    let body = html! {
        @for (place, ((band, note), points)) in bands.iter().zip(notes).zip(&outlines).enumerate() {
            @let base = (place + 1) as f64 * (HEIGHT + GAP);
            @let corners = [points.first(), points.last()].map(|end| end.map(|end| (end.0, 0.0)));
            @let all = corners[0].into_iter().chain(points.iter().copied()).chain(corners[1]);
            g .ours[band.is_ours] .theirs[!band.is_ours] {
                text x=(at(EDGE)) y=(at(base - HEIGHT - 6.0)) { (band.label) tspan .note { ": " (note) } }
                polygon points=(path(all.map(|(x, height)| (x, base - height / most * HEIGHT)))) {}
            }
            line .axis x1=(at(EDGE)) x2=(at(WIDTH - EDGE)) y1=(at(base)) y2=(at(base)) {}
        }
        @for (place, label) in ticks {
            line .axis x1=(at(*place)) x2=(at(*place)) y1=(at(bottom)) y2=(at(bottom + 4.0)) {}
            text .tick x=(at(*place)) y=(at(bottom + 16.0)) text-anchor="middle" { (label) }
        }
    };
    plot(title, bottom + 22.0, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_is_logarithmic_if_values_lie_far_apart() {
        let near = Scale::of([1.0, 3.0].into_iter(), 0.0, 100.0);
        assert!(!near.is_log && near.place(0.0) == 0.0 && near.place(3.0) < 100.0);
        let far = Scale::of([0.0, 1.0, 1e4].into_iter(), 0.0, 100.0);
        assert!(far.is_log && far.place(1.0) > 0.0 && far.place(1e4) < 100.0);
        assert_eq!(far.place(0.0), 0.0);
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Scale::linear(7.8, 0.0, 1.0).ticks(), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(Scale::between(63.0, 97.0, 0.0, 1.0).ticks(), [70.0, 80.0, 90.0]);
        assert_eq!(Scale::log(3.0, 5e6, 0.0, 1.0).ticks(), [1e2, 1e4, 1e6]);
        for (least, most) in [(1.0, 20.0), (0.5, 2.0), (1e-3, 1e9), (7.0, 120.0)] {
            let ticks = Scale::log(least, most, 0.0, 1.0).ticks().len();
            assert!((2..=8).contains(&ticks), "{ticks} ticks from {least} to {most}");
        }
    }

    #[test]
    fn figures_are_written_with_typography() {
        assert_eq!(
            ["1.50 us", "0.54x", "0.29..1.80", "1.50 us / 2.00 ms", "a..b", "2 max"].map(pretty),
            ["1.50 µs", "0.54×", "0.29 – 1.80", "1.50 µs / 2.00 ms", "a..b", "2 max"]
        );
        let ticks = [(1e3, "ns"), (0.0, "ns"), (2e6, "ns"), (0.5, "ratio"), (1e3, "1/s")];
        assert_eq!(ticks.map(|(value, unit)| tick_text(value, unit)), ["1 µs", "0", "2 ms", "0.5×", "1000"]);
    }

    #[test]
    fn labels_do_not_overlap_and_keep_their_order() {
        let places = spread(&[50.0, 51.0, 200.0, 50.5, 199.0], 10.0, 200.0);
        assert_eq!(places, [50.0, 76.0, 200.0, 63.0, 187.0]);
    }

    #[test]
    fn buckets_are_named_by_powers_of_two() {
        assert_eq!([1, 10, 11, 15, 21, 31].map(bound), ["1 ns", "512 ns", "1 µs", "16 µs", "1 ms", "1 s"]);
        assert_eq!(median(&[(1.0, 2.0), (2.0, 3.0), (4.0, 1.0)]), 1);
        assert_eq!(median(&[(1.0, 0.0), (2.0, 5.0)]), 1);
    }
}
