//! Courses over time, one above the other on one scale: how much there was, and when it was gone.

use maud::{Markup, html};

use super::{Scale, WIDTH, at, plot, text, tick_text};

const HEIGHT: f64 = 44.0;
const GAP: f64 = 25.0;
const LEFT: f64 = 6.0;

/// The course of a system, in the order of time.
#[derive(Clone, Debug)]
pub(in crate::report) struct Area<'a> {
    pub(in crate::report) label: &'a str,
    pub(in crate::report) is_ours: bool,
    pub(in crate::report) points: Vec<(f64, f64)>,
}

impl Area<'_> {
    fn most(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }
}

/// Draws the courses of something in `unit` over a time in `time_unit`.
pub(in crate::report) fn draw(title: &str, unit: &str, time_unit: &str, areas: &[Area<'_>]) -> Markup {
    let most = areas.iter().map(Area::most).fold(0.0, f64::max);
    let end = areas.iter().flat_map(|area| area.points.last()).map(|point| point.0).fold(1.0, f64::max);
    let x = Scale { is_log: false, least: 0.0, most: end, from: LEFT, to: WIDTH - LEFT };
    let bottom = areas.len() as f64 * (HEIGHT + GAP);
    let body = html! {
        @for (place, area) in areas.iter().enumerate() {
            @let base = (place + 1) as f64 * (HEIGHT + GAP);
            @let y = Scale::linear(most, base, base - HEIGHT);
            g .ours[area.is_ours] .theirs[!area.is_ours] {
                text x=(at(LEFT)) y=(at(base - HEIGHT - 6.0)) {
                    (area.label) tspan .note { ": at most " (text(area.most(), unit)) }
                }
                polygon points=(outline(area, &x, &y, base)) {}
            }
            line .axis x1=(at(LEFT)) x2=(at(WIDTH - LEFT)) y1=(at(base)) y2=(at(base)) {}
        }
        @for tick in x.ticks() {
            @let label = tick_text(tick, "");
            @let place = at(x.place(tick).max(LEFT + 4.0));
            text .tick x=(place) y=(at(bottom + 15.0)) text-anchor="middle" {
                @if tick == 0.0 { "0" } @else { (label) " " (time_unit) }
            }
        }
    };
    plot(title, bottom + 20.0, &body)
}

fn outline(area: &Area<'_>, x: &Scale, y: &Scale, base: f64) -> String {
    let point = |&(time, value): &(f64, f64)| format!("{},{}", at(x.place(time)), at(y.place(value)));
    let corner =
        |at_end: Option<&(f64, f64)>| at_end.map(|end| format!("{},{}", at(x.place(end.0)), at(base)));
    let course = area.points.iter().map(point);
    let points = corner(area.points.first()).into_iter().chain(course).chain(corner(area.points.last()));
    points.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_closed_along_its_base() {
        let points = vec![(0.0, 0.0), (5.0, 2.0), (10.0, 1.0)];
        let area = Area { label: "", is_ours: true, points };
        let x = Scale { is_log: false, least: 0.0, most: 10.0, from: 0.0, to: 100.0 };
        let y = Scale { is_log: false, least: 0.0, most: 2.0, from: 40.0, to: 0.0 };
        assert_eq!(outline(&area, &x, &y, 40.0), "0.0,40.0 0.0,40.0 50.0,0.0 100.0,20.0 100.0,40.0");
    }
}
