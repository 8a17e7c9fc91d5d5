//! Atomic `Arc`s: a pointer that is loaded all the time and replaced now and then, whose guards may be kept.
//!
//! An [`ArcCell`] holds an `Arc`. [`load`](ArcCell::load) returns a [`Guard`], which dereferences to it, costs no
//! change of the count, and may be sent to other threads, kept in structures and held across `.await`: it keeps its
//! own value alive, and no other.
//!
//! ```
//! use std::sync::Arc;
//! use stillpoint::arc::ArcCell;
//!
//! struct Config {
//!     name: String,
//! }
//!
//! async fn serve(config: &ArcCell<Arc<Config>>) -> String {
//!     let config = config.load();
//!     wait_for_the_client().await;
//!     format!("hello from {}", config.name)
//! }
//! # async fn wait_for_the_client() {}
//!
//! let config = ArcCell::new(Arc::new(Config { name: "a".into() }));
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # assert_eq!(runtime.block_on(serve(&config)), "hello from a");
//! config.store(Arc::new(Config { name: "b".into() }));
//! ```
//!
//! # Which strategy
//!
//! | | a load | a store | destructors run | values |
//! |---|---|---|---|---|
//! | [`Exact`], the default | a guard | waits for a grace period: microseconds | in the storing thread, or where the last guard is dropped | any |
//! | [`Deferred`] | the same | does not wait | soon, in a worker | `Send`, `'static` |
//! | [`Cache`], of any of these | a comparison | the same | the same, and when each cache is next used | the same |
//!
//! # When it is the right part
//!
//! | you have | take |
//! |---|---|
//! | readers that keep what they load: across `.await`, in structures, for minutes | an [`ArcCell`] |
//! | readers that are done soon | an [`Rcu`](crate::rcu::Rcu), or an `Rcu` of an `Arc`: half the cost of a load |
//! | a loop that loads in each iteration, and may keep an old value until the next | a [`Cache`] for each thread |
//! | many stores in a second, or thousands of threads that load | an [`ArcCell`] with [`Deferred`], if counts may lag |
//! | stores that must be exact and take less than some microseconds, beside a few threads that run | arc-swap |
//! | as many stores as loads | a [`Mutex`](std::sync::Mutex) around the `Arc` |
//!
//! # How it works
//!
//! A guard has no reference of its own: its thread has a few *slots*, and the address of the value is in one of them.
//! A store takes the old pointer out, and waits for a grace period of the loads, each of which is a read-side
//! critical section of some nanoseconds. Then it looks for the pointer in the slots of all threads, and increments
//! the count for each guard that has it. The guard finds that out when it is dropped. With `membarrier`, neither
//! loading nor dropping executes a fence. They execute an atomic read-modify-write only to load beside more than
//! seven guards of the thread, and to drop a guard whose value has been replaced. Beside the seven of each thread
//! the process has 448 slots, so that stores look at no more. A load that finds none of them free, where it looks in
//! a few places, increments the count.
//!
//! # Threads, signals, fork
//!
//! A thread registers itself at its first load, as in [`rcu`](crate::rcu#threads). Guards may outlive their thread. A
//! destructor of a thread-local variable may load.
//!
//! A signal handler may load as it may [read](crate::rcu#signal-handlers) in `rcu`, if it drops the guard before it
//! returns; [`load_full`](ArcCell::load_full) has no such rule. It must not store, nor drop what may be the last
//! reference.
//!
//! The child of a `fork` may load and store at once. Guards of other threads that it can reach stay valid. Slots of
//! other threads stay in use there.
//!
//! # Trade-offs
//!
//! - A store with [`Exact`] takes microseconds, and looks at each thread that has loaded and not exited. With many
//!   stores, or many threads, take [`Deferred`].
//! - Without `membarrier`, a load and the drop of its guard execute a full fence each.
//! - Each thread takes 512 bytes for slots. Guards beyond seven in a thread take 256 for each seven of the most that
//!   the process has held at once, about 18 KiB at most. Loads of these are slower ([`ArcCell::load`]). Threads that
//!   end while their guards are held leave 256 bytes each, at which stores look until these guards have been dropped.
//!
//! # Sources
//!
//! Michael, *Hazard pointers* (2004); Vaner's [arc-swap](https://docs.rs/arc-swap), whose API `dropins/arc-swap` has
//! on these types.

mod cache;
mod cell;
mod guard;
mod protected;
mod ref_cnt;
mod strategy;
#[cfg(not(loom))]
mod thread;
#[cfg(loom)]
#[path = "loom.rs"]
pub mod thread;

pub use cache::Cache;
pub use cell::ArcCell;
pub use guard::Guard;
pub use ref_cnt::RefCnt;
pub use strategy::{Deferred, Exact, Strategy};
#[cfg(not(loom))]
pub use thread::{barrier, domain};
