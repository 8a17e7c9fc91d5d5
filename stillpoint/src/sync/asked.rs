//! What the program or the environment asks for, where there is a choice.

use core::ffi::CStr;
use core::fmt;

use crate::sys;

/// The alternative that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<T> {
    Nothing,
    For(T),
    /// The environment variable has another value than the name of an alternative.
    Unknown,
}

impl<T: Copy + fmt::Display> Asked<T> {
    /// Returns what the environment variable asks for: one of `alternatives`, by name. Does not allocate.
    pub fn by_environment(variable: &CStr, alternatives: &[(&str, T)]) -> Self {
        sys::with_variable(variable, |value| {
            let Some(value) = value else { return Asked::Nothing };
            let found = alternatives.iter().find(|(name, _)| name.as_bytes() == value);
            found.map_or(Asked::Unknown, |&(_, found)| Asked::For(found))
        })
    }

    /// Displays what was asked for and the reason for the choice: `why`, or `unknown` if the environment names none.
    pub fn explain(&self, why: impl fmt::Display, unknown: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Nothing => why.fmt(f),
            Asked::For(asked) => write!(f, "{asked} was asked for; {why}"),
            Asked::Unknown => f.write_str(unknown),
        }
    }
}
