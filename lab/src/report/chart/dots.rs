//! A row for each system: its median as a dot, its spread as a line, and the number.

use maud::{Markup, html};

use super::{LETTER, Scale, WIDTH, at, horizontal, plot, text};
use crate::harness::stats::Summary;

const ROW: f64 = 21.0;
const FIGURE: f64 = 66.0;

/// A row of a plot.
#[derive(Clone, Debug)]
pub(in crate::report) struct Dot {
    pub(in crate::report) label: String,
    pub(in crate::report) is_ours: bool,
    pub(in crate::report) summary: Summary,
}

/// Draws the rows in their order; a line marks the value `mark`.
pub(in crate::report) fn draw(title: &str, unit: &str, dots: &[Dot], mark: Option<f64>) -> Markup {
    let longest = dots.iter().map(|dot| dot.label.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * LETTER + 14.0).min(WIDTH * 0.42);
    let right = WIDTH - FIGURE;
    let values = dots.iter().flat_map(|dot| [dot.summary.min, dot.summary.median, dot.summary.max]);
    let scale = match mark {
        Some(mark) => around(values, mark, left, right),
        None => Scale::of(values, left, right),
    };
    let bottom = dots.len() as f64 * ROW + 4.0;
    let body = html! {
        (horizontal(&scale, unit, 2.0, bottom))
        @if let Some(mark) = mark {
            @let x = at(scale.place(mark));
            line .mark x1=(x) x2=(x) y1="2" y2=(at(bottom)) {}
        }
        @for (place, dot) in dots.iter().enumerate() {
            @let y = (place as f64 + 0.5) * ROW + 2.0;
            @let summary = dot.summary;
            g .ours[dot.is_ours] .theirs[!dot.is_ours] {
                text x=(at(left - 10.0)) y=(at(y + 4.0)) text-anchor="end" { (dot.label) }
                line .spread x1=(at(scale.place(summary.min))) x2=(at(scale.place(summary.max))) y1=(at(y)) y2=(at(y)) {}
                circle cx=(at(scale.place(summary.median))) cy=(at(y)) r="4.5" {}
                text .figure x=(at(WIDTH - 2.0)) y=(at(y + 4.0)) text-anchor="end" { (text(summary.median, unit)) }
            }
        }
    };
    plot(title, bottom + 20.0, &body)
}

/// A logarithmic scale on which `mark` has room on both sides.
fn around(values: impl Iterator<Item = f64>, mark: f64, from: f64, to: f64) -> Scale {
    let far =
        values.filter(|value| *value > 0.0).map(|value| (value / mark).max(mark / value)).fold(1.5, f64::max);
    Scale::log(mark / far, mark * far, from, to)
}
