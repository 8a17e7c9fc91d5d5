//! How much garbage may wait before threads are throttled.
//!
//! A thread is throttled when it is about to pin, and holds no guard. It goes on after a second at the latest, and from
//! then on after a millisecond, until a function has run: the thread that keeps the others' functions from running may
//! wait for it.

use std::env;
use std::sync::OnceLock;

use stillpoint::rcu::Limits;

use crate::deferred::Bag;

const UNLIMITED: Limits = Limits { count: u64::MAX, bytes: u64::MAX };

/// Reads the switch: `STILLPOINT_EPOCH_LIMIT=off`, or a number of MiB.
fn switch() -> Limits {
    static SWITCH: OnceLock<Limits> = OnceLock::new();
    *SWITCH.get_or_init(|| match env::var("STILLPOINT_EPOCH_LIMIT").as_deref() {
        Err(_) | Ok("") => Limits::default(),
        Ok("off") => UNLIMITED,
        Ok(number) => match number.parse::<u64>() {
            Ok(mebibytes) => Limits { bytes: mebibytes.saturating_mul(1 << 20), ..Limits::default() },
            Err(_) => {
                eprintln!("stillpoint: STILLPOINT_EPOCH_LIMIT={number}: neither \"off\" nor a number of MiB");
                Limits::default()
            }
        },
    })
}

/// Returns the limits of the default collector.
pub(crate) fn of_default() -> Limits {
    switch()
}

/// Returns those of another, whose functions are handed over in bags.
pub(crate) fn of_collector() -> Limits {
    let Limits { count, bytes } = switch();
    Limits { count: if count == u64::MAX { count } else { count / Bag::CAPACITY as u64 }, bytes }
}
