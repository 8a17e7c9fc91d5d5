//! Series of a metric by their labels: counters and histograms of which there are as many as label sets.

use std::fmt;
use std::hash::Hash;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use stillpoint::rcu::{self, Guard};

use crate::HashMap;
use crate::hash_map::Equivalent;

/// A place below the limit, which is given back unless a series takes it.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Relaxed, here and below: only the number matters.
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Series of a metric by their labels, as in `prometheus-client`: a [`Counter`](stillpoint::percpu::Counter) or
/// [`Histogram`](stillpoint::percpu::Histogram) for each set of labels that has been used.
///
/// A lookup takes some nanoseconds and writes nothing shared. It lends the series to a guard of [`rcu::enter`]. Where
/// the labels are known beforehand, [`get_or_create_owned`](Self::get_or_create_owned) once is better: its result is
/// a handle, with which an add takes a nanosecond. Iterating for an export stops no thread.
///
/// Labels that come from outside, such as paths or user agents, may be any number. [`with_limit`](Self::with_limit)
/// bounds the series, and counts the rest in one of its own.
///
/// ```
/// use stillpoint::percpu::Counter;
/// use stillpoint::rcu;
/// use stillpoint_collections::Family;
///
/// #[derive(Clone, Debug, Hash, PartialEq, Eq)]
/// struct Labels {
///     method: &'static str,
///     status: u16,
/// }
///
/// let requests = Family::<Labels, Counter>::default();
/// requests.get_or_create(&Labels { method: "GET", status: 200 }, &rcu::enter()).inc();
///
/// // Looked up once.
/// let posts = requests.get_or_create_owned(&Labels { method: "POST", status: 200 });
/// posts.add(2);
///
/// let guard = rcu::enter();
/// let all: u64 = requests.iter(&guard).map(|(_, count)| count.get()).sum();
/// assert_eq!((all, requests.len()), (3, 2));
/// ```
#[doc(alias("prometheus", "metric", "labels"))]
pub struct Family<L, M, C = fn() -> M>
where
    L: Send + Sync + 'static,
    M: Send + Sync + 'static,
{
    series: HashMap<L, Arc<M>>,
    constructor: C,
    /// The places taken: by each series but that of `overflow`, and by those that are being made.
    count: AtomicUsize,
    limit: usize,
    /// The labels of what is beyond the limit.
    overflow: Option<L>,
}

impl<L, M: Default> Default for Family<L, M>
where
    L: Send + Sync + 'static,
    M: Send + Sync + 'static,
{
    /// Returns a family without series, which are made by their `Default`.
    fn default() -> Self {
        Self::new_with_constructor(M::default)
    }
}

impl<L, M, C> Family<L, M, C>
where
    L: Send + Sync + 'static,
    M: Send + Sync + 'static,
{
    /// Returns a family without series, which `constructor` makes.
    pub fn new_with_constructor(constructor: C) -> Self {
        let (series, count) = (HashMap::new(), AtomicUsize::new(0));
        Self { series, constructor, count, limit: usize::MAX, overflow: None }
    }

    /// Bounds the number of series. Further labels share one series more, that of the labels `overflow`.
    ///
    /// A thread that finds the last place taken may use that series for labels that another thread has removed, or is
    /// about to add, at this moment, or while threads race to create one series.
    ///
    /// # Panics
    ///
    /// If the family has series already.
    ///
    /// ```
    /// use stillpoint::{percpu::Counter, rcu};
    /// use stillpoint_collections::Family;
    ///
    /// let paths = Family::<String, Counter>::default().with_limit(2, "other".into());
    /// for path in ["/", "/login", "/a", "/b", "/login"] {
    ///     paths.get_or_create(&path.to_owned(), &rcu::enter()).inc();
    /// }
    /// let guard = rcu::enter();
    /// assert_eq!(paths.get("/login", &guard).map(|count| count.get()), Some(2));
    /// assert_eq!(paths.get("other", &guard).map(|count| count.get()), Some(2));
    /// ```
    #[must_use]
    pub fn with_limit(self, limit: usize, overflow: L) -> Self {
        assert!(self.is_empty(), "the limit of a family comes before its series");
        Self { limit, overflow: Some(overflow), ..self }
    }

    /// Returns the number of series, that of the overflow included.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Returns `true` if there is no series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }
}

impl<L, M, C> Family<L, M, C>
where
    L: Hash + Eq + Send + Sync + 'static,
    M: Send + Sync + 'static,
{
    /// Returns the series of the labels, if there is one.
    #[inline]
    pub fn get<'g, Q>(&'g self, labels: &Q, guard: &'g Guard) -> Option<&'g M>
    where
        Q: Hash + Equivalent<L> + ?Sized,
    {
        self.series.get(labels, guard).map(|metric| &**metric)
    }

    /// Returns the series of the labels. Creates it if there is none: see [`with_limit`](Self::with_limit).
    ///
    /// # Panics
    ///
    /// If there is no memory for a new series.
    #[inline]
    pub fn get_or_create<'g>(&'g self, labels: &L, guard: &'g Guard) -> &'g M
    where
        L: Clone,
        C: Fn() -> M,
    {
        self.find_or_create(labels, guard)
    }

    /// [`get_or_create`](Self::get_or_create), as a handle to keep.
    ///
    /// The series is there for as long as its handles are. After [`remove`](Self::remove) it is not part of the
    /// family any more.
    pub fn get_or_create_owned(&self, labels: &L) -> Arc<M>
    where
        L: Clone,
        C: Fn() -> M,
    {
        self.find_or_create(labels, &rcu::enter()).clone()
    }

    #[inline]
    fn find_or_create<'g>(&'g self, labels: &L, guard: &'g Guard) -> &'g Arc<M>
    where
        L: Clone,
        C: Fn() -> M,
    {
        match self.series.get(labels, guard) {
            Some(metric) => metric,
            None => self.create(labels, guard),
        }
    }

    #[cold]
    fn create<'g>(&'g self, labels: &L, guard: &'g Guard) -> &'g Arc<M>
    where
        L: Clone,
        C: Fn() -> M,
    {
        // No lock: labels and constructor are code of the program, which may use the family, and panic.
        let Some(place) = self.place(labels) else {
            let overflow = self.overflow.as_ref().unwrap_or(labels);
            // The thread that took the last place may have taken it for these labels.
            let found = self.series.get(labels, guard).or_else(|| self.series.get(overflow, guard));
            return found.unwrap_or_else(|| self.insert(overflow, guard).unwrap_or_else(|metric| metric));
        };
        match self.insert(labels, guard) {
            Ok(metric) => {
                mem::forget(place);
                metric
            }
            Err(metric) => metric,
        }
    }

    /// Creates the series of the labels.
    ///
    /// # Errors
    ///
    /// Returns that of another thread.
    fn insert<'g>(&'g self, labels: &L, guard: &'g Guard) -> Result<&'g Arc<M>, &'g Arc<M>>
    where
        L: Clone,
        C: Fn() -> M,
    {
        let metric = Arc::new((self.constructor)());
        self.series.try_insert(labels.clone(), metric, guard).map_err(|occupied| occupied.current)
    }

    /// Takes a place for the labels, if there is one below the limit. Those of the overflow need none.
    fn place(&self, labels: &L) -> Option<Place<'_>> {
        let next = |count| (count < self.limit).then_some(count + 1);
        let has_place = || self.count.fetch_update(Relaxed, Relaxed, next).is_ok();
        (self.overflow.as_ref() != Some(labels) && has_place()).then(|| Place(&self.count))
    }

    /// Iterates over the series, in no order. Threads that add, create and remove are not stopped: a series that is
    /// created or removed meanwhile may be visited or not.
    #[track_caller]
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = (&'g L, &'g M)> {
        self.series.iter(guard).map(|(labels, metric)| (labels, &**metric))
    }

    /// Removes the series of the labels. Returns `false` if there is none. What threads add by handles, or have just
    /// looked up, is lost.
    pub fn remove(&self, labels: &L) -> bool {
        let guard = rcu::enter();
        // Before the removal, as `Eq` may panic.
        let has_place = self.overflow.as_ref() != Some(labels);
        let is_removed = self.series.remove(labels, &guard).is_some();
        if is_removed && has_place {
            drop(Place(&self.count));
        }
        is_removed
    }
}

impl<L, M, C> fmt::Debug for Family<L, M, C>
where
    L: fmt::Debug + Hash + Eq + Send + Sync + 'static,
    M: fmt::Debug + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter(&rcu::enter())).finish()
    }
}
