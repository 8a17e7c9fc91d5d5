//! The threads that a grace period waits for, as its report names them.
//!
//! Readers pay nothing for this: each wrote its thread's id and its place of registration when it registered, and the name is
//! the kernel's.

use std::time::Duration;

use crate::grace_period::stall::{StalledReader, StalledReaders};
use crate::readers::reader::{Owner, Reader};
use crate::sys;

/// Those of `readers` that the leader still waits for, after having `waited`; `owes` is what to add of a thread that runs, and of
/// one that has exited. Nothing if all have just left, and are about to say so.
pub fn awaited(
    readers: impl Iterator<Item = &'static Reader>,
    waited: Duration,
    owes: [&'static str; 2],
) -> Option<StalledReaders> {
    let look = |reader: &Reader, Owner { thread, site }| {
        let has_exited = reader.is_exiting();
        // The id of a thread that has exited may be another's by now.
        let name = if has_exited { None } else { sys::thread::name(thread) };
        let owes = owes[usize::from(has_exited)];
        StalledReader { thread_id: thread, name, registered_at: site, has_exited, waited, owes }
    };
    let readers: Vec<_> =
        readers.filter_map(|reader| reader.owner_if_still_blocking(|owner| look(reader, owner))).collect();
    (!readers.is_empty()).then_some(StalledReaders::ThreadReaders(readers))
}
