//! Per-CPU data, updated without locked instructions.
//!
//! A counter that all CPUs increment is a cache line that moves between them. A word for each CPU does not move. But
//! a thread may be migrated between finding its word and changing it, so the change still needs a `lock` instruction,
//! unless it is made in a *restartable sequence* (`rseq(2)`): a few instructions that end with one store. If the
//! kernel preempts or migrates the thread, or delivers a signal, before that store, the thread continues at an abort
//! handler, which tries again or falls back. The idea comes from the per-CPU critical sections of Paul Turner and
//! Andrew Hunter (2015).
//!
//! | container | what it is |
//! |---|---|
//! | [`Counter`] | a number that is added to often and read seldom, exact |
//! | [`Histogram`], [`BucketHistogram`] | exact counts of values by size, and their sum |
//! | [`Pool`] | a bounded pool of boxes for reuse |
//! | [`RefCount`] | a count of references or of operations in flight, which finds out when it is zero after it has been killed |
//! | [`Arc`] | a shared pointer whose clones are counted so; its owner may have the value back |
//!
//! [`cpu()`] returns the number of the current CPU, without a call.
//!
//! # Metrics
//!
//! `stillpoint_collections::Family` has series by labels. The example `metrics_recorder` in `bindings/facades` is a
//! recorder for the crate `metrics`, and writes the format of Prometheus by the encoder of `prometheus-client`.
//! OpenTelemetry's SDK takes no aggregator from outside, but its observable counters read these at each collection:
//! `meter.u64_observable_counter("requests").with_callback(|it| it.observe(REQUESTS.get(), &[]))`.
//!
//! # Without rseq
//!
//! Operations fall back to atomic instructions on old kernels, under valgrind, in sandboxes, on other architectures,
//! in threads that cannot be registered, and if a debugger interrupts every attempt. This may differ between threads,
//! and from one moment to the next: critical sections and atomic instructions write different words, and readers read
//! both. The environment variable `STILLPOINT_PERCPU=atomic` selects the fallback for the process.
//! [`report`] returns the mode and the reason.
//!
//! # Trade-offs
//!
//! - Counters, histograms and counts share areas, of which there is one for each CPU that the machine may ever have.
//!   Of CPUs on which none was used, these are addresses without memory; a pool takes memory for them. Where `/sys`
//!   is hidden or not the kernel's own, as in some containers, their number is rounded up to a multiple of 64.
//! - Memory goes back to the system when a whole area is free. Of each size, one area is kept.
//! - A process that is checkpointed (CRIU) can be restored only on a machine with no more possible CPUs.
//! - Reads visit a word of each CPU up to the last one on which the object was used, at some nanoseconds each. A read
//!   is not a snapshot.
//! - glibc registers threads since 2.35. With other C libraries a thread's first operation registers it, which
//!   allocates, and every operation takes a few nanoseconds more.
//! - Operations may be used in signal handlers, except for those that allocate: the first one of the process (also
//!   [`report`]), the first one on a counter or histogram (see [`Counter::prepare`]), and the first one of a thread
//!   that must be registered ([`register_thread`]). In a library that is loaded at run time (`dlopen`), a thread's
//!   first operation on a slow path may allocate too: the C library allocates thread-local variables at their first
//!   use.
//! - A shared library with this crate is never unmapped. If the dynamic linker cannot ensure that, critical sections
//!   are not used.
//! - A thread that is preempted within a critical section restarts it, which takes nanoseconds.
//! - The child of a `fork` may use this module, unless a signal handler forked in the middle of an operation. The
//!   child of a `vfork` must not: it shares the memory of its parent but is not registered.

#[cfg(feature = "percpu")]
mod arc;
#[cfg(feature = "percpu")]
mod arc_inner;
#[cfg(feature = "percpu")]
mod count;
#[cfg(feature = "percpu")]
mod counter;
pub(crate) mod cpu_counters;
#[cfg(feature = "percpu")]
mod histogram;
#[cfg(feature = "percpu")]
mod into_inner;
mod memory;
#[cfg(feature = "percpu")]
mod overflow;
#[cfg(feature = "percpu")]
mod owner;
#[cfg(feature = "percpu")]
mod pool;
#[cfg(feature = "percpu")]
mod ref_count;
#[cfg(feature = "percpu")]
mod remote;
mod rseq;
#[cfg(feature = "percpu")]
mod snapshot;
mod words;
#[cfg(feature = "percpu")]
mod zero;

#[cfg(feature = "percpu")]
pub use arc::{Arc, ArcOwner};
#[cfg(feature = "percpu")]
pub use counter::Counter;
#[cfg(feature = "percpu")]
pub use histogram::{BucketHistogram, Histogram};
#[cfg(feature = "percpu")]
pub use into_inner::IntoInner;
#[cfg(feature = "percpu")]
pub use pool::Pool;
#[cfg(feature = "percpu")]
pub use ref_count::{RefCount, Reference, Zero};
pub use rseq::cpu_number::cpu;
#[cfg(stillpoint_faults)]
pub use rseq::faults;
pub use rseq::registration::{Mode, Report, register_thread, report};
#[cfg(feature = "percpu")]
pub use snapshot::Snapshot;
