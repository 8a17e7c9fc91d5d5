//! Which module is for which job. To port code from other libraries, see [`porting`]; for async code, [`async_code`].
//!
//! The tables use five terms. A *section* is the time in which a reader may hold references: while it has a guard. A
//! *grace period* ends when every section that was open at its start has ended. A *domain* is a set of readers with
//! the grace periods that wait for them; most programs need one. A *cookie* is a number that stands for a grace
//! period. A thread of [`qsbr`](crate::qsbr) has no sections: while it is *online*, it must report now and then that
//! it holds no references.
//!
//! # By the data that threads share
//!
//! | data | use | instead of | because |
//! |---|---|---|---|
//! | a value that many threads read and few replace: configuration, a routing table, a list of peers | [`Rcu`](crate::rcu::Rcu) in [`rcu`](crate::rcu) | `RwLock<T>` | its readers all write one shared word |
//! | the same, in a loop that only reads | [`qsbr`](crate::qsbr) | [`rcu`](crate::rcu) | a read is a plain load, and the loop can report once per round |
//! | the same, where readers sleep or hold a reference across `.await` | [`srcu`](crate::srcu) | [`rcu`](crate::rcu) | guards of `rcu` stay in their thread, and all writers would wait for the sleeper |
//! | the same, where readers keep what they have read: configuration of a request, a snapshot in a structure | [`ArcCell`](crate::arc::ArcCell) in [`arc`](crate::arc) | a long section, or a clone of an [`Arc`](std::sync::Arc) | sections should be short; threads that clone write one shared word |
//! | the same, in a loop that loads in each iteration, and may keep an old value until it loads again | [`arc::Cache`](crate::arc::Cache) | [`Rcu`](crate::rcu::Rcu) | a check is a comparison of two pointers |
//! | a map with changing entries | `HashMap` in the crate `stillpoint-collections` | `RwLock<HashMap>`, or one `Rcu` of the map | readers of a lock write a shared word; [`modify`](crate::rcu::Rcu::modify) copies the value |
//! | a map of numbers and other plain pairs | `CopyMap` there, whose lookups copy | the same | entries lie in the table: one cache miss, no allocation |
//! | a `HashMap` where async tasks hold references across `.await` | it, in a [domain](crate::srcu::Domain) of [`srcu`](crate::srcu) | a map of locks | a task that sleeps with a reference blocks no other task |
//! | a list, map or queue of your own, whose nodes threads link and unlink | [`rcu::Atomic`](crate::rcu::Atomic), [`retire_shared`](crate::Domain::retire_shared) | reference counts in each node | readers would write to each node that they visit |
//! | the same, where readers may stall, or traverse for long | [hazard pointers](crate::hazard), and sections for short reads | a section of [`rcu`](crate::rcu) | what is retired waits for a section, but not for a hazard pointer of another node |
//! | a number that all threads add to: requests, bytes | [`percpu::Counter`](crate::percpu::Counter) | `AtomicU64` | its cache line moves from CPU to CPU |
//! | counts of sizes or durations | [`percpu::Histogram`](crate::percpu::Histogram) | a histogram in a mutex | the same |
//! | state that all requests clone and drop | [`percpu::Arc`](crate::percpu::Arc) | `std::sync::Arc` | the same, for the word of its count |
//! | requests that must end before the program does | [`percpu::RefCount`](crate::percpu::RefCount) | an `AtomicU64` and a condition variable | the same |
//! | buffers for reuse | [`percpu::Pool`](crate::percpu::Pool) | a `Vec` in a mutex | the same |
//! | state that threads change in short critical sections, with more threads than CPUs | [`lock::Mutex`](crate::lock::Mutex) | `std::sync::Mutex` | no thread waits for long |
//! | the same, in long critical sections or with a CPU for each thread | `std::sync::Mutex` | [`lock`](crate::lock) | it spins for longer, and its fairness is not needed |
//! | a value that many threads read and few write, and that is changed in place or too large to copy | [`lock::RwLock`](crate::lock::RwLock) | [`Rcu`](crate::rcu::Rcu) | a writer changes the value itself; it waits for readers, and they for it |
//! | the same, written by more than a few per cent of accesses | `parking_lot::RwLock`, or [`lock::Mutex`](crate::lock::Mutex) | [`lock::RwLock`](crate::lock::RwLock) | readers share a word then too, and a write costs more |
//! | two flags, one checked all the time, the other now and then | [`fence`](crate::fence) | two `SeqCst` fences | the frequent side pays nothing |
//! | unique numbers: ids, tickets | `AtomicU64` | [`percpu`](crate::percpu) | a [`Counter`](crate::percpu::Counter) does not return its old value |
//!
//! # Three kinds of readers
//!
//! | | [`rcu`](crate::rcu) | [`qsbr`](crate::qsbr) | [`srcu`](crate::srcu) |
//! |---|---|---|---|
//! | a read takes | about 1 ns | a plain load | about 3 ns: two additions to words of the CPU |
//! | a thread | registers itself | must register, and report for ever after | need not register |
//! | a guard | must be dropped soon, in its thread | is the thread's handle | must be dropped at some time, in any thread |
//! | a grace period waits for | open sections | every online thread | open sections |
//! | it looks at | each registered thread that is not [idle](crate::rcu::hint_idle) | each registered thread | each CPU that the machine may have |
//! | it interrupts | the CPUs that run the process | no CPU | the CPUs that run the process |
//! | waiting inside a section | panics | panics | never returns |
//! | a leaked guard | is reported with its thread | is reported with its thread | is reported with its domain |
//! | signal handlers | may read | must not read | may read |
//! | a domain is | a type | a type | a value, freed with its last handle |
//!
//! Threads that cannot tolerate interrupts use [`qsbr`](crate::qsbr), and their writers call
//! [`synchronize`](crate::Domain::synchronize) or [`Retired::wait`](crate::rcu::Retired::wait). Nothing should be
//! deferred (nor a `Retired` dropped): the worker that runs callbacks interrupts CPUs whenever it goes to sleep.
//!
//! All three share pointers, cookies, deferred callbacks and stall reports. To change from one to another, change how
//! readers begin and in which domain an [`Rcu`](crate::rcu::Rcu) is created. If in doubt, start with
//! [`rcu`](crate::rcu).
//!
//! # In a language runtime or a plugin
//!
//! Code that does not own its process calls [`rcu::start_no_threads`](crate::rcu::start_no_threads) first, and
//! [`Domain::poll`](crate::Domain::poll) at its safepoints: that runs what has been deferred, a bounded amount at a
//! time.
//!
//! # Sections or hazard pointers
//!
//! A section keeps all that is retired from its beginning on. A [hazard pointer](crate::hazard) keeps one value. Both
//! are there for the same structures, in the domains of [`hazard`](crate::hazard).
//!
//! | take | if |
//! |---|---|
//! | sections of [`rcu`](crate::rcu) | reads take microseconds, and threads do not stop in the middle of them for long: most programs. Following a pointer is a plain load |
//! | hazard pointers | a reader may stop for any time (a debugger, a quota, a slow client), and memory must stay bounded without blocking writers; or it keeps single nodes for long, in structures or across `.await` |
//! | both, in a domain of [`hazard`](crate::hazard) | most reads are short, and some traverse the whole structure: these keep the node where they stand by a hazard pointer ([`HazardPointer::keep`](crate::hazard::HazardPointer::keep)), end the section now and then, and continue from that node (example `long_traversals`) |
//! | [`srcu`](crate::srcu) | a reader keeps many values for long, and few are retired |
//! | [`arc`](crate::arc) | the values are counted, and readers keep them |
//!
//! With hazard pointers, an algorithm must know when a node has been removed: a pointer in a removed node may lead to
//! one that was freed. Lists and tables after Michael (2002), in which each step checks that the node before is still
//! linked, need nothing else; those after Harris (2001), whose readers walk through removed nodes, need sections.
//!
//! # Disposing of the old value
//!
//! | a writer that | writes | effect |
//! |---|---|---|
//! | does not need the old value | `pointer.replace(new);` | the library drops it after a grace period |
//! | needs the old value back | `pointer.replace(new).wait()` | blocks for some microseconds, or until the longest open section ends |
//! | runs code afterwards | [`call`](crate::rcu::call) | does not block: the code runs in a thread of the library |
//! | keeps many old values, and checks now and then which have no readers left | [`GracePeriod::start`](crate::rcu::GracePeriod::start), `is_elapsed` | does not block |
//! | is an async task | `GracePeriod::now().await` | suspends the task, not its thread |
//! | ends `main`, or a test | [`barrier`](crate::rcu::barrier) of each domain | blocks until all deferred callbacks have run; without it, the last ones do not run |
//!
//! # Example
//!
//! ```
//! use std::thread;
//! use stillpoint::percpu::Counter;
//! use stillpoint::rcu::{self, Rcu};
//! use stillpoint::{fence, lock::Mutex};
//!
//! static REQUESTS: Counter = Counter::new(); // changed by all threads, read by few
//! static ADMITTED: Mutex<Vec<u32>> = Mutex::new(Vec::new()); // changed by all threads, one at a time
//!
//! fence::report(); // optional: sets up `membarrier`; half a microsecond here, ten milliseconds once there are threads
//! let limit = Rcu::new(10); // read by all threads, changed by few
//!
//! thread::scope(|s| {
//!     for client in 0..4 {
//!         let limit = &limit;
//!         s.spawn(move || {
//!             REQUESTS.inc();
//!             // A guard that lives for one expression is enough for one load ...
//!             if client < *limit.load(&rcu::enter()) {
//!                 ADMITTED.lock().push(client);
//!             }
//!         });
//!     }
//!     limit.replace(20);
//! });
//! // ... and a reference that is used for longer needs a guard that lives as long.
//! let guard = rcu::enter();
//! let current = limit.load(&guard);
//! assert_eq!((*current, REQUESTS.get(), ADMITTED.lock().len()), (20, 4, 4)); // all are below both limits
//! ```
//!
//! The repository has longer programs in `stillpoint/examples` and `collections/examples`:
//!
//! | `cargo run -p stillpoint --example` | shows |
//! |---|---|
//! | `hot_reload` | configuration that is edited while threads use it (`rcu`) |
//! | `connection_table` (`-p stillpoint-collections`) | a hash map in a packet loop, and final bills (`qsbr`) |
//! | `sessions` (`-p stillpoint-collections`) | a hash map whose references async tasks keep across `.await` (`srcu`) |
//! | `metrics_endpoint` | counters and histograms, read over HTTP (`percpu`) |
//! | `job_queue` | many threads on one CPU (`lock`) |
//! | `sorted_list` | a list of nodes that threads link and unlink (`rcu::Atomic`) |
//! | `hazard_list` | the same, by hazard pointers alone: a reader may stay anywhere in the list (`hazard`) |
//! | `long_traversals` | both: short reads in sections, and readers that take their time (`hazard`) |
//!
//! # Rules that are easy to break
//!
//! - Inside a section, do not wait for a grace period of its domain, nor for a thread that may be waiting for one: no
//!   joins, and no locks that are held while waiting for a grace period. A [`Ref`](crate::rcu::Ref) is a section.
//! - Load once and use the result: two loads in one section may return two values.
//! - Put values that must match into one [`Rcu`](crate::rcu::Rcu). Two of them never change at the same moment.
//! - After a `replace`, readers use the old value until their sections end. If that matters, wait for a grace period.
//! - Several threads may change an [`Rcu`](crate::rcu::Rcu) at once. [`modify`](crate::rcu::Rcu::modify) and
//!   [`update`](crate::rcu::Rcu::update) lose no change; a `load` followed by a `replace` may.
//! - Memory that waits to be freed is bounded, by blocking the threads that retire more: see
//!   [`Limits`](crate::rcu::Limits).
//! - If a callback, the destructor of a retired value, a waker or a stall hook forks, the child must `exec` or
//!   `_exit`. A process that is started there blocks all signals, also `SIGTERM`: see [`call`](crate::rcu::call).
//! - `Counter`, `Histogram`, `lock::Mutex`, `lock::RwLock`, `srcu::Domain` and [`RcuOption`](crate::rcu::RcuOption)
//!   can be statics. [`Rcu`](crate::rcu::Rcu) and [`Pool`](crate::percpu::Pool) allocate when they are created, so a
//!   static needs a `LazyLock`.
//!
//! # Observing a program
//!
//! [`fence::report`](crate::fence::report) and [`percpu::report`](crate::percpu::report) say what the machine
//! supports and what was chosen: log them at startup, or run `cargo run --release -- probe` in the repository.
//! [`rcu::stats`](crate::rcu::stats) has counters, which the feature `metrics` [exports](crate#features). A grace
//! period that has waited for ten seconds [reports](crate::rcu#stalls) the threads that it waits for. What to alert
//! on, and what to do when memory grows or a writer hangs, is in `docs/operations.md` in the repository.

pub mod async_code;
pub mod porting;
