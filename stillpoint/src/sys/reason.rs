//! Why a choice was made that depends on the system.

use core::fmt;
use std::io;

/// The reason for a choice: a text, and the system's error if it is not 0. A value, as the choice must not allocate.
#[derive(Debug, Clone, Copy)]
pub struct Reason(pub &'static str, pub i32);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        match self.1 {
            0 => Ok(()),
            error => write!(f, ": {}", io::Error::from_raw_os_error(error)),
        }
    }
}
