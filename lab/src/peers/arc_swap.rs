//! arc-swap: a pointer to an `Arc`.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::{ReadSide, VALUE, read_side};

/// For short sections: `load()`, its fast path.
pub(crate) struct Load(ArcSwap<u64>);

read_side!(
    Load,
    "arc-swap",
    Guard<Arc<u64>>,
    Self(ArcSwap::from_pointee(VALUE)),
    |this| this.0.load(),
    |_this, guard| ***guard
);

/// What its documentation recommends for values that are held for long, as across `.await`.
pub(crate) struct LoadFull(ArcSwap<u64>);

read_side!(
    LoadFull,
    "arc-swap-full",
    Arc<u64>,
    Self(ArcSwap::from_pointee(VALUE)),
    |this| this.0.load_full(),
    |_this, guard| **guard
);
