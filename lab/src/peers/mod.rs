//! Peers that need more than a dependency.

#[cfg(feature = "liburcu")]
pub(crate) mod liburcu;

#[cfg(feature = "liburcu")]
pub(crate) mod liburcu_qsbr;

/// Name of liburcu's flavor whose readers report quiescent states, inlined.
pub(crate) const LIBURCU_QSBR: &str = "liburcu-qsbr";

/// Name of liburcu's flavor that relies on `membarrier`, with inlined readers.
pub(crate) const LIBURCU: &str = "liburcu-memb";

/// Why liburcu is missing in a build without its feature.
#[cfg(not(feature = "liburcu"))]
pub(crate) fn liburcu_missing() -> crate::harness::Skipped {
    missing(LIBURCU)
}

/// Why `system` is missing in a build without liburcu.
#[cfg(not(feature = "liburcu"))]
pub(crate) fn missing(system: &'static str) -> crate::harness::Skipped {
    crate::harness::Skipped {
        system,
        why: "not built in: install liburcu-dev and run with `cargo run --release --features liburcu`".into(),
    }
}
