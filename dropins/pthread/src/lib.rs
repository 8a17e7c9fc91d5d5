//! The C library's locks, on stillpoint's: `libstillpoint-pthread.so`, for `LD_PRELOAD`. See
//! `dropins/pthread/README.md`.
//!
//! Each function looks at the object: what kind it is, the C library's initializers and `init` functions have stored.
//! Private objects of the plain kinds get a lock of stillpoint inside the object. All others keep the C library's
//! functions (`original`).
//!
//! | object | bytes | of stillpoint's lock | of the C library, left as they are |
//! |---|---|---|---|
//! | `pthread_mutex_t` | 40 | 0..4: [`RawMutex`](stillpoint::lock::RawMutex) | 16..20: kind |
//! | `pthread_cond_t` | 48 | 0..16: [`Condvar`](stillpoint::lock::Condvar); 36..40: waiters, and whose it is | 36: clock, shared or not |
//! | `pthread_rwlock_t` | 56 | 0..12: the lock; 16..24: the writer | 28..32: shared or not; 48..52: preference |
//! | `pthread_spinlock_t` | 4 | 0..4: `RawMutex`, unless shared | |
//!
//! A free lock of stillpoint is all zeros, as are the C library's initializers but for the kind.
//!
//! No function allocates, so an allocator may use them; none changes `errno`.

#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]

mod cond;
mod mutex;
mod original;
mod rwlock;
mod spin;
mod time;
