//! Libraries that free the nodes of a list while other threads visit it: by sections, or by hazard pointers.

use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use ::haphazard::{Domain, HazardPointer as PeerPointer};
use stillpoint::Domain as _;
use stillpoint::hazard::{Global, HazardPointer};
use stillpoint::rcu::{Atomic, DeferOptions, Shared};

use super::Reclaim;
use harness::report::OURS;

/// The tag of a link whose node is removed.
pub const REMOVED: usize = 1;

/// A node of a set of numbers.
pub struct Node<S: Nodes> {
    pub key: u64,
    pub next: S::Link,
}

// SAFETY: a node is shared by threads only as the library allows; its contents are a number and an atomic pointer.
unsafe impl<S: Nodes> Send for Node<S> {}
// SAFETY: as above.
unsafe impl<S: Nodes> Sync for Node<S> {}

/// A pointer to a node, with a tag.
pub trait Link<N>: Default + 'static {
    /// Loads the pointer. The node may be used if the library says so.
    fn load(&self) -> *mut N;

    /// Stores the pointer. No other thread has this one.
    fn set(&self, node: *mut N);

    /// Replaces `old` by `new`. Returns `false` if the pointer is another one.
    fn replace(&self, old: *mut N, new: *mut N) -> bool;
}

/// A library that frees the nodes.
pub trait Nodes: Sized + Sync + 'static {
    const NAME: &'static str;
    /// Nodes may be visited that have been removed, as long as the operation lasts.
    const VISITS_REMOVED: bool;

    type Link: Link<Node<Self>> + Send + Sync;
    /// The calling thread.
    type Thread<'a>;
    /// What keeps nodes during an operation.
    type Operation<'a>;

    fn new() -> anyhow::Result<Self>;

    fn thread(&self) -> Self::Thread<'_>;

    fn begin<'a>(thread: &'a mut Self::Thread<'_>) -> Self::Operation<'a>;

    /// Says that the link of the next [`protect`](Self::protect) is that of the node protected last, which stays protected.
    fn advance(operation: &mut Self::Operation<'_>);

    /// Protects `expected`, which was loaded from `link`, or is the next node of one that was. Returns `false` if the link is
    /// another one by now, and the library cannot protect the node then.
    fn protect(operation: &mut Self::Operation<'_>, link: &Self::Link, expected: *mut Node<Self>) -> bool;

    /// Retires a node.
    ///
    /// # Safety
    ///
    /// It comes from a `Box`, and this thread has taken it out of the list.
    unsafe fn retire(operation: &mut Self::Operation<'_>, node: *mut Node<Self>);
}

impl<N: 'static> Link<N> for AtomicPtr<N> {
    #[inline(always)]
    fn load(&self) -> *mut N {
        // Acquire: the node's contents; pairs with the Release in `replace`.
        self.load(Acquire)
    }

    #[inline(always)]
    fn set(&self, node: *mut N) {
        self.store(node, Relaxed);
    }

    #[inline(always)]
    fn replace(&self, old: *mut N, new: *mut N) -> bool {
        self.compare_exchange(old, new, AcqRel, Relaxed).is_ok()
    }
}

/// A library's sections: an operation is one.
pub struct Sections<R>(R);

impl<R: Reclaim + 'static> Nodes for Sections<R> {
    const NAME: &'static str = R::NAME;
    const VISITS_REMOVED: bool = true;

    type Link = AtomicPtr<Node<Self>>;
    type Thread<'a> = R::Thread<'a>;
    type Operation<'a> = R::Guard<'a>;

    fn new() -> anyhow::Result<Self> {
        R::new().map(Self)
    }

    fn thread(&self) -> R::Thread<'_> {
        self.0.thread()
    }

    #[inline(always)]
    fn begin<'a>(thread: &'a mut R::Thread<'_>) -> R::Guard<'a> {
        R::enter(thread)
    }

    #[inline(always)]
    fn advance(_: &mut R::Guard<'_>) {}

    #[inline(always)]
    fn protect(_: &mut R::Guard<'_>, _: &Self::Link, _: *mut Node<Self>) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn retire(guard: &mut R::Guard<'_>, node: *mut Node<Self>) {
        // SAFETY: the caller's contract; links are not null.
        unsafe { R::retire(guard, NonNull::new_unchecked(node)) };
    }
}

/// Two hazard pointers of a thread: of the node in front, and of the current one.
type Pair<'a, P> = &'a mut [P; 2];

/// This library's hazard pointers.
pub struct Own;

impl Link<Node<Own>> for Atomic<Node<Own>, Global> {
    #[inline(always)]
    fn load(&self) -> *mut Node<Own> {
        // SAFETY: the list uses the node when it is protected.
        let node = unsafe { self.load_unprotected() };
        node.as_ptr().cast_mut().map_addr(|address| address | node.tag())
    }

    #[inline(always)]
    fn set(&self, node: *mut Node<Own>) {
        self.store(shared(node));
    }

    #[inline(always)]
    fn replace(&self, old: *mut Node<Own>, new: *mut Node<Own>) -> bool {
        self.try_store(shared(old), shared(new)).is_ok()
    }
}

#[inline(always)]
fn shared<'a>(node: *mut Node<Own>) -> Shared<'a, Node<Own>> {
    // SAFETY: it is compared and stored only.
    unsafe { Shared::from_ptr(node.map_addr(|address| address & !REMOVED)) }.with_tag(node.addr() & REMOVED)
}

impl Nodes for Own {
    const NAME: &'static str = OURS;
    const VISITS_REMOVED: bool = false;

    type Link = Atomic<Node<Self>, Global>;
    type Thread<'a> = [HazardPointer; 2];
    type Operation<'a> = Pair<'a, HazardPointer>;

    fn new() -> anyhow::Result<Self> {
        Ok(Self)
    }

    fn thread(&self) -> [HazardPointer; 2] {
        HazardPointer::array()
    }

    #[inline(always)]
    fn begin<'a>(thread: &'a mut [HazardPointer; 2]) -> Pair<'a, HazardPointer> {
        thread
    }

    #[inline(always)]
    fn advance(operation: &mut Pair<'_, HazardPointer>) {
        operation.swap(0, 1);
    }

    #[inline(always)]
    fn protect(
        operation: &mut Pair<'_, HazardPointer>,
        link: &Self::Link,
        expected: *mut Node<Self>,
    ) -> bool {
        operation[1].try_protect(link, shared(expected)).is_some()
    }

    #[inline(always)]
    unsafe fn retire(_: &mut Pair<'_, HazardPointer>, node: *mut Node<Self>) {
        // SAFETY: the caller's contract.
        unsafe { Global.retire_shared(shared(node), DeferOptions::new().run_on_retiring_thread()) };
    }
}

/// haphazard, with its global domain.
pub struct Haphazard;

impl Nodes for Haphazard {
    const NAME: &'static str = "haphazard";
    const VISITS_REMOVED: bool = false;

    type Link = AtomicPtr<Node<Self>>;
    type Thread<'a> = [PeerPointer<'static>; 2];
    type Operation<'a> = Pair<'a, PeerPointer<'static>>;

    fn new() -> anyhow::Result<Self> {
        Ok(Self)
    }

    fn thread(&self) -> [PeerPointer<'static>; 2] {
        [PeerPointer::new(), PeerPointer::new()]
    }

    #[inline(always)]
    fn begin<'a>(thread: &'a mut [PeerPointer<'static>; 2]) -> Pair<'a, PeerPointer<'static>> {
        thread
    }

    #[inline(always)]
    fn advance(operation: &mut Pair<'_, PeerPointer<'static>>) {
        operation.swap(0, 1);
    }

    #[inline(always)]
    fn protect(
        operation: &mut Pair<'_, PeerPointer<'static>>,
        link: &Self::Link,
        expected: *mut Node<Self>,
    ) -> bool {
        operation[1].try_protect_ptr(expected, link).is_ok()
    }

    #[inline(always)]
    unsafe fn retire(_: &mut Pair<'_, PeerPointer<'static>>, node: *mut Node<Self>) {
        // SAFETY: the caller's contract.
        unsafe { Domain::global().retire_ptr::<_, Box<Node<Self>>>(node) };
    }
}

/// Frees the nodes of a list that no other thread uses.
pub fn free<S: Nodes>(head: &mut S::Link) {
    let mut next = mem::take(head);
    loop {
        let node = next.load().map_addr(|address| address & !REMOVED);
        if node.is_null() {
            return;
        }
        // SAFETY: it came from a Box, and is in the list once.
        next = unsafe { Box::from_raw(node) }.next;
    }
}
