//! A sample as text. Rates are those since the sample before.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use harness::report::{Grid, figure};
use harness::units;

use super::document::{Document, Domain, GracePeriod, Reader, Worker, printable};

/// Missing in the sample.
const UNKNOWN: &str = "-";
/// The most rows and lines of each kind.
const MOST: usize = 256;
/// A sample that is older, in intervals, is said to be.
const LATE: u32 = 4;

/// What is shown before the text of a sample.
pub(super) struct Shown<'a> {
    pub(super) pid: u32,
    pub(super) process: Option<String>,
    pub(super) number: u64,
    pub(super) document: &'a Document,
    pub(super) previous: Option<&'a Document>,
}

/// Returns the text, with a line break at the end.
pub(super) fn text(shown: &Shown<'_>) -> String {
    let Shown { pid, process, number, document, previous } = shown;
    let mut text = format!("process {pid}");
    if let Some(name) = process {
        write!(text, " ({})", printable(name)).expect("a String grows");
    }
    let library = document.library.as_deref().map_or(UNKNOWN.into(), printable);
    write!(text, ", stillpoint {library}, sample {number}").expect("a String grows");
    if let Some(took) = document.took {
        write!(text, ", which takes {}", time(took)).expect("a String grows");
    }
    if let Some(age) = age(document) {
        write!(text, "; it is {} old: the process is stopped, or busy", time(age)).expect("a String grows");
    }
    text.push('\n');
    let seconds = previous.and_then(|previous| seconds(previous, document));
    for line in [fences(document, *previous, seconds), workers(document)] {
        text.push_str(&line);
    }
    // Before the table, of which a terminal may show the first rows only.
    let details: String = sorted(document).into_iter().flat_map(details).take(MOST).collect();
    if !details.is_empty() {
        text.push('\n');
        text.push_str(&details);
    }
    domains(&mut text, document, *previous, seconds);
    text
}

/// Returns the age of a sample that is late.
fn age(document: &Document) -> Option<Duration> {
    let taken = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(document.unix_ms?))?;
    let age = taken.elapsed().ok()?;
    let late = document.interval?.saturating_mul(LATE).max(Duration::from_secs(2));
    (age > late).then_some(age)
}

/// Returns the seconds between two samples.
fn seconds(previous: &Document, document: &Document) -> Option<f64> {
    let milliseconds = document.unix_ms?.checked_sub(previous.unix_ms?)?;
    (milliseconds != 0).then_some(milliseconds as f64 / 1e3)
}

fn fences(document: &Document, previous: Option<&Document>, seconds: Option<f64>) -> String {
    let Some(fence) = &document.fence else { return String::new() };
    let backend = match (&fence.backend, &fence.why) {
        (Some(backend), Some(why)) => format!("{} ({})", printable(backend), printable(why)),
        _ => "not chosen yet".to_owned(),
    };
    let before = previous.and_then(|previous| previous.fence.as_ref()?.calls);
    let rate = rate(fence.calls, before, seconds);
    format!("fences   {backend}; {}, {rate}/s\n", count(fence.calls))
}

fn workers(document: &Document) -> String {
    let running = document.domains.iter().filter(|domain| domain.worker.thread.is_some()).count();
    let idle = match document.workers_idle {
        Some(true) => "one is idle",
        Some(false) => "none is idle",
        None => UNKNOWN,
    };
    format!("workers  {running} run callbacks now, {idle}\n")
}

/// Returns the domains, those with the most callbacks first, and then by name.
fn sorted(document: &Document) -> Vec<&Domain> {
    let mut domains: Vec<_> = document.domains.iter().collect();
    domains.sort_by_key(|domain| (Reverse(domain.stats.queued), &domain.name, &domain.made_at));
    domains.truncate(MOST);
    domains
}

fn domains(text: &mut String, document: &Document, previous: Option<&Document>, seconds: Option<f64>) {
    let heads = [
        "domain",
        "grace periods",
        "/s",
        "waits",
        "for",
        "queued",
        "bytes",
        "of limit",
        "oldest",
        "done/s",
        "worker",
    ];
    let mut rows = Vec::new();
    for domain in sorted(document) {
        let same = |other: &&Domain| (&other.name, &other.made_at) == (&domain.name, &domain.made_at);
        // Domains that were made at one place cannot be told apart.
        let mut before = previous.iter().flat_map(|previous| &previous.domains).filter(same);
        let before = before.next().filter(|_| before.next().is_none()).map(|domain| &domain.stats);
        let stats = &domain.stats;
        let gp = domain.grace_period.as_ref();
        rows.push(vec![
            name(domain),
            count(stats.grace_periods),
            rate(stats.grace_periods, before.and_then(|before| before.grace_periods), seconds),
            gp.and_then(|gp| gp.waited).map_or(String::new(), time),
            gp.filter(|gp| gp.waited.is_some()).map_or(String::new(), |gp| count(gp.readers)),
            count(stats.queued),
            stats.queued_bytes.map_or(UNKNOWN.into(), |bytes| figure(bytes as f64, "bytes")),
            share_of_limit(domain),
            stats.oldest.map_or(UNKNOWN.into(), time),
            rate(stats.done, before.and_then(|before| before.done), seconds),
            worker(&domain.worker),
        ]);
    }
    let all = document.domains_in_use.unwrap_or(document.domains.len() as u64);
    let left_out = all.saturating_sub(rows.len() as u64);
    let title = match left_out {
        0 if all == 1 => "1 domain".to_owned(),
        0 => format!("{all} domains"),
        _ => format!(
            "{all} domains, of which {left_out} are left out: none with the longest wait, most callbacks or most bytes"
        ),
    };
    writeln!(text, "{}", Grid::new(&title, &heads, rows)).expect("a String grows");
}

/// Returns how much of the limits of the domain is used: of the number or of the bytes, whichever is more.
fn share_of_limit(domain: &Domain) -> String {
    let Some(limits) = &domain.limits else { return UNKNOWN.into() };
    let share = |used: Option<u64>, limit: Option<u64>| Some(used? as f64 / limit?.max(1) as f64);
    let shares = [share(domain.stats.queued, limits.count), share(domain.stats.queued_bytes, limits.bytes)];
    shares
        .into_iter()
        .flatten()
        .reduce(f64::max)
        .map_or(UNKNOWN.into(), |share| format!("{:.0} %", share * 100.0))
}

fn worker(worker: &Worker) -> String {
    match (worker.running, worker.waiting, &worker.state) {
        (Some(time), ..) => format!("runs, {}", self::time(time)),
        (_, Some(time), _) => format!("waits, {}", self::time(time)),
        (_, _, Some(state)) => printable(state),
        _ => UNKNOWN.into(),
    }
}

/// Returns the lines about what a domain waits for. They begin with the thread that is to blame: a terminal may show the
/// first 80 columns only.
fn details(domain: &Domain) -> Vec<String> {
    let mut lines = Vec::new();
    let of = name(domain);
    if let Some(GracePeriod { number, waited: Some(waited), readers, threads, sections }) =
        &domain.grace_period
    {
        let up = format!("up grace period {} of {of}, which has waited {}", count(*number), time(*waited));
        for reader in threads.iter().take(MOST) {
            lines.push(format!("{} holds {up}{}\n", thread(reader), places(reader)));
        }
        let more = readers.unwrap_or(0).saturating_sub(threads.len() as u64);
        if !threads.is_empty() && more != 0 {
            lines.push(format!("{more} more threads hold {up}\n"));
        } else if threads.is_empty() {
            let at = sections.iter().take(MOST).map(|sections| {
                format!(
                    "; {} begun at {}",
                    count(sections.count),
                    sections.at.as_deref().map_or(UNKNOWN.into(), printable)
                )
            });
            lines.push(format!("{} sections hold {up}{}\n", count(*readers), at.collect::<String>()));
        }
    }
    // A worker ends its batch after the callback during which a millisecond has passed: what takes longer is one.
    if let (Some(id), Some(running)) = (domain.worker.thread, domain.worker.running)
        && running >= Duration::from_millis(100)
    {
        lines.push(format!("thread {id} has run a callback of {of} for {}\n", time(running)));
    }
    let stats = &domain.stats;
    if stats.protected.is_some_and(|kept| kept != 0) {
        lines.push(format!("{of}: hazard pointers protect {} values\n", count(stats.protected)));
    }
    if stats.limit_waits.is_some_and(|waits| waits != 0) {
        let [waits, overruns] = [stats.limit_waits, stats.limit_overruns].map(count);
        lines.push(format!("{of}: callers above the limits have blocked {waits} times, {overruns} times until the time was up\n"));
    }
    lines
}

fn thread(reader: &Reader) -> String {
    let id = reader.id.map_or(UNKNOWN.into(), |id| id.to_string());
    let name = reader.name.as_deref().map_or(String::new(), |name| format!(" ({})", printable(name)));
    format!("thread {id}{name}")
}

fn places(reader: &Reader) -> String {
    let mut text = String::new();
    for (what, part) in
        [("registered at", &reader.registered_at), ("began its section at", &reader.section_at)]
    {
        if let Some(part) = part {
            write!(text, "; it {what} {}", printable(part)).expect("a String grows");
        }
    }
    if reader.has_exited {
        text.push_str("; it exited inside a section");
    }
    text
}

fn name(domain: &Domain) -> String {
    let name = domain.name.as_deref().map_or(UNKNOWN.into(), printable);
    match &domain.made_at {
        Some(place) => format!("{name} ({})", printable(place)),
        None => name,
    }
}

fn count(number: Option<u64>) -> String {
    number.map_or(UNKNOWN.into(), |number| number.to_string())
}

fn rate(now: Option<u64>, before: Option<u64>, seconds: Option<f64>) -> String {
    let rate = || Some(now?.checked_sub(before?)? as f64 / seconds?);
    rate().map_or(UNKNOWN.into(), units::digits)
}

fn time(time: Duration) -> String {
    units::duration(time.as_nanos() as f64)
}

#[cfg(test)]
mod tests;
