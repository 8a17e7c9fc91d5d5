//! Grace periods: the engine that starts, shares and ends them, their cookies, the stall detector, the audit and the trace.

pub mod audit;
pub mod cookie;
pub mod engine;
pub mod stall;
pub mod trace;
