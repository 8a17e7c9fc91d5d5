#![cfg_attr(loom, allow(missing_docs, dead_code))]

//! Scalable synchronization, made for Linux user space.
//!
//! For programs in which many threads read and few write. Readers pay next to nothing: instead of a fence in each
//! read, a writer makes all running threads execute one, by `membarrier(2)`. Per-CPU data uses restartable sequences
//! (`rseq(2)`), and waiting threads sleep in `futex(2)`. The API is safe, except for data structures that link their
//! own nodes.
//!
//! | module | provides | for |
//! |---|---|---|
//! | [`rcu`] | reads that take about a nanosecond and never wait; writers wait for a *grace period* | data that is read far more often than written: configuration, routing, connection tables |
//! | [`qsbr`] | reads that are a plain load, in threads that report now and then that they hold no references (*quiescent states*) | loops that read all the time: packet processing, event loops, interpreters |
//! | [`srcu`] | domains created at run time, whose readers may sleep, move to other threads and hold a guard across `.await` | async code, readers that wait for something |
//! | [`arc`] | atomic `Arc`s, whose guards may be kept, sent and held across `.await` | configuration that requests hold on to |
//! | [`hazard`] | hazard pointers: a reader protects single values, for as long as it likes, and keeps no other from being freed | lists, trees and tables with readers that may stall or take long |
//! | [`percpu`] | counters, histograms, pools and reference counts per CPU, changed without locked instructions | data that every thread changes all the time and few threads read |
//! | [`fence`] | a process-wide memory barrier: free on the frequent side, a system call on the rare side | algorithms of your own with a hot and a cold side |
//! | [`lock`] | a mutex of four bytes that keeps its throughput, and bounds the waits, when threads outnumber CPUs; a reader-writer lock with per-CPU readers | data that many threads change in short critical sections |
//!
//! ```
//! use stillpoint::rcu::{self, Rcu};
//!
//! let limits = Rcu::new(vec![10, 20, 30]);
//!
//! // In any thread, as often as needed:
//! let guard = rcu::enter();
//! let sum: i32 = limits.load(&guard).iter().sum();
//! assert_eq!(sum, 60);
//! drop(guard);
//!
//! // Now and then:
//! limits.replace(vec![11, 22, 33]);
//! ```
//!
//! The [`guide`] says which module is for which job, and how to port code from other libraries.
//!
//! # Features
//!
//! `lock`, `percpu` and `srcu` are on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `tracing` | each [stall report](rcu#stalls) is an event for [tracing](https://docs.rs/tracing), in place of a line on standard error: its target is `stillpoint`, its level `WARN`, and its fields are `domain`, `number` (of the grace period within its domain) and `waited` |
//! | `metrics` | the module `metrics`: the statistics, for recorders of [metrics](https://docs.rs/metrics) |
//! | `statistics-page` | the module `statistics_page`: statistics in memory that the command `stillpoint top PID` reads from another process, on 64-bit Linux |
//! | `usdt` | static probes for bpftrace, perf and gdb, on slow paths: grace periods, callbacks, throttling, locks (`docs/probes.md`) |
//! | `section-locations` | [stall reports](rcu#stalls) name where the open sections began, in [`rcu`] and [`srcu`]: each section stores its place |
//! | `lock`, `percpu`, `srcu` | the modules of these names |
//! | `lock_api_05` | [`lock::RawMutex`], [`lock::RawRwLock`] and [`lock::Condvar`] for `lock_api` 0.5 as well, which needs Rust 1.95 |
//! | `send_guard` | guards of [`lock::Mutex`] may be sent to other threads |
//!
//! # Platforms
//!
//! Every target of the standard library that has atomics of 64 bits, and Rust 1.85 or later. The library is made for
//! 64-bit Linux, with glibc 2.17 or later or musl. There, each kernel feature has a fallback:
//!
//! | feature | since | without it |
//! |---|---|---|
//! | `membarrier`, `PRIVATE_EXPEDITED` | Linux 4.14 | readers execute a fence: see [`fence::report`] |
//! | `rseq` | Linux 4.18, registered by glibc 2.35 or by this crate | [`percpu`] uses atomic instructions |
//!
//! On other systems there is no rseq, and threads wait in queues of `parking_lot_core`. Windows for x86 has a
//! process-wide fence (`FlushProcessWriteBuffers`); elsewhere readers execute full fences. The child of a `fork` may
//! only `exec` or `_exit` there, signal handlers may not use the library, a global allocator may use [`percpu`] only,
//! and a shared library that contains this crate must not be unloaded.
//!
//! On Linux, a shared library that contains this crate stays mapped until the process ends: `dlclose(3)` returns, but
//! unmaps nothing (`RTLD_NODELETE`). Threads that used the crate run its code when they exit, an idle worker sleeps
//! in it, and the kernel may still read the descriptor of an rseq critical section.

// A part that is left out leaves what only it uses.
#![cfg_attr(
    not(all(feature = "lock", feature = "percpu", feature = "srcu")),
    allow(dead_code, unused_imports)
)]

#[cfg(not(target_has_atomic = "64"))]
compile_error!("stillpoint needs atomics of 64 bits, which this target lacks");

// Nothing else there: the compiler would report each use of them.
#[cfg(all(target_has_atomic = "64", not(loom)))]
pub mod arc;
#[cfg(all(target_has_atomic = "64", not(loom)))]
mod domain;
#[cfg(all(target_has_atomic = "64", not(loom)))]
pub mod fence;
#[cfg(all(target_has_atomic = "64", not(loom)))]
mod grace_period;
#[cfg(all(target_has_atomic = "64", any(doc, doctest)))]
pub mod guide;
#[cfg(all(target_has_atomic = "64", not(loom)))]
pub mod hazard;
#[cfg(all(target_has_atomic = "64", feature = "lock"))]
pub mod lock;
#[cfg(all(target_has_atomic = "64", feature = "metrics", not(loom)))]
pub mod metrics;
#[cfg(all(target_has_atomic = "64", feature = "percpu", not(loom)))]
pub mod percpu;
#[cfg(all(target_has_atomic = "64", not(feature = "percpu"), not(loom)))]
#[cfg(any(feature = "lock", feature = "srcu"))]
mod percpu;
#[cfg(all(target_has_atomic = "64", not(loom)))]
mod pointer;
mod probes;
#[cfg(all(target_has_atomic = "64", not(loom)))]
pub mod qsbr;
#[cfg(all(target_has_atomic = "64", not(loom)))]
pub mod rcu;
#[cfg(all(target_has_atomic = "64", not(loom)))]
mod readers;
#[cfg(all(target_has_atomic = "64", not(loom)))]
mod reclaim;
#[cfg(all(target_has_atomic = "64", not(loom)))]
mod slots;
#[cfg(all(target_has_atomic = "64", feature = "srcu", not(loom)))]
pub mod srcu;
#[cfg(all(target_has_atomic = "64", feature = "statistics-page", not(loom)))]
pub mod statistics_page;
#[cfg(all(target_has_atomic = "64", not(loom)))]
mod sync;
#[cfg(all(target_has_atomic = "64", not(loom)))]
#[cfg_attr(stillpoint_portable, path = "sys/portable/mod.rs")]
mod sys;

#[cfg(all(target_has_atomic = "64", not(loom)))]
pub use domain::api::{Domain, EnterSection};
#[cfg(target_has_atomic = "64")]
#[doc(hidden)]
pub use sync::mutant;

/// For the packages in `dropins/liburcu/`, without a stable interface.
#[cfg(all(target_has_atomic = "64", feature = "_urcu", not(any(loom, stillpoint_portable))))]
#[doc(hidden)]
pub mod urcu {
    pub use crate::fence::backend::in_child as reset_fence_in_child;
    pub use crate::grace_period::counters::GpCounters;
    pub use crate::grace_period::detector::StallDetector;
    pub use crate::grace_period::engine::{Engine, GpCookie, Leader, ReaderSet};
    pub use crate::sync::ForkSafe;
    pub use crate::sync::native::{
        AtomicPtr, AtomicU32, AtomicU64, Futex32, Mutex, MutexGuard, budget, fence, has_normal_policy, now,
        outnumber_cpus, spin_loop, yield_now,
    };
    pub use crate::sys::fork::at_fork;
    pub use crate::sys::{futex_wait, futex_wake};
}

// The algorithms, for the models in `tests/loom/`: without the statics, thread-locals and public types above them.
#[cfg(loom)]
pub mod arc;
#[cfg(loom)]
#[path = "fence/loom.rs"]
pub mod fence;
#[cfg(loom)]
pub mod grace_period;
#[cfg(loom)]
pub mod percpu {
    pub mod count;
    #[path = "loom.rs"]
    pub mod cpu_counters;
    #[path = "loom_words.rs"]
    pub mod words;
}
#[cfg(loom)]
#[path = "hazard/loom.rs"]
pub mod hazard;
#[cfg(loom)]
#[path = "rcu/loom.rs"]
pub mod rcu;
#[cfg(loom)]
pub mod readers;
#[cfg(loom)]
pub mod reclaim;
#[cfg(loom)]
pub mod slots;
#[cfg(loom)]
pub mod srcu {
    pub mod handles;
}
#[cfg(loom)]
pub mod pointer;
#[cfg(loom)]
pub use rcu::Domain;
#[cfg(loom)]
pub mod sync;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
