//! Worker threads that are idle readers while they park, and do not block above limits.

use stillpoint::{Domain as _, arc, hazard, rcu};
use tokio::runtime::Builder;

/// What this crate adds to a [`Builder`] of runtimes.
pub trait BuilderExt: sealed::Sealed {
    /// Makes a thread of the runtime call [`rcu::hint_idle`] before it parks, so that grace periods of
    /// [`rcu::Global`] need not look at it while it has no task to run.
    ///
    /// A grace period looks at each thread that has read, in some nanoseconds. A thread that parks this way gets out
    /// of its way, by an atomic operation; its next section takes some 20 ns more than others. This gains if there
    /// are many threads of which most are parked most of the time. With as many workers as CPUs it neither gains nor
    /// costs much.
    ///
    /// A thread that parks inside a section, where a task of a `LocalSet` holds a guard across `.await`, stays a
    /// reader that grace periods wait for. Threads of `spawn_blocking` do not park; they exit when they have been
    /// idle for [`thread_keep_alive`](Builder::thread_keep_alive).
    ///
    /// This sets [`on_thread_park`](Builder::on_thread_park), which keeps one function: the last one that is set. So
    /// a program with a function of its own calls `hint_idle` there, and one with further domains calls that of each:
    ///
    /// ```
    /// use stillpoint::rcu;
    ///
    /// stillpoint::domain! {
    ///     struct Routes;
    /// }
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread()
    ///     .on_thread_park(|| {
    ///         rcu::hint_idle();
    ///         Routes::hint_idle();
    ///     })
    ///     .build()?;
    /// # runtime.block_on(async { drop((rcu::enter(), Routes::enter())) });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// Readers of `srcu` are not threads, and need nothing.
    fn hint_idle_on_park(&mut self) -> &mut Self;

    /// Makes calls that defer or retire go on above the [limits](rcu::Limits), and be counted, instead of blocking a
    /// thread of the runtime, with all its tasks, for up to ten seconds.
    ///
    /// A task that makes large or many changes then awaits
    /// [`below_limit`](stillpoint::Domain::below_limit) before each:
    ///
    /// ```
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::{self, Rcu};
    /// use stillpoint_tokio::BuilderExt as _;
    ///
    /// async fn publish(page: &Rcu<Vec<u8>>, new: Vec<u8>) {
    ///     rcu::Global.below_limit().await;
    ///     drop(page.replace(new));
    /// }
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread().never_block_above_limits().build()?;
    /// runtime.block_on(publish(&Rcu::new(vec![1]), vec![2]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// This sets the limits of the domains that need no name: [`rcu::Global`], [`hazard::Global`], and
    /// [that of `ArcCell`](arc::domain), also for threads that are not the runtime's. They get the
    /// [default](rcu::Limits::default) sizes: a program that wants others, or has further domains, sets
    /// [`blocks`](rcu::Limits::blocks) to `false` with them.
    fn never_block_above_limits(&mut self) -> &mut Self;
}

impl BuilderExt for Builder {
    fn hint_idle_on_park(&mut self) -> &mut Self {
        self.on_thread_park(rcu::hint_idle)
    }

    fn never_block_above_limits(&mut self) -> &mut Self {
        let limits = rcu::Limits { blocks: false, ..rcu::Limits::default() };
        rcu::Global.set_limits(limits);
        hazard::Global.set_limits(limits);
        arc::domain().set_limits(limits);
        self
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for tokio::runtime::Builder {}
}
