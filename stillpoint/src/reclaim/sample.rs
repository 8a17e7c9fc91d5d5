//! What a domain does now, for the statistics page. Reads what is there for other purposes, from a thread of its own:
//! nothing here is called by readers or writers.

use core::panic::Location;
use core::time::Duration;

use serde::Serialize;

use super::backlog::Limits;
use super::domain::{Core, RawDomain};
use super::stats::Stats;
use crate::grace_period::engine::Engine;
use crate::grace_period::engine::ReaderSet;
use crate::grace_period::stall::{StalledReader, StalledReaders};

/// The most readers, or places of sections, that are named of a domain.
const NAMED: usize = 16;

/// The most characters of a name or place.
const LONGEST: usize = 200;

/// See the [module](self). The field names are those of the page: see `statistics_page`.
#[derive(Debug, Serialize)]
pub struct DomainSample {
    name: String,
    /// Where it was made, if it is a value.
    made_at: Option<String>,
    pub stats: Stats,
    limits: Limits,
    worker: Worker,
    grace_period: Option<GracePeriod>,
}

/// The grace period in progress.
#[derive(Debug, Serialize)]
struct GracePeriod {
    number: u64,
    /// How long it has waited for readers; `None` if it does not sleep for any.
    waited: Option<Duration>,
    /// The threads, or the sections of a domain that is a value, for which it waits: how many, and the first of them.
    readers: u64,
    threads: Vec<Reader>,
    sections: Vec<Sections>,
}

/// A thread that a grace period waits for.
#[derive(Debug, Serialize)]
struct Reader {
    id: u32,
    name: Option<String>,
    registered_at: String,
    section_at: Option<String>,
    has_exited: bool,
}

/// Open sections that began at the same place.
#[derive(Debug, Serialize)]
struct Sections {
    at: String,
    count: u64,
}

/// The worker of callbacks.
#[derive(Debug, Serialize)]
struct Worker {
    state: &'static str,
    /// The thread that runs callbacks now, and how long it has done so without a break.
    thread: Option<u32>,
    running: Option<Duration>,
    /// How long it has waited for a grace period, if it does.
    waiting: Option<Duration>,
}

impl DomainSample {
    pub(crate) fn of(domain: &impl RawDomain) -> Self {
        let Core { engine, callbacks, .. } = domain.core();
        let running = callbacks.slice.running();
        Self {
            name: shortened(engine.domain().into()),
            made_at: domain.made_at().map(place),
            stats: Stats::of(domain),
            limits: callbacks.backlog.limits(),
            worker: Worker {
                state: callbacks.state.name(),
                thread: running.map(|(_, thread)| thread),
                running: running.map(|(time, _)| Duration::from_nanos(time)),
                waiting: callbacks.backlog.gp_wait().map(Duration::from_nanos),
            },
            grace_period: GracePeriod::of(engine),
        }
    }
}

impl GracePeriod {
    fn of<R: ReaderSet>(engine: &Engine<R>) -> Option<Self> {
        let Some((number, waited, awaited, readers)) = engine.awaited_readers(NAMED) else {
            let number = engine.completed() + 1;
            let (threads, sections) = (Vec::new(), Vec::new());
            return engine.in_progress().map(|_| Self {
                number,
                waited: None,
                readers: 0,
                threads,
                sections,
            });
        };
        let (mut threads, mut sections) = (Vec::new(), Vec::new());
        match awaited {
            StalledReaders::Threads(readers) => threads.extend(readers.into_iter().map(Reader::from)),
            StalledReaders::Sections { begun_at, .. } | StalledReaders::Handles { begun_at, .. } => {
                sections.extend(begun_at.into_iter().map(|(at, count)| Sections { at: place(at), count }));
            }
        }
        Some(Self { number, waited: Some(waited), readers, threads, sections })
    }
}

impl From<StalledReader> for Reader {
    fn from(reader: StalledReader) -> Self {
        Self {
            id: reader.thread_id,
            registered_at: place(reader.registered_at),
            section_at: reader.section_at.map(place),
            has_exited: reader.has_exited,
            name: reader.name,
        }
    }
}

fn place(location: &Location<'_>) -> String {
    shortened(location.to_string())
}

/// Returns the end of a text that is too long: of paths and names of types, the end says most.
fn shortened(text: String) -> String {
    match text.char_indices().rev().nth(LONGEST) {
        Some((at, last)) => format!("...{}", &text[at + last.len_utf8()..]),
        None => text,
    }
}
