//! What the program or the environment asks for, where there are several ways to do a thing.

use core::ffi::CStr;
use core::fmt;

use crate::sys;

/// The way that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<T> {
    Nothing,
    For(T),
    /// The environment variable has another value than the name of a way.
    Unknown,
}

impl<T: Copy + fmt::Display> Asked<T> {
    /// Returns what the environment variable asks for: one of `ways`, by name. Does not allocate.
    pub fn by_environment(variable: &CStr, ways: &[(&str, T)]) -> Self {
        sys::with_variable(variable, |value| {
            let Some(value) = value else { return Asked::Nothing };
            let way = ways.iter().find(|(name, _)| name.as_bytes() == value);
            way.map_or(Asked::Unknown, |&(_, way)| Asked::For(way))
        })
    }

    /// Displays what was asked for and the reason for the choice: `why`, or `unknown` if the environment names no way.
    pub fn explain(&self, why: impl fmt::Display, unknown: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Nothing => why.fmt(f),
            Asked::For(way) => write!(f, "{way} was asked for; {why}"),
            Asked::Unknown => f.write_str(unknown),
        }
    }
}
