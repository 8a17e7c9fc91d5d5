//! Values behind pointers of one word. An unsized value has its length in front of it, in the same allocation.

use core::alloc::Layout;
use core::mem;
use core::ptr::{self, NonNull};
use std::alloc::{alloc, dealloc, handle_alloc_error};

/// A type that [`Atomic`](crate::rcu::Atomic), [`Owned`](crate::rcu::Owned) and [`Shared`](crate::rcu::Shared) can
/// point to.
///
/// All sized types are `Pointable`, and so are slices, [`str`] and [`HeaderSlice`]. The pointers take one word, also to
/// an unsized value, whose allocation contains its length.
///
/// ```
/// use stillpoint::rcu::{HeaderSlice, Owned};
///
/// let numbers = Owned::<[u32]>::init(vec![1, 2, 3]);
/// assert_eq!(*numbers, [1, 2, 3]);
///
/// // A header and a slice in one allocation.
/// let name = Owned::<HeaderSlice<u64, [u8]>>::init((7, b"eth0".to_vec()));
/// assert_eq!((name.header, &name.slice), (7, &b"eth0"[..]));
/// assert_eq!(size_of_val(&name), size_of::<usize>());
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

/// A header and a slice in one allocation, as `HeaderSlice<H, [T]>`. See [`Pointable`] for an example.
#[derive(Debug)]
#[repr(C)]
pub struct HeaderSlice<H, S: ?Sized> {
    /// What precedes the slice.
    pub header: H,
    /// The slice.
    pub slice: S,
}

/// The allocation of a `HeaderSlice<H, [T]>`, which begins at `value`. The items follow.
#[repr(C)]
struct Allocation<H, T> {
    len: usize,
    value: HeaderSlice<H, [T; 0]>,
}

impl<H, T> Allocation<H, T> {
    /// Returns the layout of a block with `len` items.
    fn layout(len: usize) -> Layout {
        // The items begin where `slice` does, which may be before the end of `Self`: that is padded.
        let before = mem::offset_of!(Self, value) + mem::offset_of!(HeaderSlice<H, [T; 0]>, slice);
        let layout = Layout::from_size_align(before, align_of::<Self>());
        let layout = layout.and_then(|before| before.extend(Layout::array::<T>(len)?));
        layout.expect("a slice and its header fit into the address space").0.pad_to_align()
    }

    /// Returns the value of the block, with the length in the pointer.
    ///
    /// # Safety
    ///
    /// `block` is an allocation with the [`layout`](Self::layout) of its `len`, which is initialized.
    #[inline(always)]
    unsafe fn value(block: NonNull<()>) -> *mut HeaderSlice<H, [T]> {
        let block = block.cast::<Self>().as_ptr();
        // SAFETY: the caller's contract. `HeaderSlice` is `repr(C)`, so its fields are at the same offsets for an array
        // and for a slice.
        unsafe {
            ptr::slice_from_raw_parts_mut(&raw mut (*block).value, (*block).len) as *mut HeaderSlice<H, [T]>
        }
    }
}

// SAFETY: `init` allocates a `Allocation` and writes all of it.
unsafe impl<H, T> Pointable for HeaderSlice<H, [T]> {
    const ALIGN: usize = align_of::<Allocation<H, T>>();
    const NEEDS_DROP: bool = mem::needs_drop::<(H, T)>();
    type Init = (H, Vec<T>);

    fn init((header, mut items): (H, Vec<T>)) -> NonNull<()> {
        let layout = Allocation::<H, T>::layout(items.len());
        // SAFETY: the size is not zero, as a block has a length.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block.cast::<()>()) else { handle_alloc_error(layout) };
        // SAFETY: the allocation has room for a block with as many items, which the vector no longer owns.
        unsafe {
            (&raw mut (*block.cast::<Allocation<H, T>>().as_ptr()).len).write(items.len());
            let value = Allocation::<H, T>::value(block);
            (&raw mut (*value).header).write(header);
            (&raw mut (*value).slice).cast::<T>().copy_from_nonoverlapping(items.as_ptr(), items.len());
            items.set_len(0);
        }
        block
    }

    #[inline(always)]
    unsafe fn deref<'a>(pointer: NonNull<()>) -> &'a Self {
        // SAFETY: the caller's contract.
        unsafe { &*Allocation::value(pointer) }
    }

    #[inline(always)]
    unsafe fn deref_mut<'a>(pointer: NonNull<()>) -> &'a mut Self {
        // SAFETY: the caller's contract.
        unsafe { &mut *Allocation::value(pointer) }
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
            let _free =
                Free(pointer, Allocation::<H, T>::layout((*pointer.cast::<Allocation<H, T>>().as_ptr()).len));
            Allocation::<H, T>::value(pointer).drop_in_place();
        }
    }
}

// SAFETY: as for a `HeaderSlice` without a header.
unsafe impl<T> Pointable for [T] {
    const ALIGN: usize = HeaderSlice::<(), [T]>::ALIGN;
    const NEEDS_DROP: bool = mem::needs_drop::<T>();
    type Init = Vec<T>;

    fn init(init: Vec<T>) -> NonNull<()> {
        HeaderSlice::<(), [T]>::init(((), init))
    }

    #[inline(always)]
    unsafe fn deref<'a>(pointer: NonNull<()>) -> &'a [T] {
        // SAFETY: the caller's contract.
        unsafe { &HeaderSlice::<(), [T]>::deref(pointer).slice }
    }

    #[inline(always)]
    unsafe fn deref_mut<'a>(pointer: NonNull<()>) -> &'a mut [T] {
        // SAFETY: the caller's contract.
        unsafe { &mut HeaderSlice::<(), [T]>::deref_mut(pointer).slice }
    }

    unsafe fn drop(pointer: NonNull<()>) {
        // SAFETY: the caller's contract.
        unsafe { HeaderSlice::<(), [T]>::drop(pointer) };
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
