//! What deferred reclamation needs of a domain.

use super::backlog::MayWait;
use super::callback::Callback;
use super::queue::Queue;
use crate::grace_period::cookie::GpCookie;
use crate::grace_period::engine::{Engine, ReaderSet};

/// A domain.
pub trait Host {
    fn engine(&self) -> &Engine<impl ReaderSet>;

    /// Returns the callback queues. Their order does not change, and their number does not decrease.
    fn queues(&self) -> impl Iterator<Item = &Queue>;

    /// Returns `true` if no other thread can be inside a section: a grace period then costs nothing.
    fn is_alone(&self) -> bool;

    /// Completes a grace period if that is possible without blocking. The calling thread is outside. Returns `true` if
    /// it has been completed.
    fn try_synchronize(&self) -> bool;

    /// Returns `true` if the queue with this index may belong to a thread that is about to push to it.
    #[cfg(any(feature = "epoch", loom))]
    fn has_active_owner(&self, index: usize) -> bool;

    /// Blocks until the grace period has ended.
    fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied>;

    /// Runs a callback, whose grace period has ended.
    fn run(&self, callback: Callback);

    /// Has a thread call [`CallbackWorker::work`](super::worker::CallbackWorker::work). Returns `false` if there is no
    /// thread.
    fn start_worker(&self) -> bool;

    /// Has a thread call [`CallbackWorker::resume`](super::worker::CallbackWorker::resume) at the time `due`, in
    /// nanoseconds of [`now`](crate::sync::now). Returns `false` if there is no thread.
    fn park(&self, due: u64) -> bool;

    /// Undoes [`park`](Self::park), if a thread has not begun to do that.
    fn unpark(&self, due: u64);

    /// Returns `true` after [`park`](Self::park) until a thread begins to do that, or until it is undone.
    fn is_parked(&self, due: u64) -> bool;
}

/// The kernel denies the heavy fence, which worked before: grace periods fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied;

/// Where a queue is flushed.
#[derive(Debug, Clone, Copy)]
pub struct CallerContext {
    /// The queue is the calling thread's own.
    pub is_owner: bool,
    /// The thread is inside a section, so no grace period can end.
    pub is_inside: bool,
    pub wait: MayWait,
}
