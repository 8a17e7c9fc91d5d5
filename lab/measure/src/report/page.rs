//! The page: one file without scripts, and nothing to load.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::contents::{BEHIND, HOW_TO_READ, Mark, Plot, SECTIONS, Section};
use super::document::{Document, fill};
use super::part::PARTS;
use super::plot::{self, Axis, Curve, Dot, MIB};
use super::{figures, posts};
use crate::bench::lock::ablation::PEERS;
use harness::report::{Grid, OURS};
use harness::stats::{Row, Summary};
use harness::{Better, Report};

/// Returns the whole page.
pub(super) fn render(document: &Document) -> String {
    let shown = || SECTIONS.iter().filter_map(|section| Some((section, document.result(section.0)?)));
    let missing: Vec<&str> =
        PARTS.iter().map(|part| part.name).filter(|name| document.result(name).is_none()).collect();
    let glance = figures::all().iter().map(|figure| figure.line(document).cells.to_vec()).collect();
    let behind: Vec<_> = figures::behind(document).into_iter().map(Vec::from).collect();
    let facts = document.machine.iter().map(|(name, value)| vec![name.trim().to_owned(), value.clone()]);
    whole(
        "stillpoint on this machine",
        &html! {
            p .quiet { (document.headline()) }
            nav { @for (Section(part, title, ..), _) in shown() { a href=(format!("#{part}")) { (title) } " " } }
            h2 { "At a glance" }
            p { (HOW_TO_READ) }
            (grid(&Grid::new("", &["", "stillpoint", "best peer", "theirs", "ours / theirs", "min..max"], glance)))
            @if !behind.is_empty() {
                h2 { "Where a peer is ahead" }
                p { (BEHIND) }
                (grid(&Grid::new("", &["", "cells", "by most", "peer", "ours / theirs", "min..max"], behind)))
            }
            @if !document.machine.is_empty() {
                h2 { "This machine" }
                (grid(&Grid::new("", &["", ""], facts.collect())))
            }
            @for (section, result) in shown() { (self::section(section, result)) }
            @if !missing.is_empty() {
                p .quiet { "Not measured yet: " code { "stillpoint report --only " (missing.join(",")) } }
            }
        },
    )
}

/// Returns a page of plots.
pub fn of_plots(title: &str, plots: &[Markup]) -> String {
    whole(title, &html! { div .plots { @for plot in plots { (plot) } } })
}

fn whole(title: &str, body: &Markup) -> String {
    let style = concat!(include_str!("plot.css"), include_str!("page.css"));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body { h1 { (title) } (body) }
        }
    };
    page.into_string()
}

/// Text, claims of a post, plots, the figures behind a fold, and the command.
fn section(Section(part, title, text, plots): &Section, result: &Report) -> Markup {
    let claims: Vec<_> = posts::claims(result).into_iter().map(Vec::from).collect();
    let seconds = result.seconds.unwrap_or(1.0).max(1.0);
    html! {
        h2 id=(part) { (title) }
        @if !text.is_empty() { p { (text) } }
        @if let Some(posted) = &result.posted { p .quiet { (posted.source) ". Expected: " (posted.expected) "." } }
        @if !claims.is_empty() {
            (grid(&Grid::new("", &["", "posted", "ours", "ratio", "min..max", "shape"], claims)))
        }
        div .plots { @for plot in plots.iter().flat_map(|plot| draw(plot, result)) { (plot) } }
        details {
            summary { "All figures of " (part) }
            @for table in &result.tables { (grid(table)) }
            @for skipped in &result.skipped {
                p .quiet { "Not measured: " (skipped.system) ", " (skipped.why) "." }
            }
        }
        p .quiet {
            code { "stillpoint report --only " (part) } " measured it for " (format!("{seconds:.0}")) " s"
            @if let Some(cpus) = &result.cpus { "; " (cpus) } "."
        }
    }
}

fn grid(table: &Grid) -> Markup {
    let is_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit());
    let numbers = |column: usize| table.rows.iter().filter_map(|row| row.get(column)).any(is_number);
    let columns: Vec<bool> = (0..table.head.len()).map(numbers).collect();
    html! {
        @if !table.title.is_empty() { h3 { (table.title) } }
        div .wide { table {
            thead { tr { @for (head, number) in table.head.iter().zip(&columns) { th .n[*number] { (head) } } } }
            tbody { @for row in &table.rows {
                tr { @for (cell, number) in row.iter().zip(&columns) { td .n[*number] { (cell) } } }
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
        let of_series = |over: &str| {
            let same = result.series.iter().filter(|one| one.over == over && one.config == first.config);
            let mut curves: Vec<Curve> =
                same.map(|series| Curve::new(&series.system, series.points.clone())).collect();
            curves.sort_by_key(|curve| !curve.is_ours);
            (!curves.is_empty()).then_some(curves)
        };
        Some(match *mark {
            Mark::Dots => {
                // Round bytes are not round MiB.
                let (unit, by) = if first.unit == "bytes" { ("MiB", MIB) } else { (&*first.unit, 1.0) };
                let dot = |row: &&Row| {
                    let Summary { median, min, max } = row.summary;
                    let summary = Summary { median: median / by, min: min / by, max: max / by };
                    Dot::new(&row.system, row.system == OURS, summary)
                };
                plot::dots(&title, unit, &sorted(rows.iter().map(dot), first.better), None)
            }
            Mark::Ratios => {
                let same =
                    result.ratios.iter().filter(|r| r.metric == first.metric && r.config == first.config);
                // Emphasized where all rounds agree.
                let is_clear = |summary: Summary| summary.min > 1.0 || summary.max < 1.0;
                let dots = same.map(|ratio| Dot::new(&ratio.to, is_clear(ratio.summary), ratio.summary));
                plot::dots(&title, "ratio", &sorted(dots, first.better), Some(1.0))
            }
            Mark::Lines(over) => {
                plot::curves(&title, Axis(over, ""), Axis("", &first.unit), &curves(&rows, over))
            }
            Mark::Histograms => plot::histograms(&title, &of_series("latency_below_ns")?),
            Mark::Courses => plot::courses(&title, &of_series("time_ms")?),
            Mark::Frontier(throughput) => {
                let points = plot::points(&rows, &result.select(throughput, &wanted));
                let ours = points.iter().map(|point| &*point.system).filter(|system| !PEERS.contains(system));
                let axes = [
                    Axis("longest wait / that of std", "ratio"),
                    Axis("throughput / that of the best peer", "ratio"),
                ];
                plot::frontier(&title, axes, &points, &ours.collect::<Vec<_>>())
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
        let backend = row.config.text("backend").filter(|_| row.system == OURS);
        let label = match backend.as_deref() {
            None | Some("membarrier") => row.system.to_string(),
            Some(backend) => backend.to_owned(),
        };
        let point = (place, row.summary.median);
        match curves.iter_mut().find(|curve| curve.label == label) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve::new(&label, vec![point])),
        }
    }
    curves
}
