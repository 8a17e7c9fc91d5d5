//! What the program or the environment requests, where there is a choice.

use core::ffi::CStr;
use core::fmt;

use crate::sys;

/// The alternative that was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested<T> {
    Nothing,
    Value(T),
    /// The environment variable has another value than the name of an alternative.
    Unknown,
}

impl<T: Copy + fmt::Display> Requested<T> {
    /// Returns what the environment variable requests: one of `alternatives`, by name. Does not allocate.
    pub fn by_environment(variable: &CStr, alternatives: &[(&str, T)]) -> Self {
        sys::with_variable(variable, |value| {
            let Some(value) = value else { return Requested::Nothing };
            let found = alternatives.iter().find(|(name, _)| name.as_bytes() == value);
            found.map_or(Requested::Unknown, |&(_, found)| Requested::Value(found))
        })
    }

    /// Displays what was requested and the reason for the choice: `why`, or `unknown` if the environment names none.
    pub fn explain(&self, why: impl fmt::Display, unknown: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requested::Nothing => why.fmt(f),
            Requested::Value(requested) => write!(f, "{requested} was asked for; {why}"),
            Requested::Unknown => f.write_str(unknown),
        }
    }
}
