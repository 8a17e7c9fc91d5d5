//! Which part for which job. Coming from another library: [`porting`].
//!
//! # What do many threads do to it?
//!
//! | what you have | take | and not | because |
//! |---|---|---|---|
//! | a value that many read and few replace: configuration, a routing table, a list of peers | [`Rcu`](crate::rcu::Rcu) in [`rcu`](crate::rcu) | `RwLock<T>` | its readers write one word that all of them share |
//! | the same, in a loop that does nothing but read | [`qsbr`](crate::qsbr) | [`rcu`](crate::rcu) | a read is a load, and the loop can report once a round |
//! | the same, and readers sleep inside, or hold what they read over `.await` | [`srcu`](crate::srcu) | [`rcu`](crate::rcu) | guards of `rcu` stay in their thread, and all its writers would wait for the sleeper |
//! | the same, and readers keep what they have read | [`Rcu`](crate::rcu::Rcu) of an [`Arc`](std::sync::Arc), cloned inside a section | a long section | sections should be short |
//! | a map of which entries come and go | an array of [`Rcu`](crate::rcu::Rcu)s, a bucket each | one `Rcu` of all | [`modify`](crate::rcu::Rcu::modify) copies what it changes |
//! | a list or tree of your own, linked by atomic pointers | [`rcu::enter`](crate::rcu::enter), [`rcu::retire_raw`](crate::rcu::retire_raw) | reference counts in each node | readers would write to what they read |
//! | a number to which all threads add: requests, bytes | [`percpu::Counter`](crate::percpu::Counter) | `AtomicU64` | its cache line travels from CPU to CPU |
//! | counts of sizes or durations | [`percpu::Histogram`](crate::percpu::Histogram) | a histogram under a mutex | the same |
//! | buffers for reuse | [`percpu::Pool`](crate::percpu::Pool) | a mutex around a `Vec` | the same |
//! | state that all change, in short sections, by more threads than there are CPUs | [`lock::Mutex`](crate::lock::Mutex) | `std::sync::Mutex` | no thread waits for long |
//! | state that all change, in long sections or with a CPU for each thread | `std::sync::Mutex` | [`lock`](crate::lock) | it spins for longer, and its fairness is not needed |
//! | two flags, of which one side looks all the time, the other now and then | [`fence`](crate::fence) | two `SeqCst` fences | the frequent side pays nothing |
//! | a number that must be drawn once: ids, tickets | `AtomicU64` | [`percpu`](crate::percpu) | a [`Counter`](crate::percpu::Counter) does not return its old value |
//!
//! # Three kinds of readers
//!
//! | | [`rcu`](crate::rcu) | [`qsbr`](crate::qsbr) | [`srcu`](crate::srcu) |
//! |---|---|---|---|
//! | a read costs | about a nanosecond | a load | three nanoseconds |
//! | a reader must | drop its guard soon | report often, for ever | drop its guard sometime |
//! | its guard | stays in its thread | is the thread's handle | goes anywhere |
//! | a domain is | a type | a type | a value |
//! | a leaked guard | is in the stall report, with its thread | as there | is in the stall report, with its domain |
//! | waiting inside a section | panics | panics | never ends |
//! | in signal handlers | yes | no | yes |
//! | a grace period interrupts | the CPUs that run the process | no CPU | the CPUs that run the process |
//!
//! Threads that cannot bear an interrupt use [`qsbr`](crate::qsbr), and wait in its
//! [`synchronize`](crate::qsbr::synchronize): the worker of deferred callbacks interrupts the process's CPUs before it sleeps.
//!
//! They share pointers, cookies, deferred work and reports: changing from one to another changes how readers begin, and the
//! domain that an [`Rcu`](crate::rcu::Rcu) is made in. Where in doubt, begin with [`rcu`](crate::rcu).
//!
//! # What to do with the old value
//!
//! | the writer | writes | and |
//! |---|---|---|
//! | does not care | `pointer.replace(new);` | it is dropped after a grace period, by a thread of the library |
//! | wants it back | `pointer.replace(new).wait()` | waits for some microseconds, and the longest section |
//! | wants something done then | [`call`](crate::rcu::call) | does not wait |
//! | has many such, and looks now and then | [`GracePeriod::start`](crate::rcu::GracePeriod::start), `is_elapsed` | does not wait |
//! | is a task | `GracePeriod::now().await` | does not block its thread |
//! | ends, or a test does | [`barrier`](crate::rcu::barrier) | all of the above has been done |
//!
//! # A program
//!
//! ```
//! use std::thread;
//! use stillpoint::percpu::Counter;
//! use stillpoint::rcu::{self, Rcu};
//! use stillpoint::{fence, lock::Mutex};
//!
//! static REQUESTS: Counter = Counter::new(); // changed by all, read by few
//! static SLOWEST: Mutex<Vec<u32>> = Mutex::new(Vec::new()); // changed by all, in order
//!
//! fence::init(); // first of all: half a microsecond now, ten milliseconds once there are threads
//! let limit = Rcu::new(10); // read by all, changed by few
//!
//! thread::scope(|s| {
//!     for client in 0..4 {
//!         let limit = &limit;
//!         s.spawn(move || {
//!             REQUESTS.add(1);
//!             // A guard that lives for one expression is enough for one look ...
//!             if client < *limit.load(&rcu::enter()) {
//!                 SLOWEST.lock().push(client);
//!             }
//!         });
//!     }
//!     limit.replace(20);
//! });
//! // ... and one for more makes them see the same.
//! let guard = rcu::enter();
//! assert!(std::ptr::eq(limit.load(&guard), limit.load(&guard)));
//! assert_eq!((REQUESTS.sum(), SLOWEST.lock().len()), (4, 4));
//! ```
//!
//! Longer ones are in the repository, in `stillpoint/examples`, and run by themselves:
//!
//! | `cargo run -p stillpoint --example` | shows |
//! |---|---|
//! | `hot_reload` | configuration that is edited while threads use it (`rcu`) |
//! | `connection_table` | a hash table that packets go through, and bills that are final (`qsbr`) |
//! | `metrics_endpoint` | counters and histograms, read over HTTP (`percpu`) |
//! | `job_queue` | many threads on one CPU (`lock`) |
//!
//! # Rules that are easy to break
//!
//! - Do not wait inside a section: neither for a grace period of its domain, nor for a thread that may do so.
//! - Load once, and use that: two loads in one section may see two values.
//! - What belongs together belongs into one [`Rcu`](crate::rcu::Rcu). There is no moment that two of them share.
//! - After a `replace`, readers see the old value until their sections end. Whoever must know that nobody does any more waits
//!   for a grace period.
//! - An [`Rcu`](crate::rcu::Rcu) may be changed by several threads at once. [`modify`](crate::rcu::Rcu::modify) and
//!   [`update`](crate::rcu::Rcu::update) lose nobody's change; `load`, then `replace`, does.
//! - Memory that waits to be freed is bounded by making those wait who retire more: see [`Limits`](crate::rcu::Limits).
//! - Callbacks, destructors of retired values, wakers and stall hooks must not return in the child of a fork that they made: it must
//!   `exec` or `_exit`.
//! - `Counter`, `Histogram`, `lock::Mutex` and `srcu::Domain` can be statics as they are. [`Rcu`](crate::rcu::Rcu) and
//!   [`Pool`](crate::percpu::Pool) allocate when they are made, and need a `LazyLock` there.
//!
//! # Seeing what goes on
//!
//! [`fence::report`](crate::fence::report) and [`percpu::report`](crate::percpu::report) say what this machine allows, and
//! what was chosen: log them when a program starts, or see `cargo run --release -- probe` in the repository.
//! [`rcu::stats`](crate::rcu::stats) counts, and the features `tracing` and `metrics` hand that on (see
//! [the crate's page](crate#features)). A grace period that waits for ten seconds names the threads that it waits for:
//! [stalls](crate::rcu#stalls).

pub mod porting;
