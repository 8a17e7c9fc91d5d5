//! The backends of the fence that this build of the library has.

pub const BACKENDS: &[&str] = if cfg!(feature = "signal-fence") {
    &["membarrier", "signal", "seqcst"]
} else {
    &["membarrier", "seqcst"]
};
