//! A page of statistics in memory, which other processes can read: what the command `stillpoint top PID` shows. With
//! the feature `statistics-page`.
//!
//! The program calls [`publish`], once. From then on a thread of the library writes what all domains do, several
//! times a second: grace periods and the threads that they wait for, backlogs and limits, workers, fences. Nothing is
//! sent anywhere, and nothing connects to the program: the page is memory, and a process of the same user, or with
//! the capability to trace it, opens it by `/proc`.
//!
//! ```
//! use std::time::Duration;
//! use stillpoint::statistics_page;
//!
//! match statistics_page::publish(Duration::from_millis(250)) {
//!     Ok(()) => println!("stillpoint top {}", std::process::id()),
//!     Err(error) => println!("no statistics: {error}"), // not on 64-bit Linux, or denied: the program continues without it
//! }
//! ```
//!
//! # What it costs
//!
//! Readers and writers execute no instruction for it, with or without a page: a sample reads words that are there. It
//! visits each queue of each domain as [`Domain::stats`](crate::Domain::stats) does, and the names of threads that
//! block a grace period in `/proc`. If a sample takes longer than a twentieth of the interval, the thread sleeps
//! longer: it uses a twentieth of a CPU at most.
//!
//! # Threads, fork, exec
//!
//! The thread is named `stillpoint-stat`, blocks all signals, and has the CPUs of the main thread. It takes no part
//! in the library's work. A sample shows it nowhere.
//!
//! The child of a fork has neither the thread nor the page: [`publish`] in the child makes a page of its own. A
//! program that is executed has no page. One that closes all descriptors that it finds should do so before it
//! publishes, or publish again.
//!
//! # The page
//!
//! A file in memory (`memfd_create(2)`) with the name `stillpoint-statistics`: a link in `/proc/PID/fd` says
//! `/memfd:stillpoint-statistics (deleted)`. Numbers are of the machine's byte order, 8 bytes where nothing else is
//! said.
//!
//! | at | contents |
//! |---|---|
//! | 0 | the eight bytes `stillpnt` |
//! | 8 | 4 bytes: the layout, 1. All that follows is of this layout |
//! | 12 | 4 bytes: the size of a slot, a multiple of 8, at most 256 KiB |
//! | 16 | 16 bytes: the version of the library, filled with zeros |
//! | 32 | the number of the last sample; 0 before the first |
//! | 4096 | slot 0 |
//! | 4096 and the size of a slot | slot 1 |
//!
//! Sample number *n* is in slot *n* % 2: its length in bytes, and then as many bytes of JSON, one object without line
//! breaks. Read the number, then the sample, then the number again; if it has changed, begin again. The source
//! (`sync/two_slots.rs`) says why that suffices.
//!
//! In the object, times are `{"secs": S, "nanos": N}`, and what is not known is `null`. Later versions of the library
//! add fields; the meaning of a field changes only with the layout.
//!
//! | field | contents |
//! |---|---|
//! | `library` | the version of the library |
//! | `unix_ms`, `interval`, `took` | when the sample was taken, the time between samples, and the time that the sample before took |
//! | `pid` | the process, by its own namespace of process ids |
//! | `fence` | `null` before the choice; `backend`, `why`, and [`calls`](crate::fence::calls) |
//! | `domains_in_use` | the number of domains; at most 64 are listed: those with the longest waits, the most callbacks and the most bytes |
//! | `domains` | a list: see below |
//!
//! | field of a domain | contents |
//! |---|---|
//! | `name`, `made_at` | as in [stall reports](crate::rcu#stalls) |
//! | `stats` | [`Stats`](crate::rcu::Stats) |
//! | `limits` | [`Limits`](crate::rcu::Limits) |
//! | `worker` | `state`: `idle`, `parked`, `rate_limited` or `running`; `thread`, and `running`, how long it has run callbacks: a batch of them, which ends after about a millisecond, or the one that takes longer; `waiting`, how long it has waited for a grace period |
//! | `grace_period` | the one that waits for readers, or `null`: `number`; `waited`, how long; `readers`, for how many; at most 16 `threads` (`id`, `name`, `registered_at`, `section_at`, `has_exited`), or where `sections` began (`at`, `count`) |

mod document;
mod page;
mod sample;

use core::ffi::c_void;
use core::num::NonZeroU32;
use core::ptr;
use core::time::Duration;
use std::io;
use std::panic::catch_unwind;

use page::Page;

use crate::reclaim::pool::starts_none;
use crate::sync::{AtomicU64, Futex, Ordering::Relaxed, now};
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::fork_lock::ForkLock;
use crate::sys::init_array;
use crate::sys::pin::is_pinned;
use crate::sys::scheduling::take_nice_of_main;
use crate::sys::thread::{block_signals, spawn};

/// Shorter intervals would only use time: readers of the page look some times a second.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The thread sleeps for as many times what a sample takes, at least.
const REST: u32 = 19;

/// What is published, if there is a thread that writes it. It changes under the lock, which is held during a fork.
/// Neither allocates, frees or samples there: that is code of the program.
static PAGE: ForkLock<Option<Page>> = ForkLock::new(None);

/// Nanoseconds between samples. Relaxed, all accesses: nothing else depends on it.
static INTERVAL: AtomicU64 = AtomicU64::new(0);

/// Wakes the thread.
static INTERVAL_CHANGES: Futex = Futex::new(0);

/// Publishes the statistics of the process: see the [module](self). From then on there is a sample each `interval`;
/// less than 10 milliseconds count as that. When this returns, the first sample can be read.
///
/// If they are published already, this changes the interval. If the program has closed the descriptor of the page
/// since, it makes a new one. Not for signal handlers. A program that unloads a library should not publish while
/// domains of [`srcu`](crate::srcu) exist that the unloaded library has made, unless stillpoint is part of it:
/// samples name places in its source.
///
/// # Errors
///
/// [`Unsupported`](io::ErrorKind::Unsupported) on systems other than 64-bit Linux. Otherwise the system's error if it
/// denies a file in memory, 260 KiB of memory, files of that size (`RLIMIT_FSIZE`), or a thread. Then nothing is
/// published that was not before, unless two threads publish at once.
pub fn publish(interval: Duration) -> io::Result<()> {
    let interval = interval.max(MIN_INTERVAL);
    if !register_for_fork(&FORK) || !is_pinned() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    if !PAGE.with(|page| page.as_ref().is_some_and(Page::is_open)) {
        let page = Page::create(&document::json(interval, Duration::ZERO))?;
        let replaced = PAGE.with(|published| published.replace(page));
        // The program's signals are not for this thread.
        let _blocked = block_signals();
        if replaced.is_none() && (starts_none() || !spawn(c"stillpoint-stat", run, ptr::null_mut())) {
            drop(PAGE.with(Option::take));
            return Err(io::Error::other("no thread can be started for the statistics"));
        }
    }
    INTERVAL.store(interval.as_nanos().try_into().unwrap_or(u64::MAX), Relaxed);
    // Relaxed: the interval is all that the thread looks for.
    INTERVAL_CHANGES.fetch_add(1, Relaxed);
    INTERVAL_CHANGES.wake(1, NonZeroU32::MAX);
    Ok(())
}

/// The main function of the thread: a sample, a pause, and so on.
extern "C" fn run(_: *mut c_void) -> *mut c_void {
    take_nice_of_main();
    let mut took = Duration::ZERO;
    loop {
        // Before the interval is read: a change after that ends the pause.
        let changes = INTERVAL_CHANGES.load(Relaxed);
        let interval = Duration::from_nanos(INTERVAL.load(Relaxed)).max(MIN_INTERVAL);
        let begin = now();
        // It panics if a system call does that should not. A program does not end for its statistics.
        let sample = catch_unwind(|| document::json(interval, took)).unwrap_or_default();
        took = Duration::from_nanos(now() - begin);
        // There is none if the start of another thread has failed in the meantime.
        if PAGE.with(|page| page.as_mut().map(|page| page.write(&sample))).is_none() {
            return ptr::null_mut();
        }
        INTERVAL_CHANGES.wait_timeout(changes, NonZeroU32::MAX, interval.max(took * REST));
    }
}

static FORK: ForkHook =
    ForkHook { order: 9, prepare: || PAGE.hold(), parent: || PAGE.release(), child: in_child };

init_array!(register_for_fork(&FORK));

/// The child has neither the thread nor the mapping of the page.
///
/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    PAGE.with(|page| _ = page.take().map(Page::close_in_child));
    PAGE.release();
}
