//! What [`HashMap::compute`](super::HashMap::compute) may do, and what it has done.

/// What to do with the entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<V, T> {
    /// Insert the value, or replace the entry by one with the value.
    Insert(V),
    /// Remove the entry, if there is one.
    Remove,
    /// Change nothing, and return the value in [`Compute::Aborted`].
    Abort(T),
}

/// What was done with the entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute<'g, K, V, T> {
    /// The entry was inserted.
    Inserted(&'g K, &'g V),
    /// The entry was replaced.
    Updated {
        /// The entry before.
        old: (&'g K, &'g V),
        /// The entry now.
        new: (&'g K, &'g V),
    },
    /// The entry was removed, or `None` if there was none.
    Removed(Option<(&'g K, &'g V)>),
    /// Nothing was changed.
    Aborted(T),
}
