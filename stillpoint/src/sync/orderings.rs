//! The mutants of orderings: records the orderings that a model executes, and weakens one.
//!
//! Every operation of the model's atomics passes its orderings through [`weaken`]. An ordering stronger than
//! `Relaxed` is identified by the call site and by its half: an `AcqRel` has two, and a compare-exchange that fails
//! may have one of its own. So the source needs no annotations, a new ordering is a new mutant, and one build has all
//! of them.
//!
//! | variable | effect |
//! |---|---|
//! | `STILLPOINT_RECORD=FILE` | appends `file line column half` to `FILE` for each ordering that is executed |
//! | `STILLPOINT_WEAKEN=file:line:column:half` | removes this half, or several, separated by commas |
//!
//! `ci/mutants.sh` uses both, and gives orderings names that survive when lines move.

use core::panic::Location;
use core::sync::atomic::Ordering::{self, *};
use std::collections::HashSet;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{LazyLock, Mutex};

type Seen = HashSet<(&'static Location<'static>, &'static str)>;

/// The recorded orderings, and the file.
static RECORD: LazyLock<Option<Mutex<(Seen, File)>>> = LazyLock::new(|| {
    let path = env::var_os("STILLPOINT_RECORD")?;
    let file = OpenOptions::new().create(true).append(true).open(path).expect("the record opens");
    Some(Mutex::new((HashSet::new(), file)))
});

/// Orderings to weaken: `file:line:column:half`.
static WEAKENED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let sites = env::var("STILLPOINT_WEAKEN").unwrap_or_default();
    sites.split_terminator(',').map(str::to_owned).collect()
});

/// Returns the ordering without the halves that are to be removed at the call site. `argument` is its parameter's
/// name.
#[track_caller]
pub fn weaken(order: Ordering, argument: &str) -> Ordering {
    let is_failure = argument == "failure";
    let at = Location::caller();
    let keeps = |half| keeps(at, if is_failure { "FailureAcquire" } else { half });
    match order {
        Acquire if keeps("Acquire") => Acquire,
        Release if keeps("Release") => Release,
        AcqRel => match (keeps("Acquire"), keeps("Release")) {
            (true, true) => AcqRel,
            (true, false) => Acquire,
            (false, true) => Release,
            (false, false) => Relaxed,
        },
        // loom treats `SeqCst` accesses as `AcqRel`, and makes `SeqCst` fences too strong.
        SeqCst => panic!("SeqCst, which loom does not model, at {at}"),
        _ => Relaxed,
    }
}

/// Records this half of an ordering. Returns `false` if it is to be removed.
fn keeps(at: &'static Location<'static>, half: &'static str) -> bool {
    if let Some(record) = &*RECORD {
        let (seen, file) = &mut *record.lock().unwrap();
        if seen.insert((at, half)) {
            let line = format!("{} {} {} {half}\n", at.file(), at.line(), at.column());
            file.write_all(line.as_bytes()).expect("the record is written");
        }
    }
    let is_here = |site: &String| *site == format!("{at}:{half}");
    !WEAKENED.iter().any(is_here)
}
