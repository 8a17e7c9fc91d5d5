//! Models of the algorithms, which loom explores.
#![cfg(loom)]

mod arc;
mod atomic;
mod callbacks;
mod condvar;
mod failed_exchange;
mod fallback;
mod free_words;
mod handles;
mod lock;
mod lock_times;
mod own;
mod poller;
mod pool_state;
mod protect;
mod qsbr;
mod queue;
mod rcu;
mod ref_count;
mod registration;
mod registry;
mod rwlock;
mod shared_seq;
mod slots;
mod srcu;
mod two_slots;
mod used;
mod word_rwlock;
mod worker_state;
