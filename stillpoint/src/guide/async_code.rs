//! How to use the library in async code, with any executor.
//!
//! # One value: begin with `ArcCell`
//!
//! A task may resume in another thread, and may sleep for long. A guard of an [`ArcCell`](crate::arc::ArcCell) allows
//! both, for minutes: it keeps the value that it was loaded with, and nothing else. It is like an `Arc` that is not
//! counted.
//!
//! ```
//! use std::sync::Arc;
//! use stillpoint::arc::ArcCell;
//!
//! async fn serve(greeting: &ArcCell<Arc<String>>, name: &str) -> String {
//!     let greeting = greeting.load();
//!     tokio::time::sleep(std::time::Duration::from_millis(1)).await; // the guard is held
//!     format!("{greeting} {name}")
//! }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
//! # let greeting = ArcCell::from_pointee(String::from("hello"));
//! # assert_eq!(runtime.block_on(serve(&greeting, "world")), "hello world");
//! # greeting.store(Arc::new(String::from("bye")));
//! ```
//!
//! [`store`](crate::arc::ArcCell::store) takes microseconds: it waits for threads that are inside of a `load`, not
//! for guards.
//!
//! # References to several values, or to a structure: `srcu`
//!
//! Guards of [`srcu`](crate::srcu) may be held across `.await`, too: they belong to a
//! [`Domain`](crate::srcu::Domain), a value, and not to a thread. A `static` domain needs nothing else:
//!
//! ```
//! use std::sync::LazyLock;
//! use stillpoint::{rcu::Rcu, srcu};
//!
//! static CONFIG: srcu::Domain = srcu::Domain::new();
//! static GREETING: LazyLock<Rcu<String, srcu::Domain>> =
//!     LazyLock::new(|| Rcu::new_in(String::from("hello"), CONFIG.clone()));
//!
//! async fn serve(name: &str) -> String {
//!     let guard = CONFIG.enter();
//!     let greeting = GREETING.load(&guard); // valid until the guard is dropped ...
//!     tokio::time::sleep(std::time::Duration::from_millis(1)).await; // ... also across `.await`
//!     format!("{greeting} {name}")
//! }
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
//! # assert_eq!(runtime.block_on(async { tokio::spawn(serve("world")).await.unwrap() }), "hello world");
//! ```
//!
//! While a guard is open, no value of its domain is freed that was replaced since. So tasks that may wait for a
//! client for minutes get a domain of their own, or hold the guard for a shorter time.
//!
//! If the `Rcu` is not in a `static`, a spawned task takes an `Arc` of it
//! ([example](super::porting#from-rwlock)).
//!
//! Where a section has no `.await` in it, [`rcu`](crate::rcu) works in async code as anywhere else, and is faster.
//!
//! # What blocks a thread of the executor
//!
//! | a task writes | the executor's thread |
//! |---|---|
//! | `cell.store(new);` of an `ArcCell` | continues after microseconds |
//! | `pointer.replace(new).await;` | runs other tasks; the task continues after a grace period, and has the old value |
//! | `pointer.replace(new);` | continues at once; but while the backlog is above its [limits](crate::rcu::Limits), it blocks, for ten seconds at most, unless [`blocks`](crate::rcu::Limits::blocks) is `false` |
//! | [`domain.below_limit()`](crate::Domain::below_limit)`.await; pointer.replace(new);` | runs other tasks until the backlog is below its limits |
//! | `pointer.replace(new).wait();` | blocks for a grace period: not in a task |
//! | [`GracePeriod::now_in(domain)`](crate::rcu::GracePeriod::now_in)`.await` | runs other tasks |
//! | [`barrier`](crate::Domain::barrier) | blocks: only in `spawn_blocking`, or after the executor has ended |
//! | [`domain.barrier_async()`](crate::Domain::barrier_async)`.await` | runs other tasks |
//!
//! So a task that changes something now and then awaits the old value, outside of every guard of the domain.
//!
//! `.await` **inside** a section of the same domain never returns: the grace period waits for the guard of the task
//! that waits for it. If a future of a grace period is dropped (`select!`, a timeout), the value is retired as if the
//! result of `replace` had been dropped.
//!
//! The futures need no runtime: a thread of the library waits for all of them, and wakes each.
//!
//! # Worker threads of tokio
//!
//! The crate `stillpoint-tokio` has what depends on the runtime: an extension of the runtime's `Builder`,
//! `hint_idle_on_park`, by which grace periods of [`rcu`](crate::rcu) skip parked worker threads
//! ([`hint_idle`](crate::rcu::hint_idle)), which gains with dozens of workers; and `never_block_above_limits`, by
//! which no change blocks a worker thread.
//!
//! A task that never yields delays no grace period while it is outside of sections. In [`qsbr`](crate::qsbr) it
//! would: so a runtime's threads should not be its readers.
//!
//! `bindings/service` in the repository is a HTTP service: configuration, sessions, and its end.
//!
//! # Guards on a `LocalSet`
//!
//! Tasks of a `LocalSet`, or of a runtime for one thread that uses `spawn_local`, may hold guards of `rcu` across
//! `.await`, as these tasks do not change their thread. They should not: the section belongs to the *thread*, and is
//! open while its other tasks run. A grace period that one of these polls panics, because it would wait for its own
//! thread:
//!
//! ```
//! use stillpoint::rcu::{self, GracePeriod, Rcu};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # tokio::task::LocalSet::new().block_on(&runtime, async {
//! let table = Rcu::new(1);
//! let guard = rcu::enter();
//! let value = table.load(&guard);
//! let other = tokio::task::spawn_local(async { GracePeriod::now().await });
//! assert!(other.await.unwrap_err().is_panic()); // polled while the guard above is open
//! assert_eq!(*value, 1);
//! # });
//! ```
//!
//! With [`srcu`](crate::srcu) the same works, as its sections belong to no thread.
//!
//! # Shutdown
//!
//! The end of the program does not wait for what is deferred. If destructors must run before it, or before a library
//! is unloaded or borrowed data goes:
//!
//! 1. *Let the threads and tasks end that use the domain.* Join them, or count them by a
//!    [`percpu::RefCount`](crate::percpu::RefCount): after its `kill` no request begins, and `zero().await` or `wait`
//!    returns when the last one has ended.
//! 2. *Drop what owns values*: pointers, maps, and what `replace` has returned.
//! 3. *Call [`barrier`](crate::Domain::barrier) of each domain*, or await
//!    [`barrier_async`](crate::Domain::barrier_async): all that was deferred has run then. What destructors defer in
//!    turn needs a further one each time. For `rcu` there is [`rcu::barrier`](crate::rcu::barrier).
//!
//! ```
//! use stillpoint::Domain as _;
//! use stillpoint::{percpu::RefCount, rcu::Rcu, srcu};
//!
//! static REQUESTS: RefCount = RefCount::new();
//!
//! let domain = srcu::Domain::new();
//! let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
//! runtime.block_on(async {
//!     let config = Rcu::new_in(String::from("a"), domain.clone());
//!     let request = REQUESTS.try_enter().expect("the service is not shutting down");
//!     tokio::spawn(async move {
//!         drop(config.replace(String::from("b")));
//!         drop(request);
//!     });
//!     REQUESTS.kill();
//!     REQUESTS.zero().await; // no request runs
//!     domain.barrier_async().await; // "a" has been dropped
//! });
//! ```
//!
//! The memory of the domain itself is freed with its last handle.
//!
//! # Tests
//!
//! Tests of one process run side by side, and a guard that one of them leaks stalls the domain for all. So a test
//! creates its own domain, and does not use a `static` one. A runtime for one thread makes the order of the tasks
//! certain:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
//! use stillpoint::{rcu::Rcu, srcu};
//!
//! struct Old(Arc<AtomicBool>);
//!
//! impl Drop for Old {
//!     fn drop(&mut self) {
//!         self.0.store(true, SeqCst);
//!     }
//! }
//!
//! // #[tokio::test]
//! async fn replaced_value_outlives_its_readers() {
//!     let (domain, dropped) = (srcu::Domain::new(), Arc::new(AtomicBool::new(false)));
//!     let value = Rcu::new_in(Old(dropped.clone()), domain.clone());
//!     let guard = domain.enter();
//!     let old = value.load(&guard);
//!     let retired = value.replace(Old(Arc::default()));
//!     assert!(!old.0.load(SeqCst));
//!     drop(guard);
//!     drop(retired.await);
//!     assert!(dropped.load(SeqCst));
//! }
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(replaced_value_outlives_its_readers());
//! ```
//!
//! A test that expects no long section sets [`set_stall_timeout`](crate::rcu::set_stall_timeout) to a second, and
//! fails in a [hook](crate::rcu::set_stall_hook) that counts reports.
