//! Where the names of points are written: beside each point, in the first of a few places where the text covers least.

/// Width of a character, and the height of a text above and below its base line.
const CHARACTER: f64 = 6.8;
const ASCENT: f64 = 10.0;
const DESCENT: f64 = 3.0;
/// Radius of a point, with room around it.
const RADIUS: f64 = 5.0;

/// The base line of a text: where it begins (`start`), ends (`end`) or has its middle (`middle`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Label {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) anchor: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct Rectangle {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Rectangle {
    fn overlaps(self, other: Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// Returns the places of the names of `points`, in their order. The lines of `path` are horizontal or vertical. Texts
/// stay between `left` and `right`.
pub(super) fn place(points: &[(f64, f64, &str)], path: &[(f64, f64)], left: f64, right: f64) -> Vec<Label> {
    let dots = points.iter().map(|&(x, y, _)| around(x, y, x, y, RADIUS));
    let lines = path.windows(2).map(|ends| {
        let [(a, b), (c, d)] = [ends[0], ends[1]];
        around(a.min(c), b.min(d), a.max(c), b.max(d), 1.0)
    });
    let mut taken: Vec<Rectangle> = dots.chain(lines).collect();
    let mut labels = Vec::new();
    for &(x, y, name) in points {
        let cost = |label: &Label| {
            let text = covered(*label, name);
            let outside = usize::from(text.left < left || text.right > right) * 100;
            outside + taken.iter().filter(|other| text.overlaps(**other)).count()
        };
        let best = candidates(x, y).into_iter().min_by_key(cost).expect("there are candidates");
        taken.push(covered(best, name));
        labels.push(best);
    }
    labels
}

/// The places beside a point, the best first.
fn candidates(x: f64, y: f64) -> [Label; 8] {
    [
        Label { x: x + 7.0, y: y + 4.0, anchor: "start" },
        Label { x: x - 7.0, y: y + 4.0, anchor: "end" },
        Label { x: x + 5.0, y: y - 6.0, anchor: "start" },
        Label { x: x - 5.0, y: y - 6.0, anchor: "end" },
        Label { x: x + 5.0, y: y + 16.0, anchor: "start" },
        Label { x: x - 5.0, y: y + 16.0, anchor: "end" },
        Label { x, y: y - 8.0, anchor: "middle" },
        Label { x, y: y + 18.0, anchor: "middle" },
    ]
}

fn around(left: f64, top: f64, right: f64, bottom: f64, by: f64) -> Rectangle {
    Rectangle { left: left - by, top: top - by, right: right + by, bottom: bottom + by }
}

fn covered(label: Label, name: &str) -> Rectangle {
    let width = CHARACTER * name.chars().count() as f64;
    let left = match label.anchor {
        "start" => label.x,
        "end" => label.x - width,
        _ => label.x - width / 2.0,
    };
    Rectangle { left, top: label.y - ASCENT, right: left + width, bottom: label.y + DESCENT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_avoid_points_lines_names_and_edges() {
        let points = [(100.0, 50.0, "first"), (120.0, 50.0, "second"), (390.0, 50.0, "at the edge")];
        let line = [(0.0, 40.0), (400.0, 40.0)];
        let labels = place(&points, &line, 0.0, 400.0);
        let texts: Vec<Rectangle> =
            labels.iter().zip(&points).map(|(label, point)| covered(*label, point.2)).collect();
        assert_eq!(labels.iter().map(|label| label.anchor).collect::<Vec<_>>(), ["end", "start", "end"]);
        for (index, text) in texts.iter().enumerate() {
            assert!(text.left >= 0.0 && text.right <= 400.0 && text.top > 40.0, "{text:?}");
            assert!(texts[..index].iter().all(|other| !text.overlaps(*other)), "{texts:?}");
        }
    }
}
