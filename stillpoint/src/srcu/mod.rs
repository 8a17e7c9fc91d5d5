//! Sleepable RCU: readers may sleep, move to other threads, and hold a guard across `.await`.
//!
//! As in [`crate::rcu`], a reader begins a read-side critical section ([`Domain::enter`]), loads pointers of the
//! domain ([`Rcu`](crate::rcu::Rcu)), and uses the values behind them until it drops the guard; a writer publishes a
//! new value and disposes of the old one after a grace period. Here the guard is not tied to a thread, and a domain
//! is a value instead of a type. The guide [compares](crate::guide#three-kinds-of-readers) both.
//!
//! ```
//! use stillpoint::rcu::{GracePeriod, Rcu};
//! use stillpoint::srcu::Domain;
//!
//! static SESSIONS: Domain = Domain::new();
//!
//! async fn greet(motd: &Rcu<String, Domain>) {
//!     let guard = SESSIONS.enter();
//!     let text = motd.load(&guard);
//!     send("hello").await; // may resume in another thread
//!     send(text).await;
//! }
//!
//! async fn change(motd: &Rcu<String, Domain>, text: String) {
//!     motd.replace(text);
//!     GracePeriod::now_in(SESSIONS.clone()).await;
//!     // From here on no task greets with the old text.
//! }
//!
//! # async fn send(_: &str) {}
//! # let motd = Rcu::new_in(String::from("welcome"), SESSIONS.clone());
//! # let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
//! # runtime.block_on(async { greet(&motd).await; change(&motd, String::from("bye")).await });
//! ```
//!
//! A spawned task takes an `Arc` of the pointer, and reads there; [`Domain::enter_owned`] returns a guard without a
//! lifetime.
//!
//! Cookies ([`GracePeriod`](crate::rcu::GracePeriod)), deferred callbacks, limits and stall reports are as in
//! [`crate::rcu`].
//!
//! # Guards
//!
//! A [`Guard`] borrows a handle of its domain. An [`OwnedGuard`] holds one, so a struct or a spawned task may contain
//! it. A long loop of reads ends its section now and then, and begins another: grace periods wait for each.
//!
//! # Handles
//!
//! A [`Domain`] is a handle, and a clone is another one; each [`Rcu`](crate::rcu::Rcu),
//! [`Retired`](crate::rcu::Retired), [`GracePeriod`](crate::rcu::GracePeriod) and [`OwnedGuard`] holds one. When the
//! last handle is dropped, no section can be open. Deferred callbacks still run as if there were one: in a worker,
//! or, if none can be started, in the thread that drops the handle. Then the memory is freed. To wait until they have
//! run, call [`barrier`](crate::Domain::barrier) before. The end of the program waits for none of this: see [what a
//! program does at its end](crate::guide::async_code#shutdown).
//!
//! # Stalls
//!
//! [Stalls](crate::rcu#stalls) are reported as in [`rcu`](crate::rcu), by the same hook and after the same time. As
//! sections do not belong to threads, a report has the number of open sections, and where the domain was made. With
//! the feature `section-locations` it also says where the sections began
//! ([`Stall::sections_begun_at`](crate::rcu::Stall::sections_begun_at)): each section then takes two atomic
//! operations more, on words that all sections share which begin at the same place.
//!
//! # Signal handlers
//!
//! A handler may begin and end sections, and load, if the domain has been used or [prepared](Domain::prepare). Where
//! the C library does not register threads for `rseq(2)`, its thread must have used per-CPU data too
//! ([`percpu::register_thread`](crate::percpu::register_thread)). The end of a section may wake a thread by a system
//! call. A handler must neither wait nor defer, nor drop what may be the last handle of a domain: a domain, or an
//! owned guard.
//!
//! # Fork
//!
//! As in [`crate::rcu`](crate::rcu#fork), except for sections, which are not tied to threads:
//!
//! - *Sections that were open at the fork are open in the child.* The forking thread ends its own there as in the
//!   parent. Those of other threads never end: grace periods of that domain wait for ever, and the stall report says
//!   why. Domains without an open section, and new ones, work.
//! - *Handles of other threads are never dropped in the child*, so such a domain is not freed there.
//! - A guard that another thread took or dropped during the fork must not be used or dropped in the child.
//!
//! # Trade-offs
//!
//! - A grace period waits for the longest section, which may sleep, and so does the memory of retired values.
//!   Sections that wait for a client should have a domain of their own.
//! - `synchronize`, `barrier` and the `.await` of a grace period inside a section of the same domain never return,
//!   and the library cannot detect that. The same goes for two tasks that wait inside sections of each other's
//!   domains.
//! - A leaked guard keeps all grace periods of its domain from ending, for ever, also without a handle: what is
//!   deferred then is leaked, too.
//! - A grace period sums four words of every CPU that the machine may ever have. With hundreds of CPUs that takes
//!   some microseconds, about as long as the heavy fence.
//! - A domain takes 320 bytes, and 32 for each CPU that the process runs on. The first callback or retired value adds
//!   3.2 KiB, and the first future, or [`set_limits`](crate::Domain::set_limits), 1.2 KiB of these.
//! - Threads that retire values while the backlog exceeds its [limits](crate::Domain::set_limits) continue at about a
//!   mebibyte a second, since they may be inside a section themselves: so one section should not retire more than the
//!   limits.
//! - A section takes two or three times as long as one of [`crate::rcu`], which readers that do not sleep should use.
//!
//! # Sources
//!
//! McKenney, *Sleepable RCU* (2006); the Linux kernel's Tree SRCU. The source (`readers/srcu.rs`) argues the
//! algorithm.

mod domain;
mod fork;
mod guard;
mod handles;
mod owned_guard;
mod queues;
mod state;

pub use domain::Domain;
pub use guard::{Guard, Section};
pub use owned_guard::OwnedGuard;
