//! Programs must not unload a shared library with this crate.

/// Returns `true`: see the [module](self).
#[must_use]
pub fn is_pinned() -> bool {
    true
}
