//! There are no fork handlers: the child of a fork may only `exec` or `_exit`.

/// The functions of a part that run on Linux when the process forks.
#[derive(Debug)]
#[expect(dead_code, reason = "nothing calls them")]
pub struct ForkHook {
    pub order: usize,
    pub prepare: fn(),
    pub parent: fn(),
    /// # Safety
    ///
    /// The calling thread is the only one in the process.
    pub child: unsafe fn(),
}

impl ForkHook {
    /// Creates a hook for the child alone.
    pub const fn in_child(order: usize, child: unsafe fn()) -> Self {
        Self { order, prepare: || (), parent: || (), child }
    }
}

/// Returns `true`: there is nothing to prepare.
pub fn register_for_fork(_: &'static ForkHook) -> bool {
    true
}
