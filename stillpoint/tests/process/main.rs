//! What a process decides as a whole: its end, its system-call filters, and how its workers are scheduled. Most tests run
//! in a process of their own.
#![cfg(not(loom))]

mod deadline;
mod seccomp;
mod worker_processes;
mod worker_scheduling;
