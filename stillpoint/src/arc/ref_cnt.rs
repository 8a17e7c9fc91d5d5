//! Pointers that a cell can hold: counted references of one word.

use core::pin::Pin;
use core::ptr;
use std::{rc, sync};

/// A counted pointer of one word: `Arc<T>`, `Option<Arc<T>>`, `Pin<Arc<T>>`, `Weak<T>`, and the same of `Rc`.
///
/// A program implements it for pointers of its own, such as an `Arc` of another crate.
///
/// # Safety
///
/// The functions do what they say, and do not panic. Incrementing and decrementing cancel each other. Two pointers
/// with the same address refer to the same value. Types whose pointers have the same address share the count, or have
/// different
/// [tags](Self::TAG). An address with its tag lies in memory that the value owns. Null has no count. No address is one of
/// the two greatest. A clone has the address of the original, and a move does not change it. Cloning uses no cell.
///
/// # Panics
///
/// Addresses are even, and pointers in an `Option` are not null: a cell panics when it gets another.
///
/// ```
/// use std::sync::Arc;
/// use stillpoint::arc::{ArcCell, RefCnt};
///
/// #[derive(Clone)]
/// struct Text(Arc<String>);
///
/// // SAFETY: the pointer and the count are those of the `Arc`.
/// unsafe impl RefCnt for Text {
///     type Base = String;
///
///     fn into_ptr(me: Self) -> *mut String {
///         Arc::into_raw(me.0).cast_mut()
///     }
///
///     fn as_ptr(me: &Self) -> *mut String {
///         Arc::as_ptr(&me.0).cast_mut()
///     }
///
///     unsafe fn from_ptr(ptr: *const String) -> Self {
///         // SAFETY: the caller's contract.
///         Text(unsafe { Arc::from_raw(ptr) })
///     }
/// }
///
/// let cell = ArcCell::new(Text(Arc::new("hello".into())));
/// assert_eq!(*cell.load().0, "hello");
/// ```
pub unsafe trait RefCnt: Clone {
    /// What it points to.
    type Base;

    /// What is added to the address to tell these pointers from those of other types that may have the same address
    /// and do not share the count: of `Weak` it is 1, of `Arc` 0. Of pointers to types without a size it is 2 less,
    /// by wrapping: their address lies behind the memory, where another value may begin. No other compiles. A type
    /// that wraps another one has the tag of that.
    const TAG: usize = 0;

    /// Turns the pointer into a raw one. The count stays.
    fn into_ptr(me: Self) -> *mut Self::Base;

    /// Returns the raw pointer. The count stays.
    fn as_ptr(me: &Self) -> *mut Self::Base;

    /// Turns a raw pointer back. The count stays.
    ///
    /// # Safety
    ///
    /// The pointer comes from [`into_ptr`](Self::into_ptr), and the caller owns a reference, or forgets the result
    /// before the owner of one releases it.
    unsafe fn from_ptr(ptr: *const Self::Base) -> Self;

    /// Increments the count. Returns the raw pointer.
    fn inc(me: &Self) -> *mut Self::Base {
        Self::into_ptr(Self::clone(me))
    }

    /// Decrements the count, and destroys the value if it was the last.
    ///
    /// # Safety
    ///
    /// The pointer comes from [`into_ptr`](Self::into_ptr), and the caller owns the reference.
    unsafe fn dec(ptr: *const Self::Base) {
        // SAFETY: the caller's contract.
        drop(unsafe { Self::from_ptr(ptr) });
    }
}

/// Turns the pointer into a raw one, for a cell.
///
/// # Panics
///
/// If its address is odd: with a tag, it might be that of a pointer of another type.
#[inline(always)]
pub(super) fn into_ptr<T: RefCnt>(pointer: T) -> *mut T::Base {
    const { assert!(T::TAG.wrapping_add(2) <= 3, "`RefCnt::TAG` is 0 or 1, or 2 less") };
    assert!(
        T::as_ptr(&pointer).addr() % 2 == 0,
        "Pointer not aligned enough for `RefCnt`: its address is odd"
    );
    T::into_ptr(pointer)
}

/// The address of the second is that of weak pointers without a value: null is for `None`, and the tag may be
/// negative.
static WITHOUT_VALUE: [usize; 2] = [0; 2];

fn without_value<T>() -> *mut T {
    ptr::from_ref(&WITHOUT_VALUE[1]).cast_mut().cast()
}

/// The tag of pointers to `T` beside its counts. If it has no size, they may end where it begins.
const fn tag_of<T>(tag: usize) -> usize {
    if size_of::<T>() == 0 { tag.wrapping_sub(2) } else { tag }
}

/// Implements [`RefCnt`] for a counted pointer, the same pinned, and its weak pointer.
macro_rules! counted {
    ($module:ident::$strong:ident) => {
        // SAFETY: the library's functions do that. The counts lie before each value, so no two values have one
        // address.
        unsafe impl<T> RefCnt for $module::$strong<T> {
            type Base = T;

            const TAG: usize = tag_of::<T>(0);

            #[inline]
            fn into_ptr(me: Self) -> *mut T {
                Self::into_raw(me).cast_mut()
            }

            #[inline]
            fn as_ptr(me: &Self) -> *mut T {
                Self::as_ptr(me).cast_mut()
            }

            #[inline]
            unsafe fn from_ptr(ptr: *const T) -> Self {
                // SAFETY: the caller's contract.
                unsafe { Self::from_raw(ptr) }
            }
        }

        // SAFETY: as above. No safe code gets the raw pointers, so the value stays pinned.
        unsafe impl<T> RefCnt for Pin<$module::$strong<T>> {
            type Base = T;

            const TAG: usize = tag_of::<T>(0);

            #[inline]
            fn into_ptr(me: Self) -> *mut T {
                // SAFETY: as above.
                $module::$strong::into_raw(unsafe { Pin::into_inner_unchecked(me) }).cast_mut()
            }

            #[inline]
            fn as_ptr(me: &Self) -> *mut T {
                // SAFETY: `Pin` is a transparent wrapper.
                let me = unsafe { &*ptr::from_ref(me).cast::<$module::$strong<T>>() };
                $module::$strong::as_ptr(me).cast_mut()
            }

            #[inline]
            unsafe fn from_ptr(ptr: *const T) -> Self {
                // SAFETY: the caller's contract; the pointer comes from a pinned one.
                unsafe { Pin::new_unchecked($module::$strong::from_raw(ptr)) }
            }
        }

        // SAFETY: as above. `TAG` keeps it apart from the strong pointers to the same value. No other pointer has the
        // address of one without a value.
        unsafe impl<T> RefCnt for $module::Weak<T> {
            type Base = T;

            const TAG: usize = tag_of::<T>(1);

            fn into_ptr(me: Self) -> *mut T {
                if me.ptr_eq(&Self::new()) { without_value() } else { Self::into_raw(me).cast_mut() }
            }

            fn as_ptr(me: &Self) -> *mut T {
                if me.ptr_eq(&Self::new()) { without_value() } else { Self::as_ptr(me).cast_mut() }
            }

            unsafe fn from_ptr(ptr: *const T) -> Self {
                // SAFETY: the caller's contract.
                if ptr == without_value() { Self::new() } else { unsafe { Self::from_raw(ptr) } }
            }
        }
    };
}

counted!(sync::Arc);
counted!(rc::Rc);

// SAFETY: those of `T`. `None` is null, and no other is: see `into_ptr`.
unsafe impl<T: RefCnt> RefCnt for Option<T> {
    type Base = T::Base;

    const TAG: usize = T::TAG;

    #[inline]
    fn into_ptr(me: Self) -> *mut T::Base {
        let Some(pointer) = me else { return ptr::null_mut() };
        let pointer = T::into_ptr(pointer);
        assert!(!pointer.is_null(), "`Some` of a null pointer, which would become `None`");
        pointer
    }

    #[inline]
    fn as_ptr(me: &Self) -> *mut T::Base {
        me.as_ref().map_or(ptr::null_mut(), T::as_ptr)
    }

    #[inline]
    unsafe fn from_ptr(ptr: *const T::Base) -> Self {
        // SAFETY: the caller's contract.
        (!ptr.is_null()).then(|| unsafe { T::from_ptr(ptr) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: RefCnt>(pointer: T) -> T {
        let raw = T::as_ptr(&pointer);
        assert_eq!(raw, T::into_ptr(pointer));
        // SAFETY: from `into_ptr`.
        let pointer = unsafe { T::from_ptr(raw) };
        assert_eq!(raw, T::as_ptr(&pointer));
        assert_eq!(raw, T::inc(&pointer));
        // SAFETY: the reference that was added.
        unsafe { T::dec(raw) };
        pointer
    }

    #[test]
    fn pointers_of_all_kinds_keep_their_address_and_their_count() {
        let strong = there_and_back(sync::Arc::new(7_u8));
        let weak = there_and_back(sync::Arc::downgrade(&strong));
        assert_eq!((sync::Arc::strong_count(&strong), sync::Arc::weak_count(&strong)), (1, 1));
        assert_eq!(sync::Weak::as_ptr(&weak), sync::Arc::as_ptr(&strong));
        assert!(there_and_back(sync::Weak::<u8>::new()).upgrade().is_none());
        assert!(there_and_back(Some(rc::Weak::<u8>::new())).unwrap().upgrade().is_none());
        assert_eq!(*there_and_back(sync::Arc::pin(8)), 8);
        assert_eq!(*there_and_back(Some(rc::Rc::new(9))).unwrap(), 9);
        assert!(there_and_back(None::<sync::Arc<u8>>).is_none());
        // Without a size: the addresses differ all the same.
        assert_ne!(RefCnt::as_ptr(&sync::Arc::new(())), RefCnt::as_ptr(&sync::Arc::new(())));
    }
}
