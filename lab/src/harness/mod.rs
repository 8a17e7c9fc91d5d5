//! Shared by all benches: the order of measurements, statistics over rounds, progress, and the report.
//!
//! A bench has *cells* (configurations) and *systems*. A round measures each system once in each cell. All rounds run
//! in one process, so that peers meet the same machine in the same minute, and the order of the systems rotates. Ratios
//! are formed within a round (see [`stats`]).

pub(crate) mod buckets;
pub(crate) mod controls;
pub(crate) mod crew;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod origin;
pub(crate) mod pin;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod schema;
pub(crate) mod stats;
pub(crate) mod timed_loop;
pub(crate) mod units;
pub(crate) mod worker;

pub(crate) use options::Options;
pub(crate) use origin::Origin;
pub(crate) use plan::{Budget, Plan, System, systems};
pub(crate) use progress::Progress;
pub(crate) use report::{Report, Skipped};
pub(crate) use stats::{Better, Config, Metric, Recorder};
