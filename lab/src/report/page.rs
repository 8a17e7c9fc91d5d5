//! The page: one file without scripts, and nothing to load.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::pretty;
use super::data::{Document, Outcome};
use super::highlights::{self, Highlight};
use super::part::Grid;
use super::sections;

const STYLE: &str = include_str!("style.css");

/// A section: its address within the page, its title, and what it says; nothing if none of it was measured.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) body: Option<Markup>,
}

/// The whole page.
pub(super) fn render(document: &Document) -> String {
    let sections = sections::all(document);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "stillpoint on " (cpu(document)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "stillpoint on this machine" }
                    p .quiet { (headline(document)) }
                    nav {
                        @for section in sections.iter().filter(|section| section.body.is_some()) {
                            a href=(format!("#{}", section.id)) { (section.title) }
                        }
                    }
                }
                main {
                    (glance(document))
                    @for section in sections {
                        @if let Some(body) = section.body {
                            section id=(section.id) { h2 { (section.title) } (body) }
                        }
                    }
                    (missing(document))
                }
            }
        }
    };
    page.into_string()
}

fn fact<'a>(document: &'a Document, name: &str) -> &'a str {
    document.machine.iter().find(|(fact, _)| fact == name).map_or("unknown", |(_, value)| value)
}

fn cpu(document: &Document) -> &str {
    fact(document, "cpu")
}

/// What the page is about, in a line.
pub(super) fn headline(document: &Document) -> String {
    let release = fact(document, "kernel").split(' ').next().unwrap_or_default();
    let cpus = fact(document, "cpus").split(' ').next().unwrap_or_default();
    let fence = fact(document, "fence").split(' ').next().unwrap_or_default();
    let fence = fence.trim_end_matches([':', ',', ';']);
    let seconds: f64 = document.results.iter().map(|result| result.seconds).sum();
    format!(
        "{}, {cpus} CPUs, Linux {release}, fences by {fence}; {:.0} s of measurements.",
        cpu(document),
        seconds
    )
}

/// What matters most, in a table.
fn glance(document: &Document) -> Markup {
    let highlights = highlights::all(document);
    html! {
        @if !highlights.is_empty() {
            section id="glance" {
                h2 { "At a glance" }
                p { (highlights::HOW_TO_READ) }
                div .wide.stack { table {
                    thead { tr {
                        th { "" } th .n { "stillpoint" } th { "beside" } th .n { "theirs" } th .n { "ours / theirs" } th .n { "min – max" }
                    } }
                    tbody { @for highlight in &highlights { (row(highlight)) } }
                } }
            }
        }
    }
}

fn row(highlight: &Highlight) -> Markup {
    let Highlight { what, ours, peer, theirs, ratio, range } = highlight;
    html! { tr {
        td { (what) }
        td .n.us data-name="stillpoint" { (pretty(ours)) }
        td data-name="beside" { (peer) }
        td .n data-name="theirs" { (pretty(theirs)) }
        td .n data-name="ours / theirs" { (pretty(ratio)) }
        td .n data-name="min – max" { (pretty(range)) }
    } }
}

/// What `probe` says.
pub(super) fn machine(document: &Document) -> Markup {
    html! {
        div .wide { table .facts { tbody {
            @for (name, value) in &document.machine {
                tr .detail[name.starts_with(' ')] { th { (name.trim()) } td { (value) } }
            }
        } } }
    }
}

/// The command that repeats a part, and how long it took.
pub(super) fn command(result: &Outcome) -> Markup {
    let name = &result.bench;
    html! {
        p .command { code { "stillpoint report --only " (name) } " measured it for " (format!("{:.0}", result.seconds.max(1.0))) " s." }
    }
}

/// Every figure, as the command prints it, and what was not measured.
pub(super) fn figures(result: &Outcome) -> Markup {
    html! {
        details {
            summary { "All figures of " (result.bench) }
            @for table in &result.tables { (grid(table)) }
            @for skipped in &result.skipped {
                p .quiet { "Not measured: " (skipped.system) ", " (skipped.why) "." }
            }
        }
    }
}

pub(super) fn grid(table: &Grid) -> Markup {
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

/// What can still be measured.
fn missing(document: &Document) -> Markup {
    let names: Vec<&str> =
        super::ORDER.iter().map(|part| part.name()).filter(|name| document.result(name).is_none()).collect();
    html! {
        @if !names.is_empty() {
            p .quiet { "Not measured yet: " code { "stillpoint report --only " (names.join(",")) } }
        }
    }
}
