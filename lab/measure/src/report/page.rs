//! The page: one file without scripts, and nothing to load.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{self, Curve, Dot, pretty};
use super::contents::{BEHIND, HOW_TO_READ, Mark, Plot, SECTIONS, Section, Topic};
use super::document::{Document, fill};
use super::part::PARTS;
use super::{frontier, lines};
use harness::report::{Grid, OURS, Series};
use harness::stats::{Ratio, Row, Summary};
use harness::{Better, Report};

const STYLE: &str = concat!(include_str!("plot.css"), include_str!("page.css"));

/// Returns the whole page.
pub(super) fn render(document: &Document) -> String {
    let is_measured = |topic: &Topic| document.result(topic.0).is_some();
    let shown: Vec<&Section> = SECTIONS.iter().filter(|section| section.3.iter().any(is_measured)).collect();
    let missing: Vec<&str> =
        PARTS.iter().map(|part| part.name).filter(|name| document.result(name).is_none()).collect();
    let highlights: Vec<_> = lines::highlights(document).into_iter().map(|line| line.cells).collect();
    let behind = lines::behind(document);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "stillpoint on " (document.fact("cpu")) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "stillpoint on this machine" }
                    p .quiet { (document.headline()) }
                    nav {
                        @if !document.machine.is_empty() { a href="#machine" { "This machine" } }
                        @for Section(id, title, ..) in &shown { a href=(format!("#{id}")) { (title) } }
                    }
                }
                main {
                    @if !highlights.is_empty() {
                        section id="glance" {
                            h2 { "At a glance" }
                            p { (HOW_TO_READ) }
                            @let heads = ["", "stillpoint", "best peer", "theirs", "ours / theirs", "min – max"];
                            (table(heads, ["", "n us", "", "n", "n", "n"], &highlights))
                        }
                    }
                    @if !behind.is_empty() {
                        section id="behind" {
                            h2 { "Where a peer is ahead" }
                            p { (BEHIND) }
                            @let heads = ["", "cells", "by most", "peer", "ours / theirs", "min – max"];
                            (table(heads, ["", "n", "", "", "n", "n"], &behind))
                        }
                    }
                    @if !document.machine.is_empty() {
                        section id="machine" { h2 { "This machine" } (machine(document)) }
                    }
                    @for Section(id, title, text, topics) in shown {
                        section id=(id) {
                            h2 { (title) }
                            @if !text.is_empty() { p { (text) } }
                            @for topic in *topics {
                                @if let Some(result) = document.result(topic.0) { (self::topic(topic, result)) }
                            }
                        }
                    }
                    @if !missing.is_empty() {
                        p .quiet { "Not measured yet: " code { "stillpoint report --only " (missing.join(",")) } }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// Returns a page of plots.
pub fn of_plots(title: &str, plots: &[Markup]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } div .plots { @for plot in plots { (plot) } } } }
        }
    };
    page.into_string()
}

/// A table that becomes a list of paragraphs on narrow screens; each column has a name and classes. The last one of six
/// can hold verdicts, which have their own.
fn table(heads: [&str; 6], classes: [&str; 6], rows: &[[String; 6]]) -> Markup {
    let class = |class: &str, cell: &str| match cell.split([' ', ',']).next() {
        Some(verdict @ ("holds" | "weaker")) => verdict.to_owned(),
        Some("not") => if cell.contains("seen") { "unseen" } else { "quiet" }.to_owned(),
        _ => class.to_owned(),
    };
    html! {
        div .wide.stack { table {
            thead { tr { @for (name, class) in heads.iter().zip(classes) {
                th class=(class.trim_end_matches(" us")) { (name) }
            } } }
            tbody { @for row in rows {
                tr { @for ((name, usual), cell) in heads.iter().zip(classes).zip(row) {
                    td class=(class(usual, cell)) data-name=(name) { (pretty(cell)) }
                } }
            } }
        } }
    }
}

/// What `probe` prints.
fn machine(document: &Document) -> Markup {
    html! {
        div .wide { table .facts { tbody {
            @for (name, value) in &document.machine {
                tr .detail[name.starts_with(' ')] { th { (name.trim()) } td { (value) } }
            }
        } } }
    }
}

/// Text, claims of a post, plots, the figures behind a fold, and the command.
fn topic(Topic(bench, heading, text, plots): &Topic, result: &Report) -> Markup {
    let claims = lines::post_claims(result);
    let plots: Vec<Markup> = plots.iter().flat_map(|plot| draw(plot, result)).collect();
    let seconds = result.seconds.unwrap_or(1.0).max(1.0);
    html! {
        @if !heading.is_empty() { h3 id=(bench) { (heading) } }
        @if !text.is_empty() { p { (text) } }
        @if let Some(posted) = &result.posted {
            p .quiet { (posted.source) ". Expected: " (posted.expected) "." }
            @if claims.is_empty() { @for table in &result.tables { (grid(table)) } }
        }
        @if !claims.is_empty() {
            @let heads = ["", "posted", "ours", "ratio", "min – max", "shape"];
            (table(heads, ["", "n", "n", "n us", "n", ""], &claims))
        }
        @if !plots.is_empty() { div .plots { @for plot in &plots { (plot) } } }
        details {
            summary { "All figures of " (bench) }
            @for table in &result.tables { (grid(table)) }
            @for skipped in &result.skipped {
                p .quiet { "Not measured: " (skipped.system) ", " (skipped.why) "." }
            }
        }
        p .command { code { "stillpoint report --only " (bench) } " measured it for " (format!("{seconds:.0}")) " s." }
    }
}

fn grid(table: &Grid) -> Markup {
    let is_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit());
    let numbers = |column: usize| table.rows.iter().filter_map(|row| row.get(column)).any(is_number);
    let columns: Vec<bool> = (0..table.head.len()).map(numbers).collect();
    html! {
        @if !table.title.is_empty() { h3 { (table.title) } }
        div .wide.raw { table {
            thead { tr { @for (head, number) in table.head.iter().zip(&columns) { th .n[*number] { (head) } } } }
            tbody { @for row in &table.rows {
                tr { @for (cell, number) in row.iter().zip(&columns) { td .n[*number] { (pretty(cell)) } } }
            } }
        } }
    }
}

/// Draws a plot of what was measured, or several.
fn draw(Plot(mark, template, metric, wanted): &Plot, result: &Report) -> Vec<Markup> {
    let one = |wanted: String| {
        let rows = result.select(metric, &wanted);
        let first = *rows.first()?;
        let title = fill(template, first);
        let (unit, scale) =
            if first.unit == "bytes" { ("MiB", 1.0 / f64::from(1 << 20)) } else { (&*first.unit, 1.0) };
        let of_series = |over: &str| -> Option<Vec<Curve>> {
            let same = |series: &&Series| series.over == over && series.config == first.config;
            let curve = |series: &Series| {
                let (label, points) = (series.system.to_string(), series.points.clone());
                Curve { is_ours: label == OURS, label, points }
            };
            let mut curves: Vec<Curve> = result.series.iter().filter(same).map(curve).collect();
            curves.sort_by_key(|curve| !curve.is_ours);
            (!curves.is_empty()).then_some(curves)
        };
        Some(match *mark {
            Mark::Dots => {
                let dot = |row: &&Row| {
                    let Summary { median, min, max } = row.summary;
                    let summary = Summary { median: median * scale, min: min * scale, max: max * scale };
                    Dot { label: row.system.to_string(), is_ours: row.system == OURS, summary }
                };
                chart::dots(&title, unit, &sorted(rows.iter().map(dot), first.better), None)
            }
            Mark::Ratios => {
                let same =
                    result.ratios.iter().filter(|r| r.metric == first.metric && r.config == first.config);
                let dot = |ratio: &Ratio| {
                    // Emphasized where all rounds agree.
                    let is_clear = ratio.summary.min > 1.0 || ratio.summary.max < 1.0;
                    Dot { label: ratio.to.to_string(), is_ours: is_clear, summary: ratio.summary }
                };
                chart::dots(&title, "ratio", &sorted(same.map(dot), first.better), Some(1.0))
            }
            Mark::Lines { over, axis, doubles } => {
                chart::curves(&title, unit, (axis, doubles), &curves(&rows, over))
            }
            Mark::Histograms => chart::histograms(&title, &of_series("latency_below_ns")?),
            Mark::Courses => chart::courses(&title, &of_series("time_ms")?),
            Mark::Frontier(throughput) => {
                frontier::draw_ratios(template, &rows, &result.select(throughput, &wanted))
            }
        })
    };
    result.expand(metric, wanted).into_iter().filter_map(one).collect()
}

/// Returns dots, the best first.
fn sorted(dots: impl Iterator<Item = Dot>, better: Better) -> Vec<Dot> {
    let mut dots: Vec<Dot> = dots.collect();
    dots.sort_by(|a, b| a.summary.median.total_cmp(&b.summary.median));
    if better == Better::Higher {
        dots.reverse();
    }
    dots
}

/// Returns a curve for each system; for each backend of ours, where there are several.
fn curves(rows: &[&Row], over: &str) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let Some(place) = row.config.number(over) else { continue };
        let ours = row.system == OURS;
        let backend = row.config.text("backend").filter(|_| ours);
        let is_ours = ours && backend.as_ref().is_none_or(|backend| backend == "membarrier");
        let label = backend.unwrap_or_else(|| row.system.to_string());
        let point = (place, row.summary.median);
        match curves.iter_mut().find(|curve| curve.label == label) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { label, is_ours, points: vec![point] }),
        }
    }
    curves
}
