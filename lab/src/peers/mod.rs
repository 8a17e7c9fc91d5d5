//! Peers that need more than a dependency.

#[cfg(feature = "liburcu")]
pub(crate) mod liburcu;

/// Name of liburcu's flavor that relies on `membarrier`, with inlined readers.
pub(crate) const LIBURCU: &str = "liburcu-memb";

/// Why liburcu is missing in a build without its feature.
#[cfg(not(feature = "liburcu"))]
pub(crate) fn liburcu_missing() -> crate::harness::Skipped {
    crate::harness::Skipped {
        system: LIBURCU,
        why: "not built in: install liburcu-dev and run with `cargo run --release --features liburcu`".into(),
    }
}
