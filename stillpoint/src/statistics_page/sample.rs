//! What a domain does now. Reads what is there for other purposes, from a thread of its own: nothing here is called
//! by readers or writers.

use core::panic::Location;
use core::time::Duration;

use serde_json::{Value, json};

use crate::domain::stats::Stats;
use crate::grace_period::stall::{StalledReader, StalledReaders};
use crate::readers::any::AnyEngine;
use crate::reclaim::domain::RawDomain;

/// The most readers, or places of sections, that are named of a domain.
const NAMED: usize = 16;

/// The most characters of a name or place.
const LONGEST: usize = 200;

/// Returns the fields of a domain on the page: see `statistics_page`.
pub(super) fn domain(domain: &dyn RawDomain) -> Value {
    let (engine, callbacks) = (domain.engine(), &domain.seen_work().callbacks);
    let running = callbacks.slice.running();
    json!({
        "name": shortened(engine.domain().into()),
        // If it is a value.
        "made_at": domain.made_at().map(place),
        "stats": Stats::of(domain),
        "limits": callbacks.backlog.limits(),
        "worker": {
            "state": callbacks.state.name(),
            "thread": running.map(|(_, thread)| thread),
            "running": running.map(|(time, _)| Duration::from_nanos(time)),
            "waiting": callbacks.backlog.gp_wait().map(Duration::from_nanos),
        },
        "grace_period": grace_period(engine),
    })
}

/// The grace period that waits for readers, if one does: how many it waits for, and the first of them.
fn grace_period(engine: &AnyEngine) -> Option<Value> {
    let (number, waited, awaited, readers) = engine.awaited_readers(NAMED)?;
    let (mut threads, mut sections) = (Vec::new(), Vec::new());
    match awaited {
        StalledReaders::Threads(readers) => threads.extend(readers.into_iter().map(thread)),
        StalledReaders::Sections { begun_at, .. } => {
            sections
                .extend(begun_at.into_iter().map(|(at, count)| json!({ "at": place(at), "count": count })));
        }
    }
    Some(json!({
        "number": number, "waited": waited, "readers": readers, "threads": threads, "sections": sections
    }))
}

fn thread(reader: StalledReader) -> Value {
    json!({
        "id": reader.thread_id,
        "name": reader.name,
        "registered_at": place(reader.registered_at),
        "section_at": reader.section_at.map(place),
        "has_exited": reader.has_exited,
    })
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
