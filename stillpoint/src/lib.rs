#![cfg_attr(loom, allow(missing_docs, dead_code))]

//! Scalable synchronization for Linux user space.
//!
//! For programs in which many threads read and few write. Linux lets a rare writer pay for its frequent readers, through
//! `membarrier(2)` and `futex(2)`; this crate is that bargain behind a safe API.
//!
//! | part | what it gives | when to use it |
//! |---|---|---|
//! | [`rcu`] | reads that cost about a nanosecond and never wait; writers that wait for a grace period | data that is read far more often than written: configuration, routing, connection tables |
//! | [`qsbr`] | reads that are nothing but a load, for threads that report when they hold no references | loops that read all the time: packet processing, event loops, interpreters |
//! | [`srcu`] | domains made at run time, whose readers may sleep, move to other threads and hold a guard over `.await` | async code, sections that wait for something |
//! | [`percpu`] | counters, histograms and pools that each CPU has for itself, changed without locked instructions | what every thread changes all the time, and few read |
//! | [`fence`] | a process-wide memory barrier: the frequent side pays nothing, the rare side one system call | your own algorithm with a hot and a cold side |
//! | [`lock`] | a mutex of four bytes that keeps its throughput, and bounds the waits, when threads outnumber CPUs | data that threads change in short sections, where there are many of them |
//!
//! ```
//! use stillpoint::rcu::{self, Rcu};
//!
//! let limits = Rcu::new(vec![10, 20, 30]);
//!
//! // Any thread, as often as it likes:
//! let guard = rcu::enter();
//! let sum: i32 = limits.load(&guard).iter().sum();
//! assert_eq!(sum, 60);
//! drop(guard);
//!
//! // Now and then:
//! limits.replace(vec![11, 22, 33]);
//! ```
//!
//! The [`guide`] says which part is for which job, and how to come here from other ways of doing it.
//!
//! # Features
//!
//! None is on by default, and none costs anything where it is off.
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | events of the target `stillpoint`, for subscribers of [tracing](https://docs.rs/tracing): each grace period at the level `TRACE`, or `DEBUG` if readers held it up; each [report of a stall](rcu#stalls) at the level `WARN`, in place of a line on the standard error |
//! | `metrics` | the module `metrics`: the statistics for recorders of [metrics](https://docs.rs/metrics) |
//! | `lock-events` | `lock::events()`: what happened in locks |
//! | `signal-fence` | [`fence::Backend::Signal`]: fences by signals, for processes that are denied `membarrier` and whose readers cannot afford a fence |
//! | `lock_api_04` | [`lock::RawMutex`] for `lock_api` 0.4 too |
//!
//! Events have the fields `domain` and `number`, which grace period of that it is; and `took`, or, of a stall, `waited`.
//!
//! Readers never pay for any of them. A subscriber is called by the thread that has led a grace period, when that has ended and
//! nobody waits for it any more; it may do there what that thread may, and what it waits for makes no events in turn. Without a
//! subscriber a grace period takes some nanoseconds more.
//!
//! # Where it runs
//!
//! 64-bit Linux, with glibc 2.17 or later or musl, and Rust 1.95 or later. Each kernel feature has a fallback:
//!
//! | feature | since | without it |
//! |---|---|---|
//! | `membarrier`, `PRIVATE_EXPEDITED` | Linux 4.14 | readers execute a fence: see [`fence::report`] |
//! | `rseq` | Linux 4.18, registered by glibc 2.35 or by this crate | [`percpu`] uses atomic instructions |
//!
//! A shared library that contains this crate stays mapped until the process ends: `dlclose(3)` returns, but unmaps nothing
//! (`RTLD_NODELETE`). Threads that used it run its code when they end, an idle worker sleeps in it, and the kernel may still read the
//! descriptor of a critical section.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("stillpoint runs on 64-bit Linux only: it is built on membarrier(2), futex(2) and rseq(2)");

#[cfg(not(loom))]
mod domain;
#[cfg(not(loom))]
pub mod fence;
#[cfg(not(loom))]
mod grace_period;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod lock;
#[cfg(all(feature = "metrics", not(loom)))]
pub mod metrics;
#[cfg(not(loom))]
pub mod percpu;
#[cfg(not(loom))]
pub mod qsbr;
pub mod rcu;
#[cfg(not(loom))]
mod readers;
#[cfg(not(loom))]
mod reclaim;
pub mod srcu;
#[cfg(not(loom))]
mod sync;
#[cfg(not(loom))]
mod sys;

#[cfg(not(loom))]
pub use domain::api::Domain;

// What the models in `tests/loom_*.rs` check: the algorithms, without the statics and thread-locals above them.
#[cfg(loom)]
#[path = "fence/loom.rs"]
pub mod fence;
#[cfg(loom)]
pub mod grace_period;
#[cfg(loom)]
#[path = "percpu/loom.rs"]
pub mod percpu;
#[cfg(loom)]
pub mod readers;
#[cfg(loom)]
pub mod reclaim;
#[cfg(loom)]
pub mod sync;

#[cfg(all(test, not(loom)))]
#[path = "../tests/support/deadline.rs"]
mod deadline;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
