//! How to port code from other libraries.
//!
//! # From `RwLock`
//!
//! | `RwLock<T>` | here |
//! |---|---|
//! | `RwLock::new(value)` | `Rcu::new(value)` |
//! | `let value = lock.read().unwrap();` | `let value = pointer.read();` |
//! | `MappedRwLockReadGuard` of parking_lot | [`Ref::map`](crate::rcu::Ref::map) |
//! | `*lock.write().unwrap() = new;` | `pointer.replace(new);` |
//! | `lock.write().unwrap().push(x);` | `pointer.modify(\|value\| value.push(x));` |
//! | `mem::replace(&mut *lock.write().unwrap(), new)` | `pointer.replace(new).wait()` |
//! | `static LOCK: RwLock<T> = RwLock::new(...);` | `static POINTER: LazyLock<Rcu<T>> = LazyLock::new(\|\| Rcu::new(...));` |
//! | `static LOCK: RwLock<Option<T>> = RwLock::new(None);` | `static POINTER: RcuOption<T> = RcuOption::empty();` |
//! | `get_mut`, `into_inner` | the same |
//!
//! ```
//! use stillpoint::rcu::{self, Rcu};
//!
//! let hosts = Rcu::new(vec!["a"]); // RwLock::new(vec!["a"])
//! let first = hosts.read()[0]; // hosts.read().unwrap()[0]
//! hosts.modify(|hosts| hosts.push("b")); // hosts.write().unwrap().push("b")
//! assert_eq!((first, hosts.read().len()), ("a", 2));
//!
//! // One section for several reads:
//! let guard = rcu::enter();
//! assert_eq!(hosts.load(&guard).first(), hosts.load(&guard).iter().min());
//! ```
//!
//! A `RwLock<Arc<T>>`, from which readers clone the `Arc` so as not to hold the lock, becomes an `Rcu<T>`: a section
//! holds up no writer. Tasks hold a reference across `.await` in a domain of [`srcu`](crate::srcu):
//!
//! ```
//! use std::sync::Arc;
//! use stillpoint::{rcu::Rcu, srcu};
//!
//! # struct Config { name: &'static str }
//! type Shared = Arc<Rcu<Config, srcu::Domain>>; // Arc<RwLock<Arc<Config>>>
//!
//! async fn greet(shared: &Shared) -> String {
//!     let config = shared.read(); // Arc::clone(&shared.read().unwrap())
//!     tokio::task::yield_now().await;
//!     format!("hello from {}", config.name)
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().build().unwrap().block_on(async {
//! let shared = Shared::new(Rcu::new_in(Config { name: "a" }, srcu::Domain::new()));
//! let theirs = shared.clone(); // for a task or a thread
//! let task = tokio::spawn(async move { theirs.read().name });
//! assert_eq!(task.await.unwrap(), "a");
//! let old = shared.replace(Config { name: "b" }).await; // when its readers are gone
//! assert_eq!(old.name, "a");
//! assert_eq!(greet(&shared).await, "hello from b");
//! # });
//! ```
//!
//! Differences:
//!
//! - A writer does not wait for readers: they use the old value until their sections end. If no reader may use it any
//!   more when the writer continues, use `pointer.replace(new).wait()`.
//! - `modify` and `update` copy the value. If it is large, put parts of it into `Arc`s or into `Rcu`s of their own.
//! - The value must be `Send`, `Sync` and `'static`: it may outlive the `Rcu`, and another thread may drop it.
//! - Writers do not exclude each other: `modify` and `update` call their closure again if another writer was faster.
//!   If that is too expensive or has side effects, hold a `Mutex<()>` while writing.
//! - There is no poisoning. A panic in `modify` leaves the value unchanged.
//! - A guard is not `Send`, like that of `RwLock`. For tokio's `RwLock`, use [`srcu`](crate::srcu), whose
//!   [`enter_owned`](crate::srcu::Domain::enter_owned) stands for `read_owned`.
//!
//! # From arc-swap
//!
//! A program that should stay as it is, or that uses arc-swap through other crates, can use the package
//! `dropins/arc-swap` of the repository, which has the API of arc-swap, by a line of `[patch.crates-io]`.
//! [`ArcCell`](crate::arc::ArcCell) is the same for new code: for readers that keep what they load, in structures or
//! across `.await`. Where reads end soon, an [`Rcu`](crate::rcu::Rcu) is cheaper, and needs no `Arc`.
//!
//! | arc-swap | for readers that keep values |
//! |---|---|
//! | `ArcSwap<T>`, `ArcSwapOption<T>`, `ArcSwapWeak<T>` | [`ArcCell<Arc<T>>`](crate::arc::ArcCell), `ArcCell<Option<Arc<T>>>`, `ArcCell<Weak<T>>` |
//! | `load()`, `load_full()`, `store(new)`, `swap(new)`, `into_inner()` | the same |
//! | `compare_and_swap(&current, new)` | [`compare_exchange(Arc::as_ptr(&current), new)`](crate::arc::ArcCell::compare_exchange) |
//! | `rcu(f)` | [`update(f)`](crate::arc::ArcCell::update) |
//! | `Cache` | [`arc::Cache`](crate::arc::Cache) |
//! | a store that takes too long | the strategy [`Deferred`](crate::arc::Deferred) |
//!
//! | arc-swap | for reads that end soon |
//! |---|---|
//! | `ArcSwap<T>`, `ArcSwap::from_pointee(value)` | [`Rcu<T>`](crate::rcu::Rcu), `Rcu::new(value)` |
//! | `ArcSwapOption<T>`, `ArcSwapOption::const_empty()` | [`RcuOption<T>`](crate::rcu::RcuOption), `RcuOption::empty()` |
//! | `ArcSwap<Box<dyn Trait>>` | `Rcu<dyn Trait>` |
//! | `load()`: a `Guard` | [`read()`](crate::rcu::Rcu::read): a [`Ref`](crate::rcu::Ref); or [`load(&guard)`](crate::rcu::Rcu::load) |
//! | `load_full()`: an `Arc` | `Arc::clone(&pointer.read())` of an `Rcu<Arc<T>>` |
//! | `store(new)` | [`store(new)`](crate::rcu::Rcu::store) |
//! | `swap(new)`: the old `Arc` | `replace(new)`: a [`Retired`](crate::rcu::Retired); `.wait()` or `.await` gives the value |
//! | `compare_and_swap(&current, new)` | [`compare_exchange(&guard, current, new)`](crate::rcu::Rcu::compare_exchange) |
//! | `rcu(f)` | [`update(f)`](crate::rcu::Rcu::update) |
//! | `map`, `access::Map` | [`Ref::map`](crate::rcu::Ref::map) |
//! | `Cache` | nothing; in a loop that only reads, where half a nanosecond counts: [`qsbr`](crate::qsbr), or [`arc::Cache`](crate::arc::Cache) |
//!
//! ```
//! use stillpoint::rcu::{self, Rcu, RcuOption};
//!
//! static OVERRIDE: RcuOption<String> = RcuOption::empty(); // ArcSwapOption::const_empty()
//!
//! let name = Rcu::new(String::from("a")); // ArcSwap::from_pointee(...)
//! assert_eq!(name.read().len(), 1); // name.load().len()
//! name.replace("b".into()); // name.store(Arc::new(...))
//! name.update(|name| format!("{name}c")); // name.rcu(...)
//!
//! let guard = rcu::enter();
//! let seen = name.load(&guard); // name.load()
//! if let Err(failed) = name.compare_exchange(&guard, seen, Box::new("d".into())) {
//!     println!("{} has been faster", failed.current);
//! }
//! assert_eq!(name.load(&guard), "d");
//! assert!(OVERRIDE.load(&guard).is_none());
//! ```
//!
//! Differences: what a reader holds delays the freeing of all retired values of the domain, not only of the one it
//! reads. A guard stays in its thread, except in
//! [`srcu`](crate::srcu). The old value is dropped by a thread of the library, not by the last reader.
//!
//! # From C and C++
//!
//! The folder `bindings/c` of the repository has an interface for C, `stillpoint.h`, and the names of C++26's `<rcu>` for
//! C++17, `stillpoint/rcu.hpp`. A program may move to Rust in parts: readers in C, C++ and Rust are readers of the
//! domain [`rcu::Global`](crate::rcu::Global), and their sections nest. The Rust program names the crate
//! `stillpoint_capi`.
//!
//! # From crossbeam-epoch
//!
//! A program that should stay as it is, or that uses crossbeam-epoch through other crates, can use the package
//! `dropins/crossbeam-epoch` of the repository, which has the API of crossbeam-epoch, by a line of
//! `[patch.crates-io]`. There, deferred functions run where they do with crossbeam-epoch, and flushing twice runs
//! what is deferred. Unlike there, `pin()` may block: if much garbage waits behind a thread that stays pinned, for a
//! second, and then for a millisecond now and then. `STILLPOINT_EPOCH_LIMIT=off` turns that off.
//!
//! | crossbeam-epoch | here |
//! |---|---|
//! | `epoch::pin()`, `Guard` | [`rcu::enter()`](crate::rcu::enter), [`Guard`](crate::rcu::Guard) |
//! | `Atomic<T>`, never null: `load`, `unsafe { shared.deref() }` | [`Rcu<T>`](crate::rcu::Rcu): [`load`](crate::rcu::Rcu::load), without `unsafe` |
//! | `Atomic<T>` that may be null | [`RcuOption<T>`](crate::rcu::RcuOption) |
//! | `swap`, then `unsafe { guard.defer_destroy(old) }` | [`replace`](crate::rcu::Rcu::replace) |
//! | `compare_exchange`; a loop of it | [`compare_exchange`](crate::rcu::Rcu::compare_exchange); [`modify`](crate::rcu::Rcu::modify), [`update`](crate::rcu::Rcu::update) |
//! | `Atomic<T>` that links nodes, `Owned`, `Shared` | [`Atomic`](crate::rcu::Atomic), [`Owned`](crate::rcu::Owned), [`Shared`](crate::rcu::Shared): see below. Nodes have a size: a slice lies in a box |
//! | `guard.defer(f)` | [`call(f)`](crate::rcu::call) |
//! | `unsafe { guard.defer_unchecked(f) }` | [`retire_shared`](crate::Domain::retire_shared), or [`retire_raw_with`](crate::Domain::retire_raw_with) and a function |
//! | `guard.repin()` | [`Guard::repin`](crate::rcu::Guard::repin) |
//! | `guard.flush()` | hardly needed; [`flush`](crate::Domain::flush) |
//! | `Collector`, `LocalHandle` | [`domain!`](crate::domain), or [`srcu::Domain`](crate::srcu::Domain) for a domain that is a value |
//! | `epoch::unprotected()` | [`get_mut`](crate::rcu::Atomic::get_mut), [`take`](crate::rcu::Atomic::take), [`into_inner`](crate::rcu::Rcu::into_inner) |
//! | no way to wait | [`synchronize`](crate::rcu::synchronize), [`try_synchronize`](crate::Domain::try_synchronize), [`Retired::wait`](crate::rcu::Retired::wait), [`GracePeriod`](crate::rcu::GracePeriod), [`barrier`](crate::rcu::barrier) |
//!
//! Data structures that link nodes:
//!
//! | crossbeam-epoch | here |
//! |---|---|
//! | `Atomic<T>` | `Atomic<T>` in the domain [`Global`](crate::rcu::Global), or `Atomic<T, D>` |
//! | `Atomic::new(value)` | `Atomic::new(Owned::new(value))` |
//! | `load(ord, &guard)`, `store(new, ord)`, `swap(new, ord, &guard)` | `load(&guard)`, `store(new)`, `swap(new, &guard)`: loads acquire, and changes publish |
//! | `compare_exchange(current, new, success, failure, &guard)` | `compare_exchange(current, new, &guard)`, with the same error |
//! | `fetch_or(tag, ord, &guard)`, `tag`, `with_tag` | `fetch_or(tag, &guard)`, `tag`, `with_tag` |
//! | `unsafe { shared.as_ref() }`, `unsafe { shared.deref() }` | `shared.as_ref()`, which is safe |
//! | `unsafe { shared.into_owned() }`, `unsafe { atomic.try_into_owned() }` | the same, and `unsafe { atomic.take() }` |
//! | `unsafe { guard.defer_destroy(shared) }` | `unsafe { rcu::Global.retire_shared(shared, options) }`: see [`retire_shared`](crate::Domain::retire_shared) |
//! | `owned.into_shared(&guard)` | [`store`](crate::rcu::Atomic::store) and [`load`](crate::rcu::Atomic::load): what is not stored is `Owned` |
//!
//! ```
//! use stillpoint::Domain as _;
//! use stillpoint::rcu::{self, Atomic, DeferOptions, Guard, Owned};
//!
//! struct Node {
//!     value: u64,
//!     next: Atomic<Node>,
//! }
//!
//! fn pop(head: &Atomic<Node>, guard: &Guard) -> Option<u64> {
//!     loop {
//!         let first = head.load(guard); // head.load(Acquire, guard)
//!         let node = first.as_ref()?; // unsafe { first.as_ref() }?
//!         let next = node.next.load(guard); // node.next.load(Acquire, guard)
//!         // head.compare_exchange(first, next, AcqRel, Acquire, guard)
//!         if head.compare_exchange(first, next, guard).is_ok() {
//!             // SAFETY: unlinked, and not linked again.
//!             unsafe { rcu::Global.retire_shared(first, DeferOptions::new()) }; // guard.defer_destroy(first)
//!             return Some(node.value);
//!         }
//!     }
//! }
//!
//! let head = Atomic::new(Owned::new(Node { value: 1, next: Atomic::null() }));
//! let guard = rcu::enter();
//! assert_eq!([pop(&head, &guard), pop(&head, &guard)], [Some(1), None]);
//! ```
//!
//! Differences: destructors and callbacks run in a thread of the library, so they must be `Send`, and may take locks
//! that the retiring thread holds. Nodes without destructors are freed by the thread that retires them, as in
//! crossbeam-epoch; so are nodes that only own memory (a `String`) with
//! [`DeferOptions::run_on_retiring_thread`](crate::rcu::DeferOptions::run_on_retiring_thread). Garbage is freed
//! promptly, not when the thread pins again. A thread that retires more than can be freed blocks when it drops its
//! guard. Readers execute no fence: instead each grace period interrupts the CPUs that run this process.
//!
//! # From the Linux kernel's RCU
//!
//! | Linux kernel | stillpoint |
//! |---|---|
//! | `rcu_read_lock()`, `rcu_read_unlock()` | [`rcu::enter()`](crate::rcu::enter), dropping the guard |
//! | `rcu_dereference(p)` | `p.load(&guard)`, where `p` is an [`Rcu`](crate::rcu::Rcu) |
//! | `rcu_assign_pointer(p, new)`, `kfree_rcu(old, head)` | `p.replace(new);` |
//! | `rcu_assign_pointer(p, new)`, `synchronize_rcu()` | `p.replace(new).wait()`, which returns the old value |
//! | `synchronize_rcu()`, `synchronize_rcu_expedited()` | [`rcu::synchronize()`](crate::rcu::synchronize); there is one kind |
//! | `call_rcu()`, `rcu_barrier()` | [`rcu::call(f)`](crate::rcu::call), [`rcu::barrier()`](crate::rcu::barrier) |
//! | `start_poll_synchronize_rcu()`, `poll_state_synchronize_rcu()` | [`GracePeriod::start()`](crate::rcu::GracePeriod::start), `is_elapsed()`; or `.await` it |
//! | `srcu_struct`; `srcu_read_lock()`, or `srcu_down_read()` if another task ends it | [`srcu::Domain`](crate::srcu::Domain), `enter()` |
//! | `this_cpu_add()` | [`percpu::Counter::add()`](crate::percpu::Counter::add) |
//! | `percpu_ref_get()`, `percpu_ref_tryget_live()`, `percpu_ref_put()`, `percpu_ref_kill()` | [`percpu::RefCount`](crate::percpu::RefCount): `get()`, `try_get()`, `put()`, `kill()` |
//! | stall warnings, rcutorture | [stall reports](crate::rcu#stalls), `cargo run --release --package stillpoint-torture -- rcu` in the repository |
//!
//! As in preemptible RCU, read-side critical sections belong to threads, may nest, and may be preempted. A grace
//! period is one `membarrier(2)` call and one scan of the registered threads. If readers hold it up, the thread that
//! runs it makes a second call, then sleeps until the last of these readers wakes it. Concurrent callers share grace
//! periods: one of them runs it for all.
//!
//! # From liburcu
//!
//! Programs that are already compiled can run on this library unchanged: see `docs/liburcu.md` in the repository.
//!
//! | liburcu | here |
//! |---|---|
//! | `urcu-memb`, `urcu-bp` | [`rcu`](crate::rcu), with the backend [`Membarrier`](crate::fence::Backend::Membarrier) |
//! | `urcu-mb`, `urcu-signal` | the same, with the backend [`SeqCst`](crate::fence::Backend::SeqCst) |
//! | `urcu-qsbr` | [`qsbr`](crate::qsbr) |
//! | `rcu_init` | [`fence::report`](crate::fence::report), which is optional |
//! | `rcu_register_thread` | nothing; [`register`](crate::rcu::register) before signal handlers read; [`qsbr::register`](crate::qsbr::register) |
//! | `rcu_read_lock`, `rcu_read_unlock` | [`enter`](crate::rcu::enter), and dropping the guard |
//! | `rcu_read_ongoing` | [`in_read_section`](crate::rcu::in_read_section) |
//! | `rcu_dereference` | [`Rcu::load`](crate::rcu::Rcu::load) |
//! | `rcu_xchg_pointer`, `rcu_assign_pointer` | [`Rcu::swap`](crate::rcu::Rcu::swap), [`Rcu::replace`](crate::rcu::Rcu::replace) |
//! | `rcu_cmpxchg_pointer` | [`Rcu::compare_exchange`](crate::rcu::Rcu::compare_exchange), [`Rcu::update`](crate::rcu::Rcu::update) |
//! | `synchronize_rcu` | [`synchronize`](crate::rcu::synchronize), or [`Retired::wait`](crate::rcu::Retired::wait) |
//! | `start_poll_synchronize_rcu`, `poll_state_synchronize_rcu` | [`GracePeriod::start`](crate::rcu::GracePeriod::start), [`is_elapsed`](crate::rcu::GracePeriod::is_elapsed) |
//! | `call_rcu`, `defer_rcu` | [`call`](crate::rcu::call), [`retire`](crate::rcu::retire) |
//! | `rcu_barrier` | [`barrier`](crate::rcu::barrier) |
//! | `create_call_rcu_data`, `set_cpu_call_rcu_data` | nothing: each domain has a worker |
//! | `call_rcu_before_fork` and the like | nothing: see [fork](crate::rcu#fork) |
//! | `rcu_quiescent_state` | [`Handle::quiescent`](crate::qsbr::Handle::quiescent) |
//! | `rcu_thread_offline`, `rcu_thread_online` | [`Handle::offline`](crate::qsbr::Handle::offline) |
//! | `cds_lfht` and other containers | nothing: see the first table of [the guide](super) |
//!
//! ```
//! use std::thread;
//! use stillpoint::qsbr;
//! use stillpoint::rcu::Rcu;
//!
//! let table = Rcu::new_in(vec![1, 2, 3], qsbr::Global);
//! thread::scope(|s| {
//!     s.spawn(|| {
//!         let mut thread = qsbr::register(); // rcu_register_thread
//!         for index in 0..3 {
//!             let table = table.load(&thread); // rcu_dereference
//!             assert!(table[index] > 0);
//!             thread.quiescent(); // rcu_quiescent_state
//!         }
//!         thread.offline(thread::yield_now); // rcu_thread_offline, ..., rcu_thread_online
//!     }); // rcu_unregister_thread
//!     let old = table.swap(Box::new(vec![4, 5, 6])); // rcu_xchg_pointer
//!     drop(old.wait()); // synchronize_rcu, free
//! });
//! ```
//!
//! Differences: a grace period that no reader holds up takes one fence and one scan of the threads; threads sleep
//! instead of polling; threads that defer faster than callbacks run are throttled. The compiler checks the domain of
//! a guard and the lifetime of a reference.
//!
//! # From `Mutex`
//!
//! [`lock::Mutex`](crate::lock::Mutex) is a [`lock_api::Mutex`], like that of `parking_lot`.
//!
//! | std | here, and parking_lot |
//! |---|---|
//! | `lock().unwrap()` | `lock()`: there is no poisoning |
//! | `try_lock()`: a `Result` | `try_lock()`: an `Option` |
//! | | `try_lock_for`, `try_lock_until` |
//! | `guard = condvar.wait(guard).unwrap()` | `condvar.wait(&mut guard)` |
//! | `condvar.wait_timeout(guard, time)` | `condvar.wait_for(&mut guard, time)` |
//! | `condvar.wait_timeout_while(guard, time, condition)` | `condvar.wait_while_for(&mut guard, condition, time)` |
//! | `drop(guard)` | the same, or `MutexGuard::unlock_fair(guard)`, which hands the lock to the longest waiter |
//! | the guard is not `Send` | the same, unless the feature `send_guard` is on |
//!
//! | parking_lot | here |
//! |---|---|
//! | `parking_lot::{Mutex, MutexGuard, Condvar}` | `stillpoint::lock::{Mutex, MutexGuard, Condvar}` |
//! | `MappedMutexGuard<'a, T>` | `lock_api::MappedMutexGuard<'a, RawMutex, T>`: what `MutexGuard::map` returns |
//! | `wait_until(guard, instant)` | `wait_for(guard, instant - Instant::now())`; and likewise `wait_while_until` |
//! | `Mutex<T>` in a type that takes a raw lock | [`lock::RawMutex`](crate::lock::RawMutex); for `lock_api` 0.5 with the feature `lock_api_05` |
//! | the feature `send_guard` | the same |
//! | `RwLock` | [`Rcu`](crate::rcu::Rcu), or [`lock::RwLock`](crate::lock::RwLock) |
//! | `Once`, `ReentrantMutex` | std's `OnceLock`, and `lock_api::ReentrantMutex` |
//!
//! In a signal handler only `try_lock` is allowed, and the release of a lock that it took.
//!
//! `lock::Mutex` is worthwhile if more threads than CPUs use the lock: `cargo run --profile bench --features bench --
//! bench lock`, in the repository, measures that on your machine.
//!
//! # From atomic counters
//!
//! | `AtomicU64`, `AtomicI64`, `AtomicUsize` | [`percpu::Counter`](crate::percpu::Counter) |
//! |---|---|
//! | `AtomicU64::new(0)`, `AtomicI64::new(0)` | `Counter::<u64>::new()`, `Counter::<i64>::new()`; also `usize` and `isize` |
//! | `fetch_add(n, Relaxed)` | `add(n)`, which does not return the old value |
//! | `fetch_sub(1, Relaxed)` | `add(-1)` on a `Counter<i64>` |
//! | `load(Relaxed)` | `sum()`: visits each CPU, and is not a snapshot |
//! | `swap(0, Relaxed)` | none: keep the last sum, and subtract |
//! | `fetch_max`, `compare_exchange` | none |
//!
//! Keep an atomic for a counter that one thread changes, or that changes rarely: a `Counter` takes eight bytes per
//! CPU and 24 more.
