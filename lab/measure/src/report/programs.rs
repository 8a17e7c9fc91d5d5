//! The programs of `bench programs`: the ratio of each to the best of the other libraries, in a plot and in a table.

use super::document::Document;
use super::figures::texts;
use super::plot::{Curve, Plot};
use crate::peers::guarantees;
use harness::report::{OURS, times};
use harness::stats::{Better, Row, Summary};

const THREADS: [&str; 3] = ["2", "8", "64"];
const METRICS: [(&str, &str); 3] =
    [("mops", "operations"), ("step_p999", "99.9 % of steps"), ("longest_step", "longest step")];

/// Returns the ratio of each program with so many threads, on all CPUs or on one; and its name, and that of the best.
fn ratios(document: &Document, metric: &str, threads: &str, profile: &str) -> Vec<(String, String, Summary)> {
    let Some(result) = document.result("programs").filter(|result| result.lacks_cpus().is_none()) else {
        return Vec::new();
    };
    let ratio = |row: &&Row| {
        let best = *guarantees::peers(result, row).0.first()?;
        Some((row.config.text("program")?, best.system.to_string(), best.ratio?))
    };
    let rows = result.select(metric, &format!("profile={profile}, threads={threads}"));
    rows.iter().filter(|row| row.system == OURS).filter_map(ratio).collect()
}

/// Returns a dot for each program, number of threads and profile.
pub(super) fn plot(document: &Document) -> Plot {
    let mut rows: Vec<String> = Vec::new();
    let mut curves = Vec::new();
    for (profile, words) in [("all", ""), ("one", ", one CPU")] {
        for threads in THREADS {
            let mut points = Vec::new();
            for (program, _, ratio) in ratios(document, "mops", threads, profile) {
                let place = rows.iter().position(|row| *row == program).unwrap_or_else(|| {
                    rows.push(program);
                    rows.len() - 1
                });
                points.push((place as f64, (ratio.median * 100.0).round() / 100.0));
            }
            if !points.is_empty() {
                curves.push(Curve { system: format!("{threads} threads{words}"), points });
            }
        }
    }
    let axes = ["all CPUs", "one CPU"].map(str::to_owned);
    Plot { name: "programs".to_owned(), axes, rows, curves }
}

/// Returns, for each metric, number of threads and profile: the geometric mean of the ratios, in how many programs
/// ours is the best, and the program in which it is furthest behind, with that ratio and its extremes.
pub(super) fn table(document: &Document) -> Vec<[String; 7]> {
    let mut lines = Vec::new();
    for (metric, name) in METRICS {
        let better = if metric == "mops" { Better::Higher } else { Better::Lower };
        // Above 1 where the other library is ahead.
        let behind =
            |ratio: &Summary| if better == Better::Lower { ratio.median } else { 1.0 / ratio.median };
        for (profile, words) in [("all", ""), ("one", ", one CPU")] {
            for threads in THREADS {
                let ratios = ratios(document, metric, threads, profile);
                let worst = ratios.iter().max_by(|a, b| behind(&a.2).total_cmp(&behind(&b.2)));
                let Some((program, peer, ratio)) = worst else { continue };
                let logarithms: f64 = ratios.iter().map(|(.., ratio)| ratio.median.ln()).sum();
                let ahead = ratios.iter().filter(|(.., ratio)| behind(ratio) <= 1.0).count();
                let [median, range] = texts(Some(*ratio));
                lines.push([
                    format!("{name}, {threads} threads{words}"),
                    times((logarithms / ratios.len() as f64).exp()),
                    format!("{ahead} of {}", ratios.len()),
                    program.clone(),
                    peer.clone(),
                    median,
                    range,
                ]);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::stats::{Config, Metric};
    use harness::{Profile, Recorder, Report};

    #[test]
    fn profiles_of_programs_have_rows_and_dots_of_their_own() {
        const RATE: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
        let mut recorder = Recorder::new("programs");
        for (program, ours, profile) in
            [("bank", 4.0, Profile::All), ("bank", 1.0, Profile::One), ("pool", 1.0, Profile::All)]
        {
            let config = [("program", program.into()), ("threads", 8.into())];
            let config = Config::new(config).on(profile);
            for (system, value) in [(OURS, ours), ("std", 1.0), ("parking_lot-0.12", 2.0)] {
                recorder.record(0, system, &RATE, &config, value);
            }
        }
        let document = Document { results: vec![Report::new(&recorder, Vec::new())], ..Document::default() };
        let lines = table(&document);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0][..4], ["operations, 8 threads", "1.00x", "1 of 2", "pool"]);
        assert_eq!(lines[1][..3], ["operations, 8 threads, one CPU", "0.50x", "0 of 1"]);
        let plot = plot(&document);
        assert_eq!(plot.rows, ["bank", "pool"]);
        let curves: Vec<_> = plot.curves.iter().map(|curve| (&*curve.system, &*curve.points)).collect();
        let expected = [("8 threads", &[(0.0, 2.0), (1.0, 0.5)][..]), ("8 threads, one CPU", &[(0.0, 0.5)])];
        assert_eq!(curves, expected);
    }
}
