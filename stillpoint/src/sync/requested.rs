//! What the program or the environment requests, where there is a choice.

use core::ffi::CStr;
use core::fmt;

use crate::sys::{self, Reason};

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

    /// Returns what was requested and the reason for the choice, to display: `why`, or `unknown` if the environment
    /// names no alternative.
    pub fn explain(self, why: Reason, unknown: &'static str) -> impl fmt::Display {
        Explanation { requested: self, why, unknown }
    }
}

struct Explanation<T> {
    requested: Requested<T>,
    why: Reason,
    unknown: &'static str,
}

impl<T: fmt::Display> fmt::Display for Explanation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.requested {
            Requested::Nothing => self.why.fmt(f),
            Requested::Value(requested) => write!(f, "{requested} was asked for; {}", self.why),
            Requested::Unknown => f.write_str(self.unknown),
        }
    }
}
