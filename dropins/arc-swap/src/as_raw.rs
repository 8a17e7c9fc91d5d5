//! What a pointer is compared with.

use crate::{Guard, RefCnt};

mod sealed {
    pub trait Sealed {}
}

/// What [`compare_and_swap`](crate::ArcSwapAny::compare_and_swap) compares the pointer with: a reference to a
/// pointer, a guard or a reference to one, or a raw pointer.
pub trait AsRaw<T>: sealed::Sealed {
    /// Returns the raw pointer.
    fn as_raw(&self) -> *mut T;
}

/// Implements [`AsRaw`] for each type, by a function of a reference to it.
macro_rules! as_raw {
    ($([$($generics:tt)*] $base:ty, $type:ty, |$this:ident| $raw:expr;)*) => {$(
        impl<$($generics)*> sealed::Sealed for $type {}

        impl<$($generics)*> AsRaw<$base> for $type {
            fn as_raw(&self) -> *mut $base {
                let $this = self;
                $raw
            }
        }
    )*};
}

as_raw! {
    [T: RefCnt] T::Base, &T, |this| T::as_ptr(this);
    [T: RefCnt] T::Base, Guard<T>, |this| T::as_ptr(this);
    [T: RefCnt] T::Base, &Guard<T>, |this| T::as_ptr(this);
    [T] T, *mut T, |this| *this;
    [T] T, *const T, |this| this.cast_mut();
}
