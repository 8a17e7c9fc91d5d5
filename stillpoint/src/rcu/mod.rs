//! Read-copy update: reads take about a nanosecond and never wait; writers wait for a *grace period*.
//!
//! A reader begins a *read-side critical section* ([`enter`]), a section for short. It loads pointers ([`Rcu::load`])
//! and uses the values behind them until it drops the guard. A writer publishes a new value ([`Rcu::replace`]) and
//! disposes of the old one after a grace period: when every section that was open has ended. Readers write only to a
//! cache line of their own, take no lock and execute no fence. The writer pays for both sides, by one
//! [`fence::heavy`](crate::fence::heavy) per grace period.
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
//!     // Drop the old table when its readers are gone ...
//!     routes.replace(vec![("10.0.0.0/8", "eth1")]);
//!     // ... or wait for them and take it back.
//!     let old = routes.replace(vec![("10.0.0.0/8", "eth2")]).wait();
//!     assert_eq!(old[0].1, "eth1");
//! });
//! ```
//!
//! # Threads
//!
//! A thread registers itself at its first read, and unregisters when it exits. A destructor of thread-specific data
//! (`pthread_key_create(3)`) may read and defer too. A thread that uses a domain for the *first* time in the last round
//! of these destructors, the fourth in glibc, leaves its reader record behind. A shared library that contains this
//! crate is not unmapped by `dlclose(3)`, since exiting threads run its code.
//!
//! A global allocator may read in each of its calls, from the first one in the process on.
//!
//! # Signal handlers
//!
//! A handler may read if its thread is registered and has not yet run its thread-local destructors. Registering may
//! allocate, and take a lock (signal backend of the fence), and a library that was loaded by `dlopen(3)` allocates its
//! thread-local variables at their first use: so call [`register`] before. A handler must not call [`synchronize`] or
//! [`retire`], nor drop a [`Retired`]. If it interrupts the end of a section in which its thread retired values, it
//! does the work that was due there: it frees some of them, and blocks if too many remain.
//!
//! # Domains
//!
//! The functions of this module use the domain [`Global`]. [`domain!`](crate::domain) defines further domains, whose
//! grace periods wait for their own readers only. The trait [`Domain`](crate::Domain) has the operations of all
//! domains, for generic code.
//!
//! # Cookies
//!
//! A [`GracePeriod`] is a *cookie*: a number that stands for a grace period. Take one after unpublishing something;
//! later poll it, wait for it with or without a timeout, or `.await` it on any executor.
//!
//! # Deferred callbacks
//!
//! [`call`] and [`retire`] run a callback or a destructor after a grace period; so does dropping a [`Retired`]. Each
//! thread appends to its own queue, by a few plain stores. The worker thread of the domain starts with the first
//! callback and sleeps while there is none. It waits for one grace period for all queued callbacks, then runs them. Its
//! grace periods begin at least one millisecond apart unless the backlog is long, so a busy writer causes at most a
//! thousand interrupts a second. Before the first one it waits for 0.1 ms, so that a caller that defers something and
//! then calls [`synchronize`] leads the grace period that serves both. [`DeferOptions::lazy`] lets a callback wait for
//! others; [`barrier`] waits until all have run.
//!
//! | thread | work |
//! |---|---|
//! | the worker of the domain | runs callbacks and destructors of retired values; frees values of threads that defer nothing more |
//! | the retiring thread | frees its values without destructors; runs destructors with [`DeferOptions::run_on_retiring_thread`] |
//!
//! The backlog is bounded ([`set_limits`]): above the limit a retiring thread blocks until less is left, in [`retire`]
//! itself, or, inside a section, when it leaves the outermost one. A callback that blocks delays callbacks of its own
//! domain only: each domain with queued callbacks has its own worker, and one idle worker thread is kept for all
//! domains.
//!
//! # Waiting
//!
//! There is no separate expedited grace period. One that no reader delays takes a few microseconds, most of them in
//! `membarrier`, which interrupts only CPUs that run this process. Threads that cannot tolerate interrupts use
//! [`qsbr`](crate::qsbr), whose grace periods interrupt no CPU. (Its worker does, before it sleeps: such programs call
//! [`qsbr::synchronize`](crate::qsbr::synchronize) and defer nothing.)
//!
//! # Stalls
//!
//! A grace period that has waited for 10 seconds reports on standard error which threads it waits for and where they
//! registered, again after 20, and so on; with the feature `tracing`, a subscriber gets an event instead.
//! [`set_stall_timeout`] and [`set_stall_hook`] change that. [`Stats::longest_wait`] and [`Stats::stalls`] count.
//!
//! A leaked guard (`mem::forget`, `Box::leak`) may have lent references for ever, so its section never ends: grace
//! periods of the domain wait for it, and nothing is freed. That holds even after its thread has exited; the report
//! then says so ([`StalledReader::has_exited`]). If a late destructor of the thread drops the guard, grace periods go
//! on.
//!
//! # Checks
//!
//! In debug builds every wait asserts that a full grace period has passed, by a count that is independent of the
//! algorithm. That costs each grace period and each caller a few atomic operations, and readers nothing.
//!
//! # Fork
//!
//! The child of a `fork` can use the library at once, whatever other threads of its parent were doing. It starts with
//! one thread, which is still inside the sections in which it forked.
//!
//! - *Callbacks deferred before the fork run in the parent only.* The child neither runs nor drops its copies, and its
//!   [`barrier`] does not wait for them. Callbacks that the child defers run in workers that it starts when they are
//!   needed.
//! - Sections of other threads are over in the child. References that they lent to the forking thread must not be used
//!   there.
//! - Futures that were polled before the fork must be polled again in the child to be woken there.
//! - Callbacks, destructors of retired values, wakers and [stall hooks](set_stall_hook) may fork, but must not return
//!   in the child, which must `exec` or `_exit`.
//!
//! Workers are not threads of `std`, which promises less: a child cannot call `std::thread::spawn` if another thread
//! was starting or exiting at the fork.
//!
//! Not supported: a fork in a signal handler that interrupted a function of this library; use in handlers of
//! `pthread_atfork(3)`; processes created without the C library's `fork` (`_Fork`, `clone`), unless they `exec`.
//!
//! # Trade-offs
//!
//! - A long section delays every grace period of its domain, and thereby the memory that waits to be freed. It never
//!   delays readers that retire nothing.
//! - A reader that a sleeping grace period waits for wakes it on leaving, and yields its CPU once: one or two system
//!   calls.
//! - [`synchronize`] costs a heavy fence, a look at each registered thread, and the rest of the longest open section.
//!   Concurrent callers share that cost; consecutive calls do not. A writer in a loop should drop the [`Retired`]
//!   instead of waiting.
//! - Two threads deadlock if each waits, inside a section of one domain, for a grace period of the domain whose section
//!   the other is in. Waiting inside a section of the *same* domain panics. The same goes for [`barrier`] and
//!   callbacks.
//! - One worker runs the callbacks of a domain one after the other, since the thread that deferred one may hold a lock
//!   that the callback takes. A program that defers faster is throttled. Values without destructors, and those with
//!   [`DeferOptions::run_on_retiring_thread`], are freed by the threads that retire them, several times faster.
//! - The readers' orderings rely on the compiler fence and on `membarrier`, which the language's memory model does not
//!   cover. They are measured and tested on x86-64 only. `docs/proof.md` says what has been checked and how.
//!
//! # Sources
//!
//! McKenney and Slingwine, *Read-copy update* (1998); Desnoyers, McKenney, Stern, Dagenais and Walpole, *User-level
//! implementations of read-copy update* (2012). The source of the engine argues the grace period with one fence and one
//! pass, and the countdown of readers that a grace period waits for.

mod api;
mod block_on;
mod grace_period;
mod guard;
mod pointer;
mod published_ptr;

pub use api::{
    barrier, call, call_with, enter, in_read_section, register, retire, retire_all, retire_raw, retire_with,
    set_limits, stats, synchronize,
};
pub use grace_period::{Elapse, GracePeriod, WaitTimeoutError};
pub use guard::{Global, Guard, RcuDomain};
pub use pointer::{Rcu, Retired};

pub use crate::domain::stats::Stats;
pub use crate::grace_period::stall::{
    Stall, StalledReader, set_stall_hook, set_stall_timeout, take_stall_hook,
};
pub use crate::reclaim::backlog::Limits;
pub use crate::reclaim::options::DeferOptions;

// For the macros that define domains.
#[doc(hidden)]
pub use crate::domain::raw::Messages;
#[doc(hidden)]
pub use crate::domain::static_domain::{DomainState, StaticDomain, ThreadState};
#[doc(hidden)]
pub use crate::readers::threads::Memb;
#[doc(hidden)]
pub use guard::MESSAGES;
