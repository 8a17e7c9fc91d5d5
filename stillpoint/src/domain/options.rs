//! Options of a deferred call or a retired value.
//!
//! The program can say what a value owns on the heap. The library finds it out itself for a few types: Rust has no
//! specialization, but a generic function can compare its type with those of a list ([`known`]).

use core::any::TypeId;
use core::mem::needs_drop;
use core::ptr;

/// Options of a deferred call or a retired value.
///
/// ```
/// use stillpoint::rcu::{self, DeferOptions, Rcu};
///
/// struct Pages {
///     bytes: Box<[u8]>,
/// }
///
/// let pages = Rcu::new(Pages { bytes: vec![0; 1 << 20].into() });
/// let old = pages.replace(Pages { bytes: vec![1; 1 << 20].into() });
/// // The megabyte counts towards the limits.
/// let options = DeferOptions::new().heap_bytes(old.bytes.len());
/// old.retire_with(options);
/// rcu::barrier();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct DeferOptions {
    pub(crate) local: bool,
    pub(crate) heap: Heap,
    pub(crate) count: u8,
    pub(crate) push_only: bool,
}

impl Default for DeferOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What the value owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Heap {
    /// What the library knows of the type.
    #[default]
    ByType,
    Bytes(usize),
    Unknown,
}

impl DeferOptions {
    /// No options: what the value owns depends on its
    /// [type](crate::rcu::Limits#what-a-value-counts-for).
    pub const fn new() -> Self {
        Self { local: false, heap: Heap::ByType, count: 1, push_only: false }
    }

    /// Allows the thread that retires the value to run its destructor, in a later call of
    /// [`retire`](crate::rcu::retire) or the like, when the grace period has ended. The destructor must not take
    /// locks, or do anything else that could harm that thread.
    ///
    /// The thread that allocated the memory then frees it, which is several times faster with most allocators: for
    /// nodes of lists, trees and tables whose values only own memory. This is the default for values without
    /// destructors. No callback is affected.
    ///
    /// What the thread defers afterwards waits until the destructor returns; what other threads defer does not.
    pub const fn run_on_retiring_thread(self) -> Self {
        Self { local: true, ..self }
    }

    /// Adds `bytes` to the size of the value itself, for the [`Limits`](crate::rcu::Limits).
    pub const fn heap_bytes(self, bytes: usize) -> Self {
        Self { heap: Heap::Bytes(bytes), ..self }
    }

    /// Says that it may own any amount of memory: it counts as
    /// [a value that the library does not know](crate::rcu::Limits#what-a-value-counts-for).
    ///
    /// For what is freed by raw pointers ([`retire_raw_with`](crate::Domain::retire_raw_with)).
    pub const fn unknown_heap_bytes(self) -> Self {
        Self { heap: Heap::Unknown, ..self }
    }

    /// Counts as `count` values, at most 128: for what frees a batch of them
    /// ([`retire_raw_with`](crate::Domain::retire_raw_with)). In a domain with hazard pointers it counts as one: they
    /// protect the address that is retired, not the values of a batch.
    ///
    /// Data structures that collect what they remove, and retire many nodes by one call, do that for less. The thread
    /// that retires a batch does what it otherwise does after 64 values, such as running what is ready.
    pub const fn count(self, count: u8) -> Self {
        Self { count, ..self }
    }

    /// Makes the call run no destructors or callbacks, and never block: for destructors of thread-local variables, where
    /// those of others may be gone. What it retires counts for the [`Limits`](crate::rcu::Limits), which block others.
    pub const fn push_only(self) -> Self {
        Self { push_only: true, ..self }
    }

    /// Returns the heap bytes, or `None` if they are unknown. `by_type`: what is known of the type.
    #[inline(always)]
    pub(crate) fn heap(self, by_type: impl FnOnce() -> Option<usize>) -> Option<usize> {
        match self.heap {
            Heap::ByType => by_type(),
            Heap::Bytes(bytes) => Some(bytes),
            Heap::Unknown => None,
        }
    }
}

/// See [`known_heap_bytes`](crate::rcu::known_heap_bytes).
#[inline]
pub(crate) fn known<T: ?Sized + 'static>(value: &T) -> Option<usize> {
    if const { !needs_drop::<T>() } {
        return Some(0);
    }
    let weigh = weigher(TypeId::of::<T>(), size_of_val(value))?;
    // SAFETY: the function is for values of this type.
    Some(unsafe { weigh(ptr::from_ref(value).cast()) })
}

/// # Safety
///
/// `value` points to a `String` that is not borrowed mutably; below, to a value of the type that the name says.
unsafe fn string(value: *const ()) -> usize {
    // SAFETY: the caller's contract, here and below.
    unsafe { &*value.cast::<String>() }.capacity()
}

/// # Safety
///
/// As above.
unsafe fn vec<T>(value: *const ()) -> usize {
    // SAFETY: see above.
    unsafe { &*value.cast::<Vec<T>>() }.capacity() * size_of::<T>()
}

/// # Safety
///
/// As above.
unsafe fn boxed<T: ?Sized>(value: *const ()) -> usize {
    // SAFETY: see above.
    size_of_val::<T>(unsafe { &*value.cast::<Box<T>>() })
}

/// Returns the function that weighs the values of a type of the list, by its id and size. (The sizes are compared
/// first, which is faster without optimization.)
///
/// Not generic: a copy for each type that a program retires would take seconds to compile. With optimization, each
/// call is inlined, and all comparisons go.
#[cfg_attr(not(debug_assertions), inline(always))]
fn weigher(id: TypeId, size: usize) -> Option<unsafe fn(*const ()) -> usize> {
    macro_rules! look {
        ($($type:ty: $weigh:expr,)*) => {
            $(
                if size == size_of::<$type>() && id == TypeId::of::<$type>() {
                    return Some($weigh);
                }
            )*
        };
    }
    macro_rules! lists {
        ($($type:ty)*) => {
            look! { $(Vec<$type>: vec::<$type>, Box<[$type]>: boxed::<[$type]>,)* }
        };
    }
    look! { String: string, Box<str>: boxed::<str>, }
    lists! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 bool char &'static str }
    None
}
