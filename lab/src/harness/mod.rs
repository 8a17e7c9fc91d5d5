//! What every bench shares: the order of measurements, statistics over rounds, progress, and the report.
//!
//! A bench is a list of *cells* (configurations) and a list of *systems*. A round measures every system in every cell
//! once. All rounds run in one process, so that peers meet the same machine in the same minute, and the order of the
//! systems rotates, so that none of them always comes first. Ratios are formed within a round (see [`stats`]).

pub(crate) mod buckets;
pub(crate) mod clock;
pub(crate) mod controls;
pub(crate) mod crew;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod pin;
pub(crate) mod plan;
pub(crate) mod posted;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod schema;
pub(crate) mod stats;
pub(crate) mod timed_loop;
pub(crate) mod units;
pub(crate) mod worker;

pub(crate) use options::Options;
pub(crate) use plan::{Plan, System, run, systems};
pub(crate) use posted::Posted;
pub(crate) use progress::Progress;
pub(crate) use report::{Report, Skipped};
pub(crate) use schedule::{Budget, Schedule};
pub(crate) use stats::{Better, Config, Metric, Recorder};
