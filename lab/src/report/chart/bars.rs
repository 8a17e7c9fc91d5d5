//! Latencies in power-of-two buckets: a histogram for each system, one above the other on one scale.

use maud::{Markup, html};

use super::{WIDTH, at, plot};

const HEIGHT: f64 = 58.0;
const GAP: f64 = 27.0;
const EDGE: f64 = 22.0;

/// Counts of a system, with the upper bound of each bucket.
#[derive(Clone, Debug)]
pub(in crate::report) struct Histogram<'a> {
    pub(in crate::report) label: &'a str,
    pub(in crate::report) is_ours: bool,
    pub(in crate::report) points: &'a [(f64, f64)],
}

impl Histogram<'_> {
    fn total(&self) -> f64 {
        self.points.iter().map(|point| point.1).sum::<f64>().max(1.0)
    }

    /// The number of the bucket that half of the latencies do not go beyond.
    fn median(&self) -> usize {
        let mut left = self.total() / 2.0;
        let mut reached = |point: &(f64, f64)| {
            left -= point.1;
            left <= 0.0
        };
        self.points.iter().position(&mut reached).unwrap_or(0)
    }
}

/// Draws the share of each bucket.
pub(in crate::report) fn draw(title: &str, histograms: &[Histogram<'_>]) -> Markup {
    let buckets = histograms.iter().map(|histogram| histogram.points.len()).max().unwrap_or(0);
    let used = |bucket: &usize| {
        histograms.iter().any(|one| one.points.get(*bucket).is_some_and(|point| point.1 > 0.0))
    };
    let (first, last) = ((0..buckets).find(used).unwrap_or(0), (0..buckets).rfind(used).unwrap_or(0));
    let shares =
        |one: &Histogram<'_>| one.points.iter().map(|point| point.1).fold(0.0, f64::max) / one.total();
    let most = histograms.iter().map(shares).fold(0.01, f64::max);
    let width = (WIDTH - 2.0 * EDGE) / (last - first + 1) as f64;
    let left = |bucket: usize| EDGE + (bucket - first) as f64 * width;
    let bottom = histograms.len() as f64 * (HEIGHT + GAP);
    // As many labels as have room.
    let every = (42.0 / width).ceil() as usize;
    let body = html! {
        @for (place, one) in histograms.iter().enumerate() {
            @let base = (place + 1) as f64 * (HEIGHT + GAP);
            g .ours[one.is_ours] .theirs[!one.is_ours] {
                text x=(at(EDGE)) y=(at(base - HEIGHT - 6.0)) {
                    (one.label) tspan .note { ": half below " (edge(one.median() + 1)) }
                }
                @for bucket in first..=last {
                    @if let Some(&(_, count)) = one.points.get(bucket).filter(|point| point.1 > 0.0) {
                        // What happened at all is seen.
                        @let height = (count / one.total() / most * HEIGHT).max(1.5);
                        rect x=(at(left(bucket) + 1.0)) width=(at(width - 2.0)) y=(at(base - height)) height=(at(height)) {
                            title { (format!("{}: {count} of {}", one.label, one.total())) }
                        }
                    }
                }
            }
            line .axis x1=(at(EDGE)) x2=(at(WIDTH - EDGE)) y1=(at(base)) y2=(at(base)) {}
        }
        @for bucket in (first..=last + 1).filter(|bucket| (bucket - first) % every == 0) {
            @let x = at(left(bucket));
            line .axis x1=(x) x2=(x) y1=(at(bottom)) y2=(at(bottom + 4.0)) {}
            text .tick x=(x) y=(at(bottom + 16.0)) text-anchor="middle" { (edge(bucket)) }
        }
    };
    plot(title, bottom + 22.0, &body)
}

/// The lower bound of a bucket, in powers of two as people say them: 1 us for 1024 ns.
fn edge(bucket: usize) -> String {
    let power = bucket.saturating_sub(1);
    let unit = ["ns", "µs", "ms", "s"][(power / 10).min(3)];
    format!("{} {unit}", 1_u64 << (power % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_bucket_that_holds_it() {
        let of = |points| Histogram { label: "", is_ours: true, points }.median();
        assert_eq!(of(&[(1.0, 2.0), (2.0, 3.0), (4.0, 1.0)]), 1);
        assert_eq!(of(&[(1.0, 0.0), (2.0, 5.0)]), 1);
    }

    #[test]
    fn bounds_are_said_in_powers_of_two() {
        assert_eq!([1, 10, 11, 15, 21, 31].map(edge), ["1 ns", "512 ns", "1 µs", "16 µs", "1 ms", "1 s"]);
    }
}
