//! Models of the algorithms, which loom explores.
//!
//! Each test explores a [`check`](support::model::check): its first number says how often an algorithm spins before
//! it sleeps, its second how often loom preempts a thread. A thread that heavy fences interrupt
//! ([`race_reader`](support::model::race_reader)) takes the interrupts where it calls `poll`: so a model says where
//! they may land. `Refutes:` names what makes a test fail (`ci/mutants.sh`): a step that is left out, or
//! `function:Ordering` made Relaxed. A test without it explores a case that no mutant of its own stands for.
#![cfg(loom)]

mod arc;
mod atomic;
mod callbacks;
mod condvar;
mod failed_exchange;
mod fallback;
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
mod word_rwlock;
mod worker_state;
