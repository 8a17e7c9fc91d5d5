//! Read-copy update: reads that cost about a nanosecond and never wait, writers that wait for a *grace period*.
//!
//! A reader opens a section ([`enter`]), loads pointers ([`Rcu::load`]) and reads what they point to until it drops the
//! guard. A writer publishes a new value ([`Rcu::replace`]) and disposes of the old one after a grace period: when every
//! section that was open has ended. Readers write nothing that others read often, take no lock and execute no fence; the
//! writer pays for both sides, with one [`fence::heavy`](crate::fence::heavy) a grace period.
//!
//! ```
//! use std::thread;
//! use stillpoint::rcu::{self, Rcu};
//!
//! let routes = Rcu::new(vec![("10.0.0.0/8", "eth0")]);
//!
//! thread::scope(|s| {
//!     for _ in 0..4 {
//!         s.spawn(|| {
//!             for _ in 0..1000 {
//!                 let guard = rcu::enter();
//!                 let table = routes.load(&guard);
//!                 assert!(!table.is_empty());
//!             }
//!         });
//!     }
//!     // Drop the old table once nobody reads it any more ...
//!     routes.replace(vec![("10.0.0.0/8", "eth1")]);
//!     // ... or wait for that and have it back.
//!     let old = routes.replace(vec![("10.0.0.0/8", "eth2")]).wait();
//!     assert_eq!(old[0].1, "eth1");
//! });
//! ```
//!
//! # Threads
//!
//! A thread registers itself when it first reads, and leaves when it ends. Registering may allocate and take a lock (with
//! the signal backend of the fence), so a thread whose signal handlers read should call [`register`] before. Reading in a
//! handler is fine from then on, until the thread's destructors have run; [`synchronize`], [`retire`], and dropping a [`Retired`]
//! are not. A handler that interrupts the end of a section in which its thread has retired values does in its place what the
//! thread was about to do: it frees some of them, and waits if too many are left. In a library that was loaded by `dlopen(3)` the C library allocates thread-local variables at
//! their first use in a thread: another reason to register before.
//!
//! A global allocator may read in each of its calls, from the first one of the process on.
//!
//! Destructors of thread-specific data (`pthread_key_create(3)`) may read and defer too, in whatever order the C library calls
//! them. Only a thread whose *first* use of a domain comes in the last round of these destructors, the fourth in glibc, leaves its
//! reader behind.
//!
//! A thread leaves by code of this crate, and workers never end. So a shared library that contains the crate is not unmapped by
//! `dlclose(3)`.
//!
//! # Domains
//!
//! The functions of this module use [`Global`]. [`domain!`](crate::domain) makes other domains, whose grace periods wait for their
//! own readers only. [`Domain`](crate::Domain) has what all domains can do, and is the bound for generic code.
//!
//! # Cookies
//!
//! A [`GracePeriod`] is a moment to ask after: take one when something was unpublished, and look later whether all who
//! might have seen it are gone, wait with a timeout, or `.await` it on any executor.
//!
//! # Deferred work
//!
//! [`call`] and [`retire`] leave something to be done after a grace period; dropping a [`Retired`] does the same. Each thread
//! appends to a queue of its own, with a few plain stores. A worker, which is started when there is first something to do and
//! sleeps while there is nothing, gives all that it finds one grace period and does it. Unless much
//! is queued, its grace periods begin a millisecond apart, so that a busy writer costs the readers a thousand interrupts a second
//! at most; and it lingers for a tenth of that before the first, so that a caller that defers something and then waits in
//! [`synchronize`] leads the grace period that serves both. [`DeferOptions::lazy`] lets work wait for company, [`barrier`] waits until all is done.
//!
//! | where | what runs there |
//! |---|---|
//! | the worker of the domain | callbacks; destructors of retired values; memory of values whose thread has nothing more to do |
//! | the thread that retires | memory of its values without destructors; destructors with [`DeferOptions::run_on_retiring_thread`] |
//!
//! What waits is bounded ([`set_limits`]): a thread that retires more waits until less is left, in [`retire`] itself, or, if it
//! retired inside a section, where it leaves the outermost one. A callback that blocks delays the work of its own domain only: each domain with work to do has a worker for itself, and one idle worker
//! remains for all.
//!
//! # Waiting
//!
//! There is one kind of waiting, not an expedited and a relaxed one. A grace period that no reader holds up takes some
//! microseconds, most of them the `membarrier` call, so a caller would gain nothing by another kind. It interrupts only CPUs
//! that run this process. Threads that cannot bear an interrupt use [`qsbr`](crate::qsbr): its grace periods interrupt no CPU. (Its worker
//! does, before it sleeps: such programs wait in [`qsbr::synchronize`](crate::qsbr::synchronize) instead of deferring.)
//!
//! # Stalls
//!
//! A grace period that has waited for 10 seconds says on the standard error for which threads, and where they registered;
//! again after 20, and so on; with the feature `tracing`, in an event if a subscriber takes it. [`set_stall_timeout`] and [`set_stall_hook`] change that; [`Stats::longest_wait`] and
//! [`Stats::stalls`] keep count.
//!
//! A leaked guard (`mem::forget`, `Box::leak`) never ends its section, as it may have lent references for ever: grace periods of the
//! domain wait for it, and nothing is freed. That also holds once its thread has exited, and then the report says so
//! ([`StalledReader::has_exited`]). If one of the thread's last destructors drops the guard, grace periods go on.
//!
//! # Checks
//!
//! In debug builds every wait for a grace period asserts on return that a full one has passed, by a count that is kept apart from
//! the algorithm. It costs a few atomic operations a grace period and caller, and readers nothing.
//!
//! # Fork
//!
//! The child of a `fork` works at once, whatever the other threads of its parent were doing. It starts as a process with one
//! thread, the one that forked, which is still inside the sections that it was in.
//!
//! - *What was deferred before the fork is done by the parent, and there only.* The child's copies are neither run nor
//!   dropped, and its [`barrier`] does not wait for them. What the child defers it does itself, in workers that it starts
//!   when they are needed.
//! - Sections of other threads are over in the child. References that these lent to the thread that forked must not be used
//!   there.
//! - Futures that were polled before are polled again in the child, or they are not woken there.
//! - Callbacks, destructors of retired values, wakers and [hooks for stalls](set_stall_hook) may fork, but must not return in the
//!   child: it must `exec` or `_exit`.
//!
//! Rust's standard library makes no such promise: a child cannot use `std::thread::spawn` if such a thread was starting or
//! ending at the fork. The workers here are not such threads.
//!
//! Not supported: forking in a signal handler that interrupted a function of this library; using it in a handler of
//! `pthread_atfork(3)`; and processes made past the C library's `fork` (`_Fork`, `clone`), unless they `exec`.
//!
//! # Trade-offs
//!
//! - A section that is long delays every grace period of its domain, and with them the memory that waits to be freed. It
//!   never delays readers that retire nothing.
//! - A reader that a grace period sleeps for wakes it on leaving, and yields its CPU once: a system call or two.
//! - [`synchronize`] takes a heavy fence, a look at each registered thread, and the rest of the longest open section. Ten
//!   writers who call it at once share the cost; one who calls it ten times does not. Writers in a loop should drop the
//!   [`Retired`] instead of waiting.
//! - Two threads that each wait for a grace period of a domain inside a section of the other's wait for ever. Waiting
//!   inside a section of the *same* domain panics. So it is with [`barrier`] and callbacks.
//! - What is deferred in one domain is done by one worker, one thing after the other, as whoever defers it may hold a lock that it
//!   takes. A program that defers faster than that is made to wait. Values without destructors, and those with
//!   [`DeferOptions::run_on_retiring_thread`], are freed by the threads that retire them, and several times faster.
//! - The reader's orderings rest on the compiler fence being one and on `membarrier`, which the language's memory model
//!   does not know; they are measured and tested on x86-64 only. `docs/proof.md` says what has been checked and how.
//!
//! # Sources
//!
//! McKenney and Slingwine, *Read-copy update* (1998); Desnoyers, McKenney, Stern, Dagenais and Walpole, *User-level
//! implementations of read-copy update* (2012). The grace period with one fence and one pass, and the countdown of awaited
//! readers, are argued in the source of the engine.

#[cfg(not(loom))]
mod api;
#[cfg(not(loom))]
pub(crate) mod block_on;
#[cfg(loom)]
pub mod block_on;
#[cfg(not(loom))]
mod grace_period;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod pointer;
#[cfg(not(loom))]
pub(crate) mod published_ptr;
#[cfg(loom)]
pub mod published_ptr;

#[cfg(not(loom))]
pub use api::{
    barrier, call, call_with, enter, in_read_section, register, retire, retire_all, retire_raw, retire_with,
    set_limits, stats, synchronize,
};
#[cfg(not(loom))]
pub use grace_period::{Elapse, GracePeriod, WaitTimeoutError};
#[cfg(not(loom))]
pub use guard::{Global, Guard, RcuDomain};
#[cfg(not(loom))]
pub use pointer::{Rcu, Retired};

#[cfg(not(loom))]
#[doc(hidden)]
pub use crate::domain::static_domain::{DomainState, StaticDomain, ThreadState};
#[cfg(not(loom))]
pub use crate::domain::stats::Stats;
#[cfg(not(loom))]
pub use crate::grace_period::stall::{
    Stall, StalledReader, set_stall_hook, set_stall_timeout, take_stall_hook,
};
#[doc(hidden)]
pub use crate::readers::threads::Memb;
pub use crate::reclaim::backlog::Limits;
#[cfg(not(loom))]
pub use crate::reclaim::options::DeferOptions;
