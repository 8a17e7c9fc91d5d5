//! Values behind pointers of one word. An unsized value has its length in front of it, in the same allocation.

use core::alloc::Layout;
use core::mem;
use core::ptr::{self, NonNull};
use std::alloc::{alloc, dealloc, handle_alloc_error};

/// A type that [`Atomic`](crate::rcu::Atomic), [`Owned`](crate::rcu::Owned) and [`Shared`](crate::rcu::Shared) can
/// point to.
///
/// All sized types are `Pointable`, and so are slices and [`str`]. The pointers take one word, also to
/// an unsized value, whose allocation contains its length.
///
/// ```
/// use stillpoint::rcu::Owned;
///
/// let numbers = Owned::<[u32]>::init(vec![1, 2, 3]);
/// assert_eq!(*numbers, [1, 2, 3]);
/// assert_eq!(size_of_val(&numbers), size_of::<usize>());
/// ```
///
/// # Safety
///
/// `init` returns a pointer to a new allocation, which is aligned to `ALIGN`, a power of two. `deref` and `deref_mut`
/// return the value in it, always the same one. If `NEEDS_DROP` is `false`, `drop` does not panic, and any thread may
/// call it for a value of any thread.
pub unsafe trait Pointable {
    /// The alignment of the allocation, in bytes. The bits of a pointer below it have room for a
    /// [tag](crate::rcu::Shared::tag).
    const ALIGN: usize;
    /// `false` if [`drop`](Self::drop) only frees memory.
    const NEEDS_DROP: bool;
    /// What a value is made from.
    type Init;

    /// Allocates a value.
    fn init(init: Self::Init) -> NonNull<()>;

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// `pointer` comes from [`init`](Self::init), and for `'a` the value is neither dropped nor borrowed mutably.
    unsafe fn deref<'a>(pointer: NonNull<()>) -> &'a Self;

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// `pointer` comes from [`init`](Self::init), and for `'a` the value is neither dropped nor borrowed otherwise.
    unsafe fn deref_mut<'a>(pointer: NonNull<()>) -> &'a mut Self;

    /// Drops the value and frees its memory.
    ///
    /// # Safety
    ///
    /// `pointer` comes from [`init`](Self::init), and is not used again.
    unsafe fn drop(pointer: NonNull<()>);
}

// SAFETY: the pointer comes from a `Box`.
unsafe impl<T> Pointable for T {
    const ALIGN: usize = align_of::<T>();
    const NEEDS_DROP: bool = mem::needs_drop::<T>();
    type Init = T;

    #[inline]
    fn init(init: T) -> NonNull<()> {
        NonNull::from(Box::leak(Box::new(init))).cast()
    }

    #[inline(always)]
    unsafe fn deref<'a>(pointer: NonNull<()>) -> &'a T {
        // SAFETY: the caller's contract.
        unsafe { pointer.cast().as_ref() }
    }

    #[inline(always)]
    unsafe fn deref_mut<'a>(pointer: NonNull<()>) -> &'a mut T {
        // SAFETY: the caller's contract.
        unsafe { pointer.cast().as_mut() }
    }

    #[inline]
    unsafe fn drop(pointer: NonNull<()>) {
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(pointer.cast::<T>().as_ptr()) });
    }
}

/// The allocation of a slice, which begins at `items`.
#[repr(C)]
struct Allocation<T> {
    len: usize,
    items: [T; 0],
}

impl<T> Allocation<T> {
    /// Returns the layout of an allocation with `len` items.
    fn layout(len: usize) -> Layout {
        let layout = Layout::array::<T>(len).and_then(|items| Layout::new::<Self>().extend(items));
        layout.expect("a slice fits into the address space").0.pad_to_align()
    }

    /// Returns the slice, with the length in the pointer.
    ///
    /// # Safety
    ///
    /// `this` is an allocation with the [`layout`](Self::layout) of its `len`, which is initialized.
    #[inline(always)]
    unsafe fn items(this: NonNull<()>) -> *mut [T] {
        let this = this.cast::<Self>().as_ptr();
        // SAFETY: the caller's contract.
        unsafe { ptr::slice_from_raw_parts_mut((&raw mut (*this).items).cast::<T>(), (*this).len) }
    }
}

// SAFETY: `init` allocates an `Allocation` and writes all of it.
unsafe impl<T> Pointable for [T] {
    const ALIGN: usize = align_of::<Allocation<T>>();
    const NEEDS_DROP: bool = mem::needs_drop::<T>();
    type Init = Vec<T>;

    fn init(mut items: Vec<T>) -> NonNull<()> {
        let layout = Allocation::<T>::layout(items.len());
        // SAFETY: the size is not zero, as an allocation has a length.
        let this = unsafe { alloc(layout) };
        let Some(this) = NonNull::new(this.cast::<()>()) else { handle_alloc_error(layout) };
        // SAFETY: the allocation has room for as many items, which the vector no longer owns.
        unsafe {
            (&raw mut (*this.cast::<Allocation<T>>().as_ptr()).len).write(items.len());
            Allocation::<T>::items(this).cast::<T>().copy_from_nonoverlapping(items.as_ptr(), items.len());
            items.set_len(0);
        }
        this
    }

    #[inline(always)]
    unsafe fn deref<'a>(pointer: NonNull<()>) -> &'a [T] {
        // SAFETY: the caller's contract.
        unsafe { &*Allocation::items(pointer) }
    }

    #[inline(always)]
    unsafe fn deref_mut<'a>(pointer: NonNull<()>) -> &'a mut [T] {
        // SAFETY: the caller's contract.
        unsafe { &mut *Allocation::items(pointer) }
    }

    unsafe fn drop(pointer: NonNull<()>) {
        /// Frees the memory, also if a destructor panics.
        struct Free(NonNull<()>, Layout);
        impl Drop for Free {
            fn drop(&mut self) {
                // SAFETY: allocated by `init` with this layout, and not used again.
                unsafe { dealloc(self.0.as_ptr().cast(), self.1) };
            }
        }
        // SAFETY: the caller's contract.
        unsafe {
            let items = Allocation::<T>::items(pointer);
            let _free = Free(pointer, Allocation::<T>::layout(items.len()));
            items.drop_in_place();
        }
    }
}

// SAFETY: as for a slice of bytes.
unsafe impl Pointable for str {
    const ALIGN: usize = <[u8]>::ALIGN;
    const NEEDS_DROP: bool = false;
    type Init = String;

    fn init(init: String) -> NonNull<()> {
        <[u8]>::init(init.into_bytes())
    }

    #[inline(always)]
    unsafe fn deref<'a>(pointer: NonNull<()>) -> &'a str {
        // SAFETY: the caller's contract; the bytes are a string's.
        unsafe { core::str::from_utf8_unchecked(<[u8]>::deref(pointer)) }
    }

    #[inline(always)]
    unsafe fn deref_mut<'a>(pointer: NonNull<()>) -> &'a mut str {
        // SAFETY: as in `deref`.
        unsafe { core::str::from_utf8_unchecked_mut(<[u8]>::deref_mut(pointer)) }
    }

    unsafe fn drop(pointer: NonNull<()>) {
        // SAFETY: the caller's contract.
        unsafe { <[u8]>::drop(pointer) };
    }
}
