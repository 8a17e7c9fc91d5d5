//! Coming here from other ways of doing it.
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
//! use std::sync::RwLock;
//! use stillpoint::rcu::{self, Rcu};
//!
//! // Before:
//! let hosts = RwLock::new(vec!["a"]);
//! let first = hosts.read().unwrap()[0];
//! hosts.write().unwrap().push("b");
//! assert_eq!((first, hosts.read().unwrap().len()), ("a", 2));
//!
//! // After:
//! let hosts = Rcu::new(vec!["a"]);
//! let first = hosts.load(&rcu::enter())[0];
//! hosts.modify(|hosts| hosts.push("b"));
//! assert_eq!((first, hosts.load(&rcu::enter()).len()), ("a", 2));
//! ```
//!
//! What is different:
//!
//! - A writer does not wait for readers, and does not keep them out: they have the old value as long as their section lasts. If
//!   the old value must be out of use before something else is done, wait for it.
//! - A change, by `modify` or `update`, copies the value. If that is much, put parts of it into `Arc`s, or into `Rcu`s of their own.
//! - The value is `Send`, `Sync` and `'static`, as it may outlive the `Rcu`, and be dropped by another thread.
//! - Writers do not keep each other out either: `modify` and `update` run their closures again if another writer was faster. If making a
//!   value has effects, put a `Mutex<()>` around writing.
//! - Nothing is poisoned. A panic in `modify` leaves the value as it was.
//! - A guard is not `Send`, as that of `RwLock` is not. Tasks use [`srcu`](crate::srcu), where tokio's `RwLock` was.
//!
//! From arc-swap: `ArcSwap<T>` becomes `Rcu<T>`, `load()` becomes `load(&guard)`, `rcu()` becomes `update`. Where `load_full()` made an `Arc` to
//! keep, have an `Rcu<Arc<T>>` and clone what is loaded.
//!
//! # From crossbeam-epoch
//!
//! | crossbeam-epoch | here |
//! |---|---|
//! | `epoch::pin()`, `Guard` | [`rcu::enter()`](crate::rcu::enter), [`Guard`](crate::rcu::Guard) |
//! | an `Atomic<T>` that is never null: `load`, `unsafe { shared.deref() }` | [`Rcu<T>`](crate::rcu::Rcu): [`load`](crate::rcu::Rcu::load), without `unsafe` |
//! | one that may be null | `Rcu<Option<T>>` |
//! | `swap`, then `unsafe { guard.defer_destroy(old) }` | [`replace`](crate::rcu::Rcu::replace) |
//! | a loop of `compare_exchange` | [`modify`](crate::rcu::Rcu::modify), [`update`](crate::rcu::Rcu::update) |
//! | links between nodes | `AtomicPtr`, and [`retire_raw`](crate::rcu::retire_raw) for those that are unlinked |
//! | `guard.defer(f)` | [`call(f)`](crate::rcu::call) |
//! | `guard.repin()` | [`Guard::repin`](crate::rcu::Guard::repin) |
//! | `guard.flush()` | nothing: what is deferred is done without it |
//! | `Collector`, `LocalHandle` | [`domain!`](crate::domain), or a [`srcu::Domain`](crate::srcu::Domain) where it is to be a value |
//! | `epoch::unprotected()` | [`get_mut`](crate::rcu::Rcu::get_mut), [`into_inner`](crate::rcu::Rcu::into_inner) |
//! | no way to wait | [`synchronize`](crate::rcu::synchronize), [`Retired::wait`](crate::rcu::Retired::wait), [`GracePeriod`](crate::rcu::GracePeriod), [`barrier`](crate::rcu::barrier) |
//!
//! A stack whose nodes are linked by hand:
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
//! // SAFETY: a node is sent to be freed only.
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
//!         let mut head = self.head.load(Relaxed);
//!         loop {
//!             // SAFETY: nobody else has it yet.
//!             unsafe { (*node).next = head };
//!             match self.head.compare_exchange_weak(head, node, Release, Relaxed) {
//!                 Ok(_) => return,
//!                 Err(now) => head = now,
//!             }
//!         }
//!     }
//!
//!     fn pop(&self) -> Option<u64> {
//!         // While it lives, no node is freed that it might see, and no address is used again.
//!         let _guard = rcu::enter();
//!         loop {
//!             let head = NonNull::new(self.head.load(Acquire))?;
//!             // SAFETY: the guard.
//!             let Node { value, next } = *unsafe { head.as_ref() };
//!             if self.head.compare_exchange(head.as_ptr(), next, Acquire, Relaxed).is_ok() {
//!                 // SAFETY: from a box, and out of the stack, by us.
//!                 unsafe { rcu::retire_raw(head, DeferOptions::new().run_on_retiring_thread()) };
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
//! What is different: destructors and callbacks run in a thread of the library, so they must be `Send`, and may take locks that
//! the thread which retires them holds. For nodes whose values only own memory (a `String`) say
//! [`DeferOptions::run_on_retiring_thread`](crate::rcu::DeferOptions::run_on_retiring_thread): their own thread frees them, as crossbeam-epoch does, and as this one does nodes
//! without destructors. Garbage is freed promptly, not when the thread pins again; a program that retires more than can be freed
//! is made to wait when it drops its guard; and the readers' half of the fence is on the writer, so a grace period interrupts
//! the CPUs of this process.
//!
//! # From liburcu
//!
//! | liburcu | here |
//! |---|---|
//! | `urcu-memb`, `urcu-bp` | [`rcu`](crate::rcu), with the backend [`Membarrier`](crate::fence::Backend::Membarrier) |
//! | `urcu-mb`, `urcu-signal` | the same, with the backends [`SeqCst`](crate::fence::Backend::SeqCst) and [`Signal`](crate::fence::Backend::Signal) (feature `signal-fence`) |
//! | `urcu-qsbr` | [`qsbr`](crate::qsbr) |
//! | `rcu_init` | [`fence::init`](crate::fence::init), which nobody need call |
//! | `rcu_register_thread` | nothing; [`register`](crate::rcu::register) before signal handlers read; [`qsbr::register`](crate::qsbr::register) |
//! | `rcu_read_lock`, `rcu_read_unlock` | [`enter`](crate::rcu::enter), and dropping the guard |
//! | `rcu_read_ongoing` | [`is_inside`](crate::rcu::in_read_section) |
//! | `rcu_dereference` | [`Rcu::load`](crate::rcu::Rcu::load) |
//! | `rcu_xchg_pointer`, `rcu_assign_pointer` | [`Rcu::swap`](crate::rcu::Rcu::swap), [`Rcu::replace`](crate::rcu::Rcu::replace) |
//! | `rcu_cmpxchg_pointer` | [`Rcu::update`](crate::rcu::Rcu::update) |
//! | `synchronize_rcu` | [`synchronize`](crate::rcu::synchronize), or [`Retired::wait`](crate::rcu::Retired::wait) |
//! | `start_poll_synchronize_rcu`, `poll_state_synchronize_rcu` | [`GracePeriod::start`](crate::rcu::GracePeriod::start), [`is_elapsed`](crate::rcu::GracePeriod::is_elapsed) |
//! | `call_rcu`, `defer_rcu` | [`call`](crate::rcu::call), [`retire`](crate::rcu::retire) |
//! | `rcu_barrier` | [`barrier`](crate::rcu::barrier) |
//! | `create_call_rcu_data`, `set_cpu_call_rcu_data` | nothing: there is a worker for each domain |
//! | `call_rcu_before_fork` and its like | nothing: see [fork](crate::rcu#fork) |
//! | `rcu_quiescent_state` | [`Handle::quiescent`](crate::qsbr::Handle::quiescent) |
//! | `rcu_thread_offline`, `rcu_thread_online` | [`Handle::offline`](crate::qsbr::Handle::offline) around what blocks |
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
//! What is different: a grace period is one fence and one pass, nobody polls, and callbacks that cannot keep up slow down those
//! who queue them. What the compiler can check it does: which domain a guard is of, and for how long a reference lasts.
//!
//! # From `Mutex`
//!
//! [`lock::Mutex`](crate::lock::Mutex) is a [`lock_api::Mutex`], as that of `parking_lot` is: for that, change the `use`.
//!
//! | std | here, and parking_lot |
//! |---|---|
//! | `lock().unwrap()` | `lock()`: there is no poisoning |
//! | `try_lock()`: a `Result` | `try_lock()`: an `Option` |
//! | | `try_lock_for`, `try_lock_until` |
//! | `guard = condvar.wait(guard).unwrap()` | `condvar.wait(&mut guard)` |
//! | `condvar.wait_timeout(guard, time)` | `condvar.wait_for(&mut guard, time)` |
//! | `condvar.wait_timeout_while(guard, time, condition)` | `condvar.wait_while_for(&mut guard, condition, time)` |
//! | `drop(guard)` | the same, or `MutexGuard::unlock_fair(guard)`: to the thread that has waited longest |
//! | the guard stays in its thread | the guard is `Send` |
//!
//! | parking_lot | here |
//! |---|---|
//! | `parking_lot::{Mutex, MutexGuard, MappedMutexGuard, Condvar}` | `stillpoint::lock::{Mutex, MutexGuard, MappedMutexGuard, Condvar}` |
//! | `Mutex<T>` in a type that takes a raw lock | [`lock::RawMutex`](crate::lock::RawMutex); for `lock_api` 0.4 with the feature `lock_api_04` |
//! | `notify_one()` returns whether there was a waiter, `notify_all()` how many | the same for sleeping waiters: one that was about to sleep is not counted |
//! | `RwLock` | [`Rcu`](crate::rcu::Rcu), or keep it |
//! | `Once`, `ReentrantMutex` | std's `OnceLock`, and `lock_api::ReentrantMutex` |
//!
//! Signal handlers may call `try_lock`, and release what it took; nothing else.
//!
//! It pays where there are more threads than CPUs: `cargo run --release -- bench lock` measures it on this machine.
//!
//! # From atomic counters
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//! use stillpoint::percpu::Counter;
//!
//! // Before:
//! static REQUESTS: AtomicU64 = AtomicU64::new(0);
//! REQUESTS.fetch_add(1, Relaxed);
//! assert_eq!(REQUESTS.load(Relaxed), 1);
//!
//! // After:
//! static SERVED: Counter = Counter::new();
//! SERVED.add(1);
//! assert_eq!(SERVED.sum(), 1);
//! ```
//!
//! | `AtomicU64`, `AtomicI64` | [`percpu::Counter`](crate::percpu::Counter) |
//! |---|---|
//! | `AtomicU64::new(0)`, `AtomicI64::new(0)` | `Counter::new()`, `Counter::signed()` |
//! | `fetch_add(n, Relaxed)` | `add(n)`, which does not tell what there was |
//! | `fetch_sub(1, Relaxed)` | `add(-1)` on a `Counter::signed()` |
//! | `load(Relaxed)` | `sum()`: visits each CPU, and is no snapshot of a moment |
//! | `swap(0, Relaxed)` | none: keep the last sum, and subtract |
//! | `fetch_max`, `compare_exchange` | none |
//!
//! A counter that one thread changes, or nobody changes often, is better off as it is: each takes 128 bytes a CPU.
