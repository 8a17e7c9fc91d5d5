//! What the programs of the lab share: threads and CPUs, [`probe`], [`seccomp_deny`]; for measurements, with the
//! feature `measure`, their order, statistics over rounds, and the report.
//!
//! A bench has *cells* (configurations) and *systems*. A round measures each system once in each cell. All rounds run
//! in one process, so that peers meet the same machine in the same minute, and the order of the systems rotates.
//! Ratios are formed within a round (see [`stats`]). A round in which threads did not get the CPUs that they could
//! use is measured again (see [`given`]), and cells can have two [profiles](profile).
#![allow(missing_docs, missing_debug_implementations, reason = "for programs of this repository only")]

pub mod controls;
pub mod cpus;
pub mod crew;
#[cfg(feature = "measure")]
pub mod given;
pub mod grid;
pub mod machine;
pub mod memory;
#[cfg(feature = "measure")]
pub mod options;
#[cfg(feature = "measure")]
pub mod origin;
pub mod pin;
#[cfg(feature = "measure")]
pub mod plan;
pub mod probe;
#[cfg(feature = "measure")]
pub mod profile;
#[cfg(feature = "measure")]
pub mod report;
#[cfg(feature = "measure")]
pub mod schema;
pub mod seccomp_deny;
#[cfg(feature = "measure")]
mod select;
#[cfg(feature = "measure")]
pub mod stats;
#[cfg(feature = "measure")]
pub mod timed_loop;
pub mod units;
#[cfg(feature = "measure")]
pub mod worker;

#[cfg(feature = "measure")]
pub use {
    options::Options,
    origin::Origin,
    plan::{Budget, Plan, System},
    profile::Profile,
    report::{Report, Skipped},
    stats::{Better, Config, Metric, Recorder},
};
