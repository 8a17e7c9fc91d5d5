//! Labels of dots that lie close together.
//!
//! A label stands beside its dot where there is room, and otherwise nearby, with a line to it. A place costs as much as
//! it is away, and more if it covers something. Each dot in turn gets the place that costs least. As the order matters,
//! this is attempted from each dot on, and the attempt that costs least is taken.

use std::f64::consts::TAU;

/// A place, from the left and from above.
pub(super) type Place = (f64, f64);

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) from: Place,
    pub(super) to: Place,
}

impl Area {
    fn around((x, y): Place, half: f64) -> Self {
        Self { from: (x - half, y - half), to: (x + half, y + half) }
    }

    /// Returns the least rectangle with both places.
    fn of(a: Place, b: Place) -> Self {
        Self { from: (a.0.min(b.0), a.1.min(b.1)), to: (a.0.max(b.0), a.1.max(b.1)) }
    }

    fn meets(&self, other: &Self) -> bool {
        let Self { from, to } = other;
        from.0 < self.to.0 && self.from.0 < to.0 && from.1 < self.to.1 && self.from.1 < to.1
    }

    fn contains(&self, other: &Self) -> bool {
        let Self { from, to } = other;
        from.0 >= self.from.0 && from.1 >= self.from.1 && to.0 <= self.to.0 && to.1 <= self.to.1
    }

    fn hits(&self, all: &[Self]) -> f64 {
        all.iter().filter(|other| other.meets(self)).count() as f64
    }
}

/// The label of a dot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    area: Area,
    /// The side at the dot: `start`, `middle` or `end`.
    pub(super) anchor: &'static str,
    /// The line from the dot to its label, if the label is not beside the dot.
    pub(super) lead: Option<(Place, Place)>,
}

impl Label {
    /// Returns the place of the text.
    pub(super) fn place(&self) -> Place {
        let Area { from, to } = self.area;
        let x = match self.anchor {
            "start" => from.0,
            "end" => to.0,
            _ => (from.0 + to.0) / 2.0,
        };
        (x, to.1 - 2.5)
    }

    /// Returns the parts of the line to the label, without that at the dot.
    fn parts(&self) -> impl Iterator<Item = Area> {
        self.lead.into_iter().flat_map(|(from, to)| {
            let count = ((to.0 - from.0).hypot(to.1 - from.1) / 6.0) as u32;
            (1..=count).map(move |part| {
                let part = f64::from(part) / f64::from(count);
                Area::around((from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1)), 2.0)
            })
        })
    }
}

/// Returns labels in all directions from a dot, the nearest first, and their distances.
fn candidates(dot: Place, width: f64) -> impl Iterator<Item = (f64, Label)> {
    const DIRECTIONS: u32 = 16;
    const HALF_HEIGHT: f64 = 6.5;
    (0..40 * DIRECTIONS).map(move |place| {
        let (ring, direction) = (place / DIRECTIONS, place % DIRECTIONS);
        let (sin, cos) = (f64::from(direction) / f64::from(DIRECTIONS) * TAU).sin_cos();
        let distance = 7.0 + 7.0 * f64::from(ring);
        let end = (dot.0 + distance * cos, dot.1 + distance * sin);
        let (anchor, left) = match cos {
            0.3.. => ("start", end.0),
            -0.3..0.3 => ("middle", end.0 - width / 2.0),
            _ => ("end", end.0 - width),
        };
        let middle = end.1 + HALF_HEIGHT * sin;
        let area = Area { from: (left, middle - HALF_HEIGHT), to: (left + width, middle + HALF_HEIGHT) };
        (distance, Label { area, anchor, lead: (ring > 0).then_some((dot, end)) })
    })
}

/// Dots that get labels.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) dots: &'a [Place],
    /// The width of each label.
    pub(super) widths: &'a [f64],
    /// A line of horizontal and vertical parts, which labels avoid.
    pub(super) line: &'a [Place],
    /// Where labels can be.
    pub(super) frame: Area,
}

impl Layout<'_> {
    /// Places a label near each dot. If there is room, none covers another one or a dot.
    pub(super) fn labels(&self) -> Vec<Label> {
        let attempts = (0..self.dots.len()).map(|first| self.attempt(first));
        let best = attempts.min_by(|a, b| {
            let [a, b] = [a, b].map(|labels| labels.iter().map(|label| label.0).sum::<f64>());
            a.total_cmp(&b)
        });
        best.unwrap_or_default().into_iter().map(|(_, label)| label).collect()
    }

    /// Places the labels in turn, from the dot `first` on; then again, beside the labels of all others. Returns them with
    /// their costs.
    fn attempt(&self, first: usize) -> Vec<(f64, Label)> {
        const PASSES: usize = 3;
        let count = self.dots.len();
        let mut labels: Vec<Option<(f64, Label)>> = vec![None; count];
        for step in first..first + PASSES * count {
            labels[step % count] = None;
            let others: Vec<Label> = labels.iter().flatten().map(|other| other.1).collect();
            labels[step % count] = self.cheapest(step % count, &others);
        }
        labels.into_iter().flatten().collect()
    }

    /// Returns the label of a dot that costs least beside the labels of `others`, and its cost.
    fn cheapest(&self, index: usize, others: &[Label]) -> Option<(f64, Label)> {
        let dot = self.dots[index];
        let dots = self.dots.iter().filter(|other| **other != dot).map(|other| Area::around(*other, 5.0));
        let filled: Vec<Area> = dots.chain(others.iter().map(|other| other.area)).collect();
        let line = self.line.windows(2).map(|ends| Area::of(ends[0], ends[1]));
        let lines: Vec<Area> = line.chain(others.iter().flat_map(Label::parts)).collect();

        let mut best: Option<(f64, Label)> = None;
        for (distance, label) in candidates(dot, self.widths[index]) {
            let least = best.map_or(f64::INFINITY, |best| best.0);
            if distance >= least {
                break;
            }
            let outside = if self.frame.contains(&label.area) { 0.0 } else { 1e6 };
            let covered = 1000.0 * label.area.hits(&filled) + 5.0 * label.area.hits(&lines);
            let mut cost = distance + outside + covered;
            if cost < least {
                cost += label
                    .parts()
                    .map(|part| 20.0 * part.hits(&filled) + 2.0 * part.hits(&lines))
                    .sum::<f64>();
            }
            if cost < least {
                best = Some((cost, label));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_crowded_dots_do_not_meet() {
        let frame = Area { from: (44.0, 22.0), to: (436.0, 312.0) };
        let dots: Vec<Place> = (0..18).map(|n| (200.0 + f64::from(n % 5), 80.0 + f64::from(n % 7))).collect();
        let labels = Layout { dots: &dots, widths: &[120.0; 18], line: &[], frame }.labels();
        assert_eq!(labels.len(), 18);
        for (index, label) in labels.iter().enumerate() {
            assert!(frame.contains(&label.area), "{label:?}");
            assert!(!labels[index + 1..].iter().any(|other| other.area.meets(&label.area)), "{label:?}");
        }
    }

    #[test]
    fn label_of_a_single_dot_is_beside_it_within_the_frame() {
        let frame = Area { from: (0.0, 0.0), to: (200.0, 100.0) };
        for (dot, anchor) in [((50.0, 50.0), "start"), ((180.0, 50.0), "end")] {
            let labels = Layout { dots: &[dot], widths: &[60.0], line: &[], frame }.labels();
            assert!(
                matches!(labels[..], [Label { anchor: side, lead: None, .. }] if side == anchor),
                "{labels:?}"
            );
        }
    }
}
