//! The sections of the page: which figures are drawn, and what is to be seen in them.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::chart::{MIB, areas, bars, dots, lines};
use super::data::{Config, Document, Outcome, Row, Wanted};
use super::experiments;
use super::page::{self, Section};
use crate::harness::report::OURS;
use crate::harness::stats::Summary;

/// All sections in their order.
pub(super) fn all(document: &Document) -> Vec<Section> {
    let section = |id, title, body| Section { id, title, body };
    let part = |name, body: fn(&Outcome) -> Markup| document.result(name).map(body);
    let both = |first, first_body, second, second_body| {
        let bodies = [part(first, first_body), part(second, second_body)];
        bodies
            .iter()
            .any(Option::is_some)
            .then(|| html! { @for body in bodies.into_iter().flatten() { (body) } })
    };
    let machine = (!document.machine.is_empty()).then(|| page::machine(document));
    vec![
        section("machine", "This machine", machine),
        section("reads", "Reads", part("read", reads)),
        section("grace-periods", "Grace periods", both("sync", grace_periods, "fence", fences)),
        section("callbacks", "Callbacks and memory", part("callback", callbacks)),
        section("qsbr", "Readers that report", part("qsbr", reports)),
        section("srcu", "Sections that may sleep", part("srcu", sleepable)),
        section("percpu", "Per-CPU data", part("percpu", per_cpu)),
        section("lock", "The lock", both("lock", lock, "lock-ablation", lock_parts)),
        section("experiments", "Experiments of the posts", experiments::render(document)),
    ]
}

/// Text, plots, the figures behind a fold, and the command.
fn body(result: &Outcome, text: &str, plots: &[Markup]) -> Markup {
    html! {
        p { (text) }
        div .plots { @for plot in plots { (plot) } }
        (page::figures(result))
        (page::command(result))
    }
}

/// All systems of a quantity, the one that does best first.
fn dots(result: &Outcome, title: &str, wanted: Wanted<'_>) -> Markup {
    let mut rows: Vec<&Row> = result.rows(wanted).collect();
    rows.sort_by(|a, b| a.summary.median.total_cmp(&b.summary.median));
    if rows.first().is_some_and(|row| row.better == crate::harness::Better::Higher) {
        rows.reverse();
    }
    let unit = rows.first().map_or("", |row| row.unit.as_str());
    let (unit, scale) = if unit == "bytes" { ("MiB", 1.0 / MIB) } else { (unit, 1.0) };
    let dot = |row: &&Row| {
        let Summary { median, min, max } = row.summary;
        let summary = Summary { median: median * scale, min: min * scale, max: max * scale };
        dots::Dot { label: row.system.clone(), is_ours: row.system == OURS, summary }
    };
    dots::draw(title, unit, &rows.iter().map(dot).collect::<Vec<_>>(), None)
}

/// A curve for each label that a row of `metric` has.
fn curves(
    result: &Outcome,
    wanted: Wanted<'_>,
    over: &str,
    label: impl Fn(&Row) -> (String, bool),
) -> Vec<lines::Line> {
    let mut curves: Vec<lines::Line> = Vec::new();
    for row in result.rows(wanted) {
        let Some(place) = row.config.number(over) else { continue };
        let (label, is_ours) = label(row);
        let point = (place, row.summary.median);
        match curves.iter_mut().find(|curve| curve.label == label) {
            Some(curve) => curve.points.push(point),
            None => curves.push(lines::Line { label, is_ours, points: vec![point] }),
        }
    }
    curves
}

fn by_system(row: &Row) -> (String, bool) {
    (row.system.clone(), row.system == OURS)
}

/// The histograms of all systems in a configuration.
pub(super) fn histograms<'a>(result: &'a Outcome, config: &Config) -> Vec<bars::Histogram<'a>> {
    let same =
        result.series.iter().filter(|series| series.over == "latency_below_ns" && series.config == *config);
    same.map(|series| bars::Histogram {
        label: &series.system,
        is_ours: series.system == OURS,
        points: &series.points,
    })
    .collect()
}

fn threads(number: f64) -> String {
    if number == 1.0 { "1 thread".to_owned() } else { format!("{number} threads") }
}

fn reads(result: &Outcome) -> Markup {
    let plots: Vec<Markup> = result
        .values("pair_ns", "threads")
        .into_iter()
        .map(|number| {
            let config = [("threads", json!(number as u64)), ("nesting", json!(1))];
            let title = format!("Enter, load, leave: {}", threads(number));
            dots(result, &title, ("pair_ns", &config))
        })
        .collect();
    body(
        result,
        "What a reader pays to open a section, follow a pointer, and close the section. A dot is the median over the \
         rounds, the line behind it reaches from the least to the greatest. The bare load protects nothing.",
        &plots,
    )
}

fn grace_periods(result: &Outcome) -> Markup {
    let loads: [(&str, &[(&str, Value)]); 6] = [
        ("1 reader, short sections", &[("readers", json!(1)), ("section_us", json!(0))]),
        ("4 readers, short sections", &[("readers", json!(4)), ("section_us", json!(0))]),
        ("4 readers, sections of 1 ms", &[("readers", json!(4)), ("section_us", json!(1000))]),
        ("2 readers, 8 callers", &[("readers", json!(2)), ("callers", json!(8))]),
        ("2 readers, 32 callers", &[("readers", json!(2)), ("callers", json!(32))]),
        ("No reader, 1000 idle threads", &[("readers", json!(0)), ("idle_threads", json!(1000))]),
    ];
    let plot = |(title, wanted): &(&str, &[(&str, Value)])| {
        let config = &result.series.iter().find(|series| series.config.has(wanted))?.config;
        Some(bars::draw(title, &histograms(result, config)))
    };
    body(
        result,
        "How long synchronize() takes, in power-of-two buckets: the height is the share of the calls.",
        &loads.iter().filter_map(plot).collect::<Vec<_>>(),
    )
}

fn fences(result: &Outcome) -> Markup {
    let label = |row: &Row| {
        let backend = row.config.text("backend").unwrap_or_default();
        match row.system == OURS {
            true => (backend.to_owned(), backend == "membarrier"),
            false => ("bare syscall".to_owned(), false),
        }
    };
    let plots: Vec<Markup> = result
        .values("heavy_ns", "callers")
        .into_iter()
        .map(|callers| {
            let config = [("callers", json!(callers as u64))];
            let curves = curves(result, ("heavy_ns", &config), "running", label);
            let title =
                if callers == 1.0 { "1 caller".to_owned() } else { format!("{callers} callers at a time") };
            let over = lines::Over { name: "threads that run", doubles: false };
            lines::draw(&format!("A process-wide fence: {title}"), "ns", over, &curves)
        })
        .collect();
    html! {
        h3 { "The fence below them" }
        (body(result, "The time of a heavy fence by how many threads of the process run: on each backend, and as the bare system call, \
            which callers do not share.", &plots))
    }
}

fn callbacks(result: &Outcome) -> Markup {
    let beside = [("readers", json!(1))];
    let retired = [("threads", json!(1)), ("readers", json!(1)), ("payload", json!("[u64; 8]"))];
    let mut courses: Vec<areas::Area<'_>> = result
        .series
        .iter()
        .filter(|series| series.over == "time_ms")
        .map(|series| areas::Area {
            label: &series.system,
            is_ours: series.system == OURS,
            points: thinned(&series.points).into_iter().map(|(time, bytes)| (time, bytes / MIB)).collect(),
        })
        .collect();
    courses.sort_by_key(|course| !course.is_ours);
    let plots = [
        areas::draw("Memory that waits; a reader stays inside for the first half", "MiB", "ms", &courses),
        dots(result, "The most memory that waited", ("peak_bytes", &[])),
        dots(result, "From call to callback beside a reader, median", ("latency_p50_ns", &beside)),
        dots(result, "Allocate, publish, retire, free: a value of 64 bytes", ("retire_ns", &retired)),
    ];
    body(
        result,
        "What is done after a grace period: how soon, at what cost, and how much memory waits for it. A writer floods, and \
         a reader stays in its section: ours is told to keep to 8 MiB, and makes the writer wait.",
        &plots,
    )
}

/// At most some hundred points, which is as many as a plot can show: of each group the greatest value.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let greatest = |group: &[(f64, f64)]| group.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(points.len().div_ceil(220).max(1)).filter_map(greatest).collect()
}

fn reports(result: &Outcome) -> Markup {
    let one = [("threads", json!(1))];
    let updates = |readers: u64| [("readers", json!(readers)), ("asked_per_s", json!(0))];
    let plots = [
        dots(result, "A read, 1 thread", ("read_ns", &one)),
        dots(result, "A report when nothing has changed, 1 thread", ("quiescent_ns", &one)),
        dots(result, "Updates a second beside 2 readers", ("updates_per_s", &updates(2))),
        dots(result, "Updates a second beside 16 readers", ("updates_per_s", &updates(16))),
    ];
    body(
        result,
        "Threads that say when they hold no references read for the price of a load. run-queue is no library: it says how \
         often all readers get to run where none of them gives way, which each grace period has to wait for if there are more of \
         them than CPUs.",
        &plots,
    )
}

fn sleepable(result: &Outcome) -> Markup {
    let mut plots: Vec<Markup> = result
        .values("pair_ns", "threads")
        .into_iter()
        .map(|number| {
            let title = format!("Enter, load, leave: {}", threads(number));
            dots(result, &title, ("pair_ns", &[("threads", json!(number as u64))]))
        })
        .collect();
    let over = lines::Over { name: "guards that are open", doubles: true };
    for (title, metric) in [
        ("From the last drop to the return of the waiter", "gp_ns"),
        ("What the waiter computed", "gp_cpu_ns"),
    ] {
        plots.push(lines::draw(title, "ns", over, &curves(result, (metric, &[]), "guards", by_system)));
    }
    body(
        result,
        "Guards that may be sent to other threads and held over .await, beside what asynchronous readers use; and a grace \
         period that waits for more and more of them.",
        &plots,
    )
}

fn per_cpu(result: &Outcome) -> Markup {
    let most = result.values("op_ns", "threads").into_iter().fold(1.0, f64::max);
    let ops = [
        ("add", "An add to a counter"),
        ("pool", "Pop and push of a pool"),
        ("histogram", "A value recorded in a histogram"),
    ];
    let cpus = (most / 16.0) as u64;
    let plot = |(op, title): (&str, &str), threads: u64, per_cpu: u64| {
        let config = [("op", json!(op)), ("threads", json!(threads)), ("threads_per_cpu", json!(per_cpu))];
        let title = format!("{title}, {per_cpu} {} a CPU", if per_cpu == 1 { "thread" } else { "threads" });
        dots(result, &title, ("op_ns", &config))
    };
    let mut plots = vec![plot(ops[0], cpus, 1), plot(ops[0], 16 * cpus, 16)];
    plots.extend(ops[1..].iter().map(|op| plot(*op, cpus, 1)));
    body(
        result,
        "CPU time of an operation. thread-local is the floor: numbers that nobody can add up.",
        &plots,
    )
}

fn lock(result: &Outcome) -> Markup {
    let cpus = result.values("mops", "cpus").into_iter().fold(1.0, f64::max) as u64;
    let most = result.values("mops", "threads").into_iter().fold(1.0, f64::max) as u64;
    let all = [("cpus", json!(cpus))];
    let one_cpu = [("cpus", json!(1)), ("threads", json!(most))];
    let over = lines::Over { name: "threads", doubles: true };
    let plots = [
        lines::draw("Acquisitions in a µs", "", over, &curves(result, ("mops", &all), "threads", by_system)),
        lines::draw(
            "The longest wait",
            "ns",
            over,
            &curves(result, ("max_wait_ns", &all), "threads", by_system),
        ),
        dots(result, &format!("Acquisitions in a µs, {most} threads on one CPU"), ("mops", &one_cpu)),
        dots(result, &format!("The longest wait, {most} threads on one CPU"), ("max_wait_ns", &one_cpu)),
    ];
    body(
        result,
        &format!(
            "Mutexes by the number of threads, on {cpus} CPUs: a microsecond of work under the lock, and one without. A \
         wait cannot be longer than a measurement, which ends it."
        ),
        &plots,
    )
}

fn lock_parts(result: &Outcome) -> Markup {
    let plot = |(cell, metric, unit): (&Config, &str, &str)| {
        let number = |name| cell.number(name).unwrap_or(0.0);
        let mut ratios: Vec<_> =
            result.ratios.iter().filter(|ratio| ratio.metric == metric && ratio.config == *cell).collect();
        ratios.sort_by(|a, b| a.summary.median.total_cmp(&b.summary.median));
        if metric == "mops" {
            ratios.reverse();
        }
        let dot = |ratio: &&super::data::Ratio| {
            let is_clear = ratio.summary.min > 1.0 || ratio.summary.max < 1.0;
            dots::Dot { label: ratio.to.clone(), is_ours: is_clear, summary: ratio.summary }
        };
        let title = format!(
            "{unit}: {} threads, {} CPU{}, {} ns under the lock",
            number("threads"),
            number("cpus"),
            if number("cpus") == 1.0 { "" } else { "s" },
            number("cs_ns")
        );
        dots::draw(&title, "ratio", &ratios.iter().map(dot).collect::<Vec<_>>(), Some(1.0))
    };
    let mut cells: Vec<&Config> = Vec::new();
    for row in result.rows(("mops", &[])) {
        if !cells.contains(&&row.config) {
            cells.push(&row.config);
        }
    }
    let rates = cells.iter().map(|cell| (*cell, "mops", "Rate"));
    let waits = cells.iter().map(|cell| (*cell, "max_wait_ns", "Longest wait"));
    let plots: Vec<Markup> = rates.zip(waits).flat_map(|(rate, wait)| [rate, wait]).map(plot).collect();
    html! {
        h3 { "What each mechanism is worth" }
        (body(result, "The lock that ships, to the lock with one mechanism switched off. A rate above 1, and a wait below 1, speak for \
            the mechanism. Blue is where all rounds agree.", &plots))
    }
}
