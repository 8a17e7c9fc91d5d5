//! Counts of references or operations that end: see [`RefCount`].

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::time::Duration;

use super::count::{Count, Killed, denied};
use super::zero::{self, WaiterId};

/// A count of references, or of operations in flight, whose [`get`](Self::get) and [`put`](Self::put) change a word
/// of the current CPU, until it is [killed](Self::kill). Then it finds out when it is zero.
///
/// For shutdown: each request counts itself in and out, which all CPUs do without contention. `kill` admits no more
/// requests, and [`wait`](Self::wait) or a future says when the last has ended.
///
/// The count begins with one reference, the *initial* one, which [`kill`](Self::kill) puts. Before that it is never
/// zero, and has no value that could be read. `kill` switches to one shared count: it makes the running threads
/// execute a fence, which takes microseconds, and never waits for a thread. From then on each `get` and `put` is an
/// atomic operation on one word, as those of [`std::sync::Arc`] are.
///
/// This is the Linux kernel's `percpu_ref` (`lib/percpu-refcount.c`), with an interrupt of rseq critical sections
/// (`membarrier(2)`, Linux 5.10) in place of its grace period. Without that, or without rseq, all operations use the
/// shared count from the start.
///
/// # Orderings
///
/// What happens before a `put` happens before what follows zero.
///
/// # Memory
///
/// Eight bytes for each CPU that the process runs on, in areas that counts and counters share, and 24 in the count.
/// The first `get` or [`prepare`](Self::prepare) takes the words, and `kill` or the destructor gives them back, in
/// constant time. If there is no memory, the count is a shared one.
///
/// # Signals and forks
///
/// `get` and `put` may be used in signal handlers, except for the first one (see [`prepare`](Self::prepare)), and a
/// `put` that may be the last after a `kill`. The child of a fork has the count as it was, with the references of
/// threads that it does not have: these are never put. A count that another thread was about to kill never becomes
/// zero there.
///
/// ```
/// use stillpoint::percpu::RefCount;
///
/// static REQUESTS: RefCount = RefCount::new();
///
/// fn serve() -> Result<(), &'static str> {
///     let _request = REQUESTS.try_enter().ok_or("the server shuts down")?;
///     // ... the request is counted until here, also if it panics.
///     Ok(())
/// }
///
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert!(serve().is_ok()));
/// });
/// REQUESTS.kill();
/// REQUESTS.wait();
/// // No request is running, and no other one begins.
/// assert!(serve().is_err());
/// ```
#[doc(alias = "percpu_ref")]
pub struct RefCount {
    count: Count,
}

impl RefCount {
    /// Creates a count of one, that is alive. Does not allocate.
    pub const fn new() -> Self {
        Self { count: Count::new() }
    }

    /// Takes memory now, so that the first [`get`](Self::get) does not: for signal handlers.
    pub fn prepare(&self) {
        self.count.prepare();
    }

    /// Gets a reference. To be called by an owner of one, or while the count cannot be killed: otherwise use
    /// [`try_get`](Self::try_get). Never blocks.
    ///
    /// # Panics
    ///
    /// If the count is zero.
    #[inline]
    #[track_caller]
    pub fn get(&self) {
        self.count.get();
    }

    /// Gets a reference, unless the count has been killed. Never blocks. Returns `false` if [`kill`](Self::kill) has
    /// returned, and may do so while it runs.
    #[inline]
    #[must_use = "if it is `true` there is a reference to put"]
    pub fn try_get(&self) -> bool {
        self.count.try_get()
    }

    /// [`try_get`](Self::try_get), with a guard that puts the reference.
    #[inline]
    pub fn try_enter(&self) -> Option<Reference<'_>> {
        self.try_get().then(|| Reference(self))
    }

    /// Puts a reference, in any thread. The last one, after [`kill`](Self::kill), wakes those that wait.
    ///
    /// # Panics
    ///
    /// If there was no reference. While the count is alive that cannot be known: then `kill` panics.
    #[inline]
    #[track_caller]
    pub fn put(&self) {
        if let Some(zero) = self.count.put() {
            zero::found(zero, &self.count);
        }
    }

    /// Kills the count: [`try_get`](Self::try_get) fails from now on. Puts the initial reference. Returns `false`,
    /// without an effect, if the count has been killed before, or is being killed.
    ///
    /// # Panics
    ///
    /// If there were more puts than gets; the count is zero then, as if they were as many. If the kernel denies
    /// `membarrier(2)` now, although it allowed it before; then the count never becomes zero.
    #[track_caller]
    pub fn kill(&self) -> bool {
        match self.count.kill(false) {
            Killed::Again => return false,
            Killed::Pending => {}
            Killed::Zero(zero) => zero::found(zero, &self.count),
            Killed::Overdrawn(puts, zero) => {
                zero::found(zero, &self.count);
                panic!("a count was killed that had {puts} more puts than gets");
            }
            Killed::Denied => denied(),
        }
        true
    }

    /// Returns `true` if the count has been killed, and all references have been put.
    pub fn is_zero(&self) -> bool {
        self.count.is_zero()
    }

    /// Blocks until the count has been killed, and all references have been put. **A wait in the thread or task that
    /// has a reference itself never returns.**
    pub fn wait(&self) {
        zero::wait(&self.count, None);
    }

    /// [`wait`](Self::wait), but no longer than `timeout`. Returns `true` if all that has happened.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stillpoint::percpu::RefCount;
    ///
    /// let count = RefCount::new();
    /// let request = count.try_enter().expect("it is alive");
    /// count.kill();
    /// assert!(!count.wait_timeout(Duration::from_millis(10)));
    /// drop(request);
    /// assert!(count.wait_timeout(Duration::from_millis(10)));
    /// ```
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        zero::wait(&self.count, Some(timeout))
    }

    /// Returns a future of what [`wait`](Self::wait) waits for, for any executor.
    ///
    /// The last `put` wakes all that wait for this count, one after the other.
    ///
    /// ```
    /// use stillpoint::percpu::RefCount;
    ///
    /// async fn shut_down(requests: &RefCount) {
    ///     requests.kill();
    ///     requests.zero().await;
    /// }
    /// # let count = RefCount::new();
    /// # count.get();
    /// # std::thread::scope(|scope| {
    /// #     scope.spawn(|| count.put());
    /// #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(shut_down(&count));
    /// # });
    /// ```
    pub fn zero(&self) -> Zero<'_> {
        Zero { count: &self.count, id: 0 }
    }
}

impl Default for RefCount {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RefCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RefCount");
        debug.field("killed", &self.count.is_killed());
        if let Some(references) = self.count.references() {
            debug.field("references", &references);
        }
        debug.finish_non_exhaustive()
    }
}

/// A reference that is put when this is dropped: see [`RefCount::try_enter`].
#[derive(Debug)]
#[must_use = "the reference is put when this is dropped"]
pub struct Reference<'a>(&'a RefCount);

impl Clone for Reference<'_> {
    #[inline]
    fn clone(&self) -> Self {
        self.0.get();
        Self(self.0)
    }
}

impl Drop for Reference<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.put();
    }
}

/// A future that is ready when the count is zero: see [`RefCount::zero`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Zero<'a> {
    count: &'a Count,
    id: WaiterId,
}

impl Future for Zero<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        zero::poll(self.count, &mut self.id, context)
    }
}

impl Drop for Zero<'_> {
    fn drop(&mut self) {
        zero::forget(self.count, &mut self.id);
    }
}
