//! Where a result is from: the run that measured it, and the code.

use std::process::{self, Command};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// What a commit is called where there is none.
pub const UNKNOWN: &str = "unknown";

/// A run and its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the run: its start in seconds since 1970, and the number of its process.
    pub run: String,
    /// The commit of the source that this program was built from, or [`UNKNOWN`].
    pub commit: String,
    /// Whether the source had changes that were not committed.
    pub dirty: bool,
}

impl Origin {
    /// Reads the facts.
    pub fn read() -> Self {
        let git = |arguments: &[&str]| {
            let source = env!("CARGO_MANIFEST_DIR");
            let output = Command::new("git").arg("-C").arg(source).args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| UNKNOWN.to_owned());
        let changes = git(&["status", "--porcelain", "--", ":(top)"]);
        let dirty = changes.is_some_and(|changes| !changes.is_empty());
        let start = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self { run: format!("{start}-{}", process::id()), commit, dirty }
    }

    /// Returns the commit in short.
    pub fn short(&self) -> String {
        let commit = self.commit.get(..12).unwrap_or(&self.commit);
        if self.dirty { format!("{commit} with changes") } else { commit.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_names_a_commit_or_says_that_there_is_none() {
        let origin = Origin::read();
        let is_hash = origin.commit.len() >= 40 && origin.commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_hash || origin.commit == UNKNOWN, "{origin:?}");
    }
}
