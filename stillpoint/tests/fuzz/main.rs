//! Random programs of several threads, compared with models.
#![cfg(not(loom))]

mod gp_model;
mod grace;
mod grace_periods;
mod lock;
mod program;
mod rwlock;
