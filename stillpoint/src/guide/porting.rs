//! How to port code from other libraries.
//!
//! # From `RwLock`
//!
//! | `RwLock<T>` | here |
//! |---|---|
//! | `RwLock::new(value)` | `Rcu::new(value)` |
//! | `let value = lock.read().unwrap();` | `let guard = rcu::enter(); let value = pointer.load(&guard);` |
//! | `*lock.write().unwrap() = new;` | `pointer.replace(new);` |
//! | `lock.write().unwrap().push(x);` | `pointer.modify(\|value\| value.push(x));` |
//! | `mem::replace(&mut *lock.write().unwrap(), new)` | `pointer.replace(new).wait()` |
//! | `static LOCK: RwLock<T> = RwLock::new(...);` | `static POINTER: LazyLock<Rcu<T>> = LazyLock::new(\|\| Rcu::new(...));` |
//! | `get_mut`, `into_inner` | the same |
//!
//! ```
//! use stillpoint::rcu::{self, Rcu};
//!
//! let hosts = Rcu::new(vec!["a"]); // RwLock::new(vec!["a"])
//! let first = hosts.load(&rcu::enter())[0]; // hosts.read().unwrap()[0]
//! hosts.modify(|hosts| hosts.push("b")); // hosts.write().unwrap().push("b")
//! assert_eq!((first, hosts.load(&rcu::enter()).len()), ("a", 2));
//! ```
//!
//! Differences:
//!
//! - A writer does not wait for readers: they use the old value until their sections end. If no reader may use it any
//!   more when the writer goes on, use `pointer.replace(new).wait()`.
//! - `modify` and `update` copy the value. If it is large, put parts of it into `Arc`s or into `Rcu`s of their own.
//! - The value must be `Send`, `Sync` and `'static`: it may outlive the `Rcu`, and another thread may drop it.
//! - Writers do not exclude each other: `modify` and `update` call their closure again if another writer was faster. If
//!   that is too expensive or has side effects, hold a `Mutex<()>` while writing.
//! - There is no poisoning. A panic in `modify` leaves the value unchanged.
//! - A guard is not `Send`, like that of `RwLock`. For tokio's `RwLock`, use [`srcu`](crate::srcu).
//!
//! From arc-swap: `ArcSwap<T>` becomes `Rcu<T>`, `load()` becomes `load(&guard)`, and `rcu()` becomes `update`. To keep
//! an `Arc`, as by `load_full()`, clone it from an `Rcu<Arc<T>>`.
//!
//! # From C and C++
//!
//! The package `capi` of the repository has an interface for C, `stillpoint.h`, and the names of C++26's `<rcu>` for
//! C++17, `stillpoint/rcu.hpp`. A program may move to Rust in parts: readers in C, C++ and Rust are readers of the
//! domain [`rcu::Global`](crate::rcu::Global), and their sections nest. The Rust program names the crate
//! `stillpoint_capi`.
//!
//! # From crossbeam-epoch
//!
//! A program that should stay as it is, or that uses crossbeam-epoch through other crates, can use the package
//! `compat/crossbeam-epoch` of the repository, which has the API of crossbeam-epoch, by a line of `[patch.crates-io]`.
//!
//! | crossbeam-epoch | here |
//! |---|---|
//! | `epoch::pin()`, `Guard` | [`rcu::enter()`](crate::rcu::enter), [`Guard`](crate::rcu::Guard) |
//! | `Atomic<T>`, never null: `load`, `unsafe { shared.deref() }` | [`Rcu<T>`](crate::rcu::Rcu): [`load`](crate::rcu::Rcu::load), without `unsafe` |
//! | `Atomic<T>` that may be null | `Rcu<Option<T>>` |
//! | `swap`, then `unsafe { guard.defer_destroy(old) }` | [`replace`](crate::rcu::Rcu::replace) |
//! | a loop of `compare_exchange` | [`modify`](crate::rcu::Rcu::modify), [`update`](crate::rcu::Rcu::update) |
//! | links between nodes | `AtomicPtr`, and [`retire_raw`](crate::rcu::retire_raw) for unlinked nodes |
//! | `guard.defer(f)` | [`call(f)`](crate::rcu::call) |
//! | `guard.repin()` | [`Guard::repin`](crate::rcu::Guard::repin) |
//! | `guard.flush()` | hardly needed; [`flush`](crate::rcu::flush) |
//! | `Collector`, `LocalHandle` | [`domain!`](crate::domain), or [`srcu::Domain`](crate::srcu::Domain) for a domain that is a value |
//! | `epoch::unprotected()` | [`get_mut`](crate::rcu::Rcu::get_mut), [`into_inner`](crate::rcu::Rcu::into_inner) |
//! | no way to wait | [`synchronize`](crate::rcu::synchronize), [`Retired::wait`](crate::rcu::Retired::wait), [`GracePeriod`](crate::rcu::GracePeriod), [`barrier`](crate::rcu::barrier) |
//!
//! A stack of nodes that are linked by hand:
//!
//! ```
//! use std::ptr::{self, NonNull};
//! use std::sync::atomic::{AtomicPtr, Ordering::*};
//! use stillpoint::rcu::{self, DeferOptions};
//!
//! struct Node {
//!     value: u64,
//!     next: *mut Node,
//! }
//! // SAFETY: a node is sent only to be freed.
//! unsafe impl Send for Node {}
//!
//! #[derive(Default)]
//! struct Stack {
//!     head: AtomicPtr<Node>,
//! }
//!
//! impl Stack {
//!     fn push(&self, value: u64) {
//!         let node = Box::into_raw(Box::new(Node { value, next: ptr::null_mut() }));
//!         let publish = |head| {
//!             // SAFETY: the node is not published yet.
//!             unsafe { (*node).next = head };
//!             Some(node)
//!         };
//!         self.head.fetch_update(Release, Relaxed, publish).expect("never none");
//!     }
//!
//!     fn pop(&self) -> Option<u64> {
//!         // While it exists, no node that was in the stack is freed, and no address reused.
//!         let _guard = rcu::enter();
//!         loop {
//!             let head = NonNull::new(self.head.load(Acquire))?;
//!             // SAFETY: the guard.
//!             let Node { value, next } = *unsafe { head.as_ref() };
//!             if self.head.compare_exchange(head.as_ptr(), next, Acquire, Relaxed).is_ok() {
//!                 // SAFETY: from a box, and unlinked by this thread.
//!                 unsafe { rcu::retire_raw(head, DeferOptions::new()) };
//!                 return Some(value);
//!             }
//!         }
//!     }
//! }
//!
//! let stack = Stack::default();
//! stack.push(1);
//! stack.push(2);
//! assert_eq!([stack.pop(), stack.pop(), stack.pop()], [Some(2), Some(1), None]);
//! ```
//!
//! Differences: destructors and callbacks run in a thread of the library, so they must be `Send`, and may take locks
//! that the retiring thread holds. Nodes without destructors are freed by the thread that retires them, as in
//! crossbeam-epoch; so are nodes that only own memory (a `String`) with
//! [`DeferOptions::run_on_retiring_thread`](crate::rcu::DeferOptions::run_on_retiring_thread). Garbage is freed
//! promptly, not when the thread pins again. A thread that retires more than can be freed blocks when it drops its
//! guard. Readers execute no fence: instead each grace period interrupts the CPUs that run this process.
//!
//! # From liburcu
//!
//! | liburcu | here |
//! |---|---|
//! | `urcu-memb`, `urcu-bp` | [`rcu`](crate::rcu), with the backend [`Membarrier`](crate::fence::Backend::Membarrier) |
//! | `urcu-mb`, `urcu-signal` | the same, with the backends [`SeqCst`](crate::fence::Backend::SeqCst) and [`Signal`](crate::fence::Backend::Signal) (feature `signal-fence`) |
//! | `urcu-qsbr` | [`qsbr`](crate::qsbr) |
//! | `rcu_init` | [`fence::init`](crate::fence::init), which is optional |
//! | `rcu_register_thread` | nothing; [`register`](crate::rcu::register) before signal handlers read; [`qsbr::register`](crate::qsbr::register) |
//! | `rcu_read_lock`, `rcu_read_unlock` | [`enter`](crate::rcu::enter), and dropping the guard |
//! | `rcu_read_ongoing` | [`in_read_section`](crate::rcu::in_read_section) |
//! | `rcu_dereference` | [`Rcu::load`](crate::rcu::Rcu::load) |
//! | `rcu_xchg_pointer`, `rcu_assign_pointer` | [`Rcu::swap`](crate::rcu::Rcu::swap), [`Rcu::replace`](crate::rcu::Rcu::replace) |
//! | `rcu_cmpxchg_pointer` | [`Rcu::update`](crate::rcu::Rcu::update) |
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
//! instead of polling; threads that defer faster than callbacks run are throttled. The compiler checks the domain of a
//! guard and the lifetime of a reference.
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
//! | the guard is not `Send` | the guard is `Send` |
//!
//! | parking_lot | here |
//! |---|---|
//! | `parking_lot::{Mutex, MutexGuard, MappedMutexGuard, Condvar}` | `stillpoint::lock::{Mutex, MutexGuard, MappedMutexGuard, Condvar}` |
//! | `Mutex<T>` in a type that takes a raw lock | [`lock::RawMutex`](crate::lock::RawMutex); for `lock_api` 0.4 with the feature `lock_api_04` |
//! | `notify_one()` returns whether there was a waiter, `notify_all()` how many | the same, for sleeping waiters: one that is about to sleep is not counted |
//! | `RwLock` | [`Rcu`](crate::rcu::Rcu), or keep it |
//! | `Once`, `ReentrantMutex` | std's `OnceLock`, and `lock_api::ReentrantMutex` |
//!
//! In a signal handler only `try_lock` is allowed, and the release of a lock that it took.
//!
//! `lock::Mutex` is worthwhile if more threads than CPUs use the lock: `cargo run --release -- bench lock`, in the
//! repository, measures that on your machine.
//!
//! # From atomic counters
//!
//! | `AtomicU64`, `AtomicI64` | [`percpu::Counter`](crate::percpu::Counter) |
//! |---|---|
//! | `AtomicU64::new(0)`, `AtomicI64::new(0)` | `Counter::new()`, `Counter::signed()` |
//! | `fetch_add(n, Relaxed)` | `add(n)`, which does not return the old value |
//! | `fetch_sub(1, Relaxed)` | `add(-1)` on a `Counter::signed()` |
//! | `load(Relaxed)` | `sum()`: visits each CPU, and is not a snapshot |
//! | `swap(0, Relaxed)` | none: keep the last sum, and subtract |
//! | `fetch_max`, `compare_exchange` | none |
//!
//! Keep an atomic for a counter that one thread changes, or that changes rarely: a `Counter` takes 128 bytes per CPU.
