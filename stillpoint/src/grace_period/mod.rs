//! Grace periods: the engine that starts, shares and ends them, cookies, statistics, stalls, the audit and the
//! probes.

pub mod audit;
pub mod counters;
pub mod detector;
pub mod engine;
pub mod stall;
pub mod trace;
