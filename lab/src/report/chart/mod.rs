//! Plots as inline SVG, drawn for the width of a phone: on wider screens several stand side by side.
//!
//! Colours and fonts are the page's (see `style.css`), so that a plot follows it from light to dark. What a mark is stands
//! beside it: no legend has to be looked up, and no two colours have to be told apart.

pub(super) mod areas;
pub(super) mod bars;
pub(super) mod dots;
pub(super) mod lines;

use maud::{Markup, html};

use crate::harness::report::figure;
use crate::harness::units::digits;

/// Width of every plot in its own units; a unit is a pixel or a little more.
const WIDTH: f64 = 440.0;

/// Width of a letter, in the mean and with some room.
const LETTER: f64 = 7.4;

/// How values become places.
#[derive(Clone, Copy, Debug)]
struct Scale {
    is_log: bool,
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

/// Values that lie further apart are shown on a logarithmic scale.
const WIDE: f64 = 15.0;

impl Scale {
    /// A scale for `values`, between the places `from` and `to`: from zero on, or logarithmic if they lie far apart.
    fn of(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let most = values.clone().fold(0.0, f64::max);
        let least = values.filter(|value| *value > 0.0).fold(most, f64::min);
        if most > WIDE * least { Self::log(least, most, from, to) } else { Self::linear(most, from, to) }
    }

    fn linear(most: f64, from: f64, to: f64) -> Self {
        let most = if most > 0.0 { most * 1.02 } else { 1.0 };
        Self { is_log: false, least: 0.0, most, from, to }
    }

    fn log(least: f64, most: f64, from: f64, to: f64) -> Self {
        let (least, most) = (least.max(1e-9), most.max(2e-9));
        Self { is_log: true, least: least / 1.15, most: most * 1.15, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = if self.is_log {
            (value.max(self.least) / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        self.from + part * (self.to - self.from)
    }

    /// Round values within the scale, three to six of them where there are as many.
    fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            let step = round_up(self.most / 5.0);
            return (0..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= self.most).collect();
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

/// The next of 1, 2, 5, 10, 20, and so on.
fn round_up(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|part| part * unit).find(|round| *round >= value).unwrap_or(10.0 * unit)
}

/// Bytes in one; scales have round values in decimal.
pub(super) const MIB: f64 = 1_048_576.0;

/// A value as the page writes it; MiB have a unit of their own.
pub(super) fn text(value: f64, unit: &str) -> String {
    if unit == "MiB" { format!("{} MiB", digits(value)) } else { pretty(&figure(value, unit)) }
}

/// What the command writes in ASCII, as the page writes it.
pub(super) fn pretty(ascii: &str) -> String {
    let is_number = |text: &str| text.parse::<f64>().is_ok();
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

/// A value at an axis: without zeros that say nothing.
fn tick_text(value: f64, unit: &str) -> String {
    let text = text(value, unit);
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    if number == "0" { "0".to_owned() } else { format!("{number}{rest}") }
}

/// A place, without digits that nobody sees.
fn at(place: f64) -> String {
    format!("{place:.1}")
}

/// A plot with its title; `body` is drawn on `height` units.
fn plot(title: &str, height: f64, body: &Markup) -> Markup {
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) { (body) }
        }
    }
}

/// The grid and the labels of a horizontal scale, from `top` to `bottom`.
fn horizontal(scale: &Scale, unit: &str, top: f64, bottom: f64) -> Markup {
    html! {
        @for tick in scale.ticks() {
            @let x = scale.place(tick);
            line .grid x1=(at(x)) x2=(at(x)) y1=(at(top)) y2=(at(bottom)) {}
            text .tick x=(at(x)) y=(at(bottom + 14.0)) text-anchor="middle" { (tick_text(tick, unit)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_logarithmic_if_values_lie_far_apart() {
        let near = Scale::of([1.0, 3.0].into_iter(), 0.0, 100.0);
        assert!(!near.is_log && near.place(0.0) == 0.0 && near.place(3.0) < 100.0);
        let far = Scale::of([0.0, 1.0, 1e4].into_iter(), 0.0, 100.0);
        assert!(far.is_log && far.place(1.0) > 0.0 && far.place(1e4) < 100.0);
        assert_eq!(far.place(0.0), 0.0);
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Scale::linear(7.8, 0.0, 1.0).ticks(), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(Scale::log(3.0, 5e6, 0.0, 1.0).ticks(), [1e2, 1e4, 1e6]);
        for (least, most) in [(1.0, 20.0), (0.5, 2.0), (1e-3, 1e9), (7.0, 120.0)] {
            let ticks = Scale::log(least, most, 0.0, 1.0).ticks().len();
            assert!((2..=8).contains(&ticks), "{ticks} ticks from {least} to {most}");
        }
    }

    #[test]
    fn figures_are_set_in_type() {
        assert_eq!(
            ["1.50 us", "0.54x", "0.29..1.80", "a..b", "2 max"].map(pretty),
            ["1.50 µs", "0.54×", "0.29 – 1.80", "a..b", "2 max"]
        );
        assert_eq!(
            [(1e3, "ns"), (0.0, "ns"), (2e6, "ns"), (0.5, "ratio"), (1e3, "1/s")]
                .map(|(v, u)| tick_text(v, u)),
            ["1 µs", "0", "2 ms", "0.5×", "1000"]
        );
    }
}
