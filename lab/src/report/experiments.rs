//! The experiments of the original posts: what was posted, what is found here, and whether the shape is the same.

use maud::{Markup, html};

use super::chart::{bars, pretty, text};
use super::data::{Document, Outcome};
use super::page;
use super::part::Part;
use super::sections::histograms;
use super::shape::{self, Claim, Expected, Verdict};
use crate::harness::report::{figure, times};
use crate::harness::units::digits;

const EXPERIMENTS: [(Part, &str); 7] = [
    (Part::E1, "The process-wide fence"),
    (Part::E2, "Fences, signals and membarrier in readers and grace periods"),
    (Part::E3, "synchronize() on its own track"),
    (Part::E4, "Readers that report, a flag for each"),
    (Part::E5, "Per-CPU critical sections"),
    (Part::E6, "The queued lock"),
    (Part::E7, "A failed compare-exchange orders nothing"),
];

pub(super) const RULE: &str = "Times belong to machines, the shape does not. It holds if at least half of the posted effect is there, \
     on a logarithmic scale, and is weaker if less is. Where a post says only which costs more, that is what is asked; what costs \
     the same may differ by a quarter. \u{201c}In doubt\u{201d} means that the rounds disagree.";

/// All that were measured.
pub(super) fn render(document: &Document) -> Option<Markup> {
    let measured: Vec<(&Outcome, &str)> = EXPERIMENTS
        .iter()
        .filter_map(|(part, title)| Some((document.result(part.name())?, *title)))
        .collect();
    let claims = shape::claims(document);
    (!measured.is_empty()).then(|| {
        html! {
            p { (RULE) }
            @for (result, title) in measured {
                h3 id=(result.bench) { (result.bench.to_uppercase()) ": " (title) }
                @if let Some(posted) = &result.posted {
                    p .quiet { (posted.source) ". Expected: " (posted.expected) "." }
                }
                (table(&claims, result))
                (plots(result))
                (page::figures(result))
                (page::command(result))
            }
        }
    })
}

/// A claim in words, for the page and for the summary.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) posted: String,
    pub(super) values: String,
    pub(super) ratio: String,
    pub(super) range: String,
    pub(super) verdict: &'static str,
    class: &'static str,
}

impl Line {
    pub(super) fn of(claim: &Claim) -> Self {
        let posted = match claim.expected {
            Expected::Like(ratio) => times(ratio),
            Expected::Below => "less".into(),
            Expected::Above => "more".into(),
            Expected::Same => "the same".into(),
        };
        let values = claim.values.as_ref().map(|(ours, theirs, unit)| {
            format!("{} / {}", pretty(&figure(*ours, unit)), pretty(&figure(*theirs, unit)))
        });
        let (verdict, class) = match (claim.verdict(), claim.is_doubtful()) {
            (None, _) => ("not measured", "quiet"),
            (Some(Verdict::Holds), false) => ("holds", "holds"),
            (Some(Verdict::Holds), true) => ("holds, in doubt", "holds"),
            (Some(Verdict::Weaker), false) => ("weaker", "weaker"),
            (Some(Verdict::Weaker), true) => ("weaker, in doubt", "weaker"),
            (Some(Verdict::Unseen), false) => ("not seen", "unseen"),
            (Some(Verdict::Unseen), true) => ("not seen, in doubt", "unseen"),
        };
        Self {
            posted,
            values: values.unwrap_or_default(),
            ratio: claim.ours.map(|ours| times(ours.median)).unwrap_or_default(),
            range: claim
                .ours
                .map(|ours| format!("{}..{}", digits(ours.min), digits(ours.max)))
                .unwrap_or_default(),
            verdict,
            class,
        }
    }
}

fn table(claims: &[Claim], result: &Outcome) -> Markup {
    let claims: Vec<&Claim> = claims.iter().filter(|claim| claim.experiment == result.bench).collect();
    html! {
        @if claims.is_empty() {
            @for grid in &result.tables { (page::grid(grid)) }
        } @else {
            div .wide.stack { table {
                thead { tr {
                    th { "" } th .n { "posted" } th .n { "ours" } th .n { "ratio" } th .n { "min – max" } th { "shape" }
                } }
                tbody { @for claim in claims {
                    @let line = Line::of(claim);
                    tr {
                        td { (claim.what) }
                        td .n data-name="posted" { (pretty(&line.posted)) }
                        td .n data-name="ours" { (line.values) }
                        td .n.us data-name="ratio" { (pretty(&line.ratio)) }
                        td .n data-name="min – max" { (pretty(&line.range)) }
                        td class=(line.class) data-name="shape" { (line.verdict) }
                    }
                } }
            } }
        }
    }
}

/// Latencies, where there are some: the histograms of the 2024 post.
fn plots(result: &Outcome) -> Markup {
    let mut configs = Vec::new();
    for series in result.series.iter().filter(|series| series.over == "latency_below_ns") {
        if !configs.contains(&&series.config) {
            configs.push(&series.config);
        }
    }
    html! {
        @if !configs.is_empty() {
            div .plots { @for config in configs {
                @let threads = text(config.number("threads").unwrap_or(0.0), "count");
                @let flood = config.number("callbacks").is_some_and(|callbacks| callbacks > 0.0);
                @let beside = if flood { "beside a flood of callbacks" } else { "alone" };
                (bars::draw(&format!("Latency of {threads} threads' waits, {beside}"), &histograms(result, config)))
            } }
        }
    }
}
