//! What a process decides as a whole: its end, its system-call filters, and how its workers are scheduled. Most tests
//! run in a process of their own.
#![cfg(not(loom))]

mod end_of_main;
#[cfg(target_os = "linux")]
mod many_domains;
#[cfg(target_os = "linux")]
mod no_threads;
// What the kernel of Linux does for a process.
#[cfg(not(stillpoint_portable))]
mod seccomp;
#[cfg(target_os = "linux")]
mod worker_processes;
#[cfg(not(stillpoint_portable))]
mod worker_scheduling;
#[cfg(target_os = "linux")]
mod worker_stack;
