//! A sample as text. Rates are those since the sample before.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use harness::grid::Grid;
use harness::units::{self, figure};
use serde_json::Value;

use super::document::{list, printable, time};

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
    pub(super) sample: &'a Value,
    pub(super) previous: Option<&'a Value>,
}

/// Returns the text, with a line break at the end.
pub(super) fn text(shown: &Shown<'_>) -> String {
    let Shown { pid, process, number, sample, previous } = shown;
    let previous = previous.unwrap_or(&Value::Null);
    let mut text = format!("process {pid}");
    if let Some(name) = process {
        write!(text, " ({})", printable(name)).expect("a String grows");
    }
    write!(text, ", stillpoint {}, sample {number}", words(&sample["library"])).expect("a String grows");
    if let Some(took) = time(&sample["took"]) {
        write!(text, ", which takes {}", span(took)).expect("a String grows");
    }
    if let Some(age) = age(sample) {
        write!(text, "; it is {} old: the process is stopped, or busy", span(age)).expect("a String grows");
    }
    text.push('\n');
    let seconds = seconds(previous, sample);
    text.push_str(&fences(&sample["fence"], &previous["fence"], seconds));
    // Before the table, of which a terminal may show the first rows only.
    let details: String = sorted(sample).into_iter().flat_map(details).take(MOST).collect();
    if !details.is_empty() {
        text.push('\n');
        text.push_str(&details);
    }
    domains(&mut text, sample, previous, seconds);
    text
}

/// Returns the age of a sample that is late.
fn age(sample: &Value) -> Option<Duration> {
    let taken = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(sample["unix_ms"].as_u64()?))?;
    let age = taken.elapsed().ok()?;
    let late = time(&sample["interval"])?.saturating_mul(LATE).max(Duration::from_secs(2));
    (age > late).then_some(age)
}

/// Returns the seconds between two samples.
fn seconds(previous: &Value, sample: &Value) -> Option<f64> {
    let milliseconds = sample["unix_ms"].as_u64()?.checked_sub(previous["unix_ms"].as_u64()?)?;
    (milliseconds != 0).then_some(milliseconds as f64 / 1e3)
}

fn fences(fence: &Value, before: &Value, seconds: Option<f64>) -> String {
    if fence.is_null() {
        return "fences   not chosen yet\n".to_owned();
    }
    let [backend, why] = ["backend", "why"].map(|field| words(&fence[field]));
    let rate = rate(&fence["calls"], &before["calls"], seconds);
    format!("fences   {backend} ({why}); {}, {rate}/s\n", count(&fence["calls"]))
}

/// Returns the domains, those with the most callbacks first, and then by name.
fn sorted(sample: &Value) -> Vec<&Value> {
    let mut domains: Vec<_> = list(&sample["domains"]).iter().collect();
    domains.sort_by_key(|domain| (Reverse(domain["stats"]["queued"].as_u64()), identity(domain)));
    domains.truncate(MOST);
    domains
}

/// Domains that were made at one place cannot be told apart.
fn identity(domain: &Value) -> [Option<&str>; 2] {
    [domain["name"].as_str(), domain["made_at"].as_str()]
}

fn domains(text: &mut String, sample: &Value, previous: &Value, seconds: Option<f64>) {
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
    for domain in sorted(sample) {
        let is_same = |other: &&Value| identity(other) == identity(domain);
        let mut before = list(&previous["domains"]).iter().filter(is_same);
        let before = before.next().filter(|_| before.next().is_none()).unwrap_or(&Value::Null);
        let (stats, before) = (&domain["stats"], &before["stats"]);
        let gp = &domain["grace_period"];
        let waited = time(&gp["waited"]);
        rows.push(vec![
            name(domain),
            count(&stats["grace_periods"]),
            rate(&stats["grace_periods"], &before["grace_periods"], seconds),
            waited.map_or(String::new(), span),
            waited.map_or(String::new(), |_| count(&gp["readers"])),
            count(&stats["queued"]),
            stats["queued_bytes"].as_u64().map_or(UNKNOWN.into(), |bytes| figure(bytes as f64, "bytes")),
            share_of_limit(stats, &domain["limits"]),
            time(&stats["oldest"]).map_or(UNKNOWN.into(), span),
            rate(&stats["done"], &before["done"], seconds),
            worker(&domain["worker"]),
        ]);
    }
    let all = sample["domains_in_use"].as_u64().unwrap_or(list(&sample["domains"]).len() as u64);
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
fn share_of_limit(stats: &Value, limits: &Value) -> String {
    let shares = [("queued", "count"), ("queued_bytes", "bytes")].into_iter().filter_map(|(used, limit)| {
        Some(stats[used].as_u64()? as f64 / limits[limit].as_u64()?.max(1) as f64)
    });
    shares.reduce(f64::max).map_or(UNKNOWN.into(), |share| format!("{:.0} %", share * 100.0))
}

fn worker(worker: &Value) -> String {
    match (time(&worker["running"]), time(&worker["waiting"])) {
        (Some(time), _) => format!("runs, {}", span(time)),
        (_, Some(time)) => format!("waits, {}", span(time)),
        _ => words(&worker["state"]),
    }
}

/// Returns the lines about what a domain waits for. They begin with the thread that is to blame: a terminal may show
/// the first 80 columns only.
fn details(domain: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let of = name(domain);
    let gp = &domain["grace_period"];
    if let Some(waited) = time(&gp["waited"]) {
        let up =
            format!("up grace period {} of {of}, which has waited {}", count(&gp["number"]), span(waited));
        let threads = list(&gp["threads"]);
        for reader in threads.iter().take(MOST) {
            lines.push(format!("{} holds {up}{}\n", thread(reader), places(reader)));
        }
        let more = gp["readers"].as_u64().unwrap_or(0).saturating_sub(threads.len() as u64);
        if !threads.is_empty() && more != 0 {
            lines.push(format!("{more} more threads hold {up}\n"));
        } else if threads.is_empty() {
            let at = list(&gp["sections"]).iter().take(MOST).map(|sections| {
                format!("; {} begun at {}", count(&sections["count"]), words(&sections["at"]))
            });
            lines.push(format!("{} sections hold {up}{}\n", count(&gp["readers"]), at.collect::<String>()));
        }
    }
    // A worker ends its batch after the callback during which a millisecond has passed: what takes longer is one.
    let worker = &domain["worker"];
    if let Some(running) = time(&worker["running"])
        && running >= Duration::from_millis(100)
    {
        lines.push(format!(
            "thread {} has run a callback of {of} for {}\n",
            count(&worker["thread"]),
            span(running)
        ));
    }
    let stats = &domain["stats"];
    if stats["protected"].as_u64().is_some_and(|kept| kept != 0) {
        lines.push(format!("{of}: hazard pointers protect {} values\n", count(&stats["protected"])));
    }
    if stats["limit_waits"].as_u64().is_some_and(|waits| waits != 0) {
        let [waits, overruns] = ["limit_waits", "limit_overruns"].map(|field| count(&stats[field]));
        lines.push(format!("{of}: callers above the limits have blocked {waits} times, {overruns} times until the time was up\n"));
    }
    lines
}

fn thread(reader: &Value) -> String {
    let name = reader["name"].as_str().map_or(String::new(), |name| format!(" ({})", printable(name)));
    format!("thread {}{name}", count(&reader["id"]))
}

fn places(reader: &Value) -> String {
    let mut text = String::new();
    for (what, field) in [("registered at", "registered_at"), ("began its section at", "section_at")] {
        if let Some(place) = reader[field].as_str() {
            write!(text, "; it {what} {}", printable(place)).expect("a String grows");
        }
    }
    if reader["has_exited"] == true {
        text.push_str("; it exited inside a section");
    }
    text
}

fn name(domain: &Value) -> String {
    let name = words(&domain["name"]);
    match domain["made_at"].as_str() {
        Some(place) => format!("{name} ({})", printable(place)),
        None => name,
    }
}

fn words(field: &Value) -> String {
    field.as_str().map_or(UNKNOWN.into(), printable)
}

fn count(field: &Value) -> String {
    field.as_u64().map_or(UNKNOWN.into(), |number| number.to_string())
}

fn rate(now: &Value, before: &Value, seconds: Option<f64>) -> String {
    let rate = || Some(now.as_u64()?.checked_sub(before.as_u64()?)? as f64 / seconds?);
    rate().map_or(UNKNOWN.into(), units::digits)
}

fn span(time: Duration) -> String {
    units::duration(time.as_nanos() as f64)
}

#[cfg(test)]
mod tests;
