//! Curves, each with its name at its end.

use maud::{Markup, html};

use super::{LETTER, Scale, WIDTH, at, plot, tick_text};

const HEIGHT: f64 = 210.0;
const TOP: f64 = 8.0;
const LEFT: f64 = 52.0;
const LABEL: f64 = 13.0;

/// What the curves are a function of.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Over<'a> {
    pub(in crate::report) name: &'a str,
    /// Doubling takes the same width everywhere, and there is a label for each point.
    pub(in crate::report) doubles: bool,
}

/// A curve.
#[derive(Clone, Debug)]
pub(in crate::report) struct Line {
    pub(in crate::report) label: String,
    pub(in crate::report) is_ours: bool,
    pub(in crate::report) points: Vec<(f64, f64)>,
}

/// Draws the curves; ours last, above the others.
pub(in crate::report) fn draw(title: &str, unit: &str, over: Over<'_>, lines: &[Line]) -> Markup {
    let longest = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
    let (bottom, right) = (TOP + HEIGHT, WIDTH - longest as f64 * LETTER - 16.0);
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let xs = points().map(|point| point.0);
    let (least, most) = (xs.clone().fold(f64::INFINITY, f64::min), xs.clone().fold(0.0, f64::max));
    let x = match over.doubles {
        true => Scale { is_log: true, least, most: most.max(least * 2.0), from: LEFT + 8.0, to: right },
        false => Scale { is_log: false, least: 0.0, most: most.max(1.0), from: LEFT, to: right },
    };
    let y = Scale::of(points().map(|point| point.1), bottom, TOP);
    let mut ticks = if over.doubles { xs.collect() } else { x.ticks() };
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let ends: Vec<f64> =
        lines.iter().map(|line| line.points.last().map_or(bottom, |end| y.place(end.1))).collect();
    let labels = spread(&ends, TOP + 4.0, bottom);
    let order = || (0..lines.len()).filter(|&place| !lines[place].is_ours).chain(own(lines));
    let body = html! {
        @for tick in y.ticks() {
            @let place = y.place(tick);
            line .grid x1=(at(LEFT)) x2=(at(right)) y1=(at(place)) y2=(at(place)) {}
            text .tick x=(at(LEFT - 6.0)) y=(at(place + 4.0)) text-anchor="end" { (tick_text(tick, unit)) }
        }
        line .axis x1=(at(LEFT)) x2=(at(right)) y1=(at(bottom)) y2=(at(bottom)) {}
        @for tick in ticks {
            text .tick x=(at(x.place(tick))) y=(at(bottom + 14.0)) text-anchor="middle" { (tick) }
        }
        text .tick x=(at((LEFT + right) / 2.0)) y=(at(bottom + 29.0)) text-anchor="middle" { (over.name) }
        @for place in order() {
            @let line = &lines[place];
            g class=(if line.is_ours { "ours".to_owned() } else { format!("peer p{}", place % 9) }) {
                polyline points=(path(&line.points, &x, &y)) {}
                @if line.points.len() < 20 {
                    @for point in &line.points {
                        circle cx=(at(x.place(point.0))) cy=(at(y.place(point.1))) r="3" {}
                    }
                }
                @if let Some(end) = line.points.last() {
                    line .lead x1=(at(x.place(end.0) + 3.0)) y1=(at(ends[place])) x2=(at(right + 10.0)) y2=(at(labels[place])) {}
                    text x=(at(right + 13.0)) y=(at(labels[place] + 4.0)) { (line.label) }
                }
            }
        }
    };
    plot(title, bottom + 34.0, &body)
}

fn own(lines: &[Line]) -> impl Iterator<Item = usize> {
    (0..lines.len()).filter(|&place| lines[place].is_ours)
}

fn path(points: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    let point = |&(over, value): &(f64, f64)| format!("{},{}", at(x.place(over)), at(y.place(value)));
    points.iter().map(point).collect::<Vec<_>>().join(" ")
}

/// Places near the wanted ones, in their order, that leave room for a label each, between `top` and `bottom`.
fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other_and_keep_their_order() {
        let places = spread(&[50.0, 51.0, 200.0, 50.5, 199.0], 10.0, 200.0);
        assert_eq!(places, [50.0, 76.0, 200.0, 63.0, 187.0]);
    }
}
