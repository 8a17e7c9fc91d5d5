//! Values behind pointers of one word.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr;

/// Types whose values a pointer of one word leads to: all sized types, and slices of [`MaybeUninit`].
///
/// A slice has its length in front of its items.
///
/// ```
/// use crossbeam_epoch::Owned;
/// use std::mem::MaybeUninit;
///
/// let mut squares = Owned::<[MaybeUninit<u64>]>::init(4);
/// for (i, square) in squares.iter_mut().enumerate() {
///     square.write(i as u64 * i as u64);
/// }
/// // SAFETY: all have been written.
/// assert_eq!(unsafe { squares[3].assume_init() }, 9);
/// ```
///
/// Addresses have exposed provenance.
pub trait Pointable {
    /// The alignment of the pointer: the bits below it have room for a tag.
    const ALIGN: usize;

    /// What a value is made from.
    type Init;

    /// Allocates a value and returns its address.
    ///
    /// # Safety
    ///
    /// None for the caller. An implementation returns a multiple of [`ALIGN`](Self::ALIGN).
    unsafe fn init(init: Self::Init) -> usize;

    /// Returns a shared reference to the value.
    ///
    /// # Safety
    ///
    /// The address comes from [`init`](Self::init), and for `'a` the value is neither dropped nor borrowed mutably.
    unsafe fn deref<'a>(ptr: usize) -> &'a Self;

    /// Returns the only reference to the value.
    ///
    /// # Safety
    ///
    /// The address comes from [`init`](Self::init), and for `'a` the value is neither dropped nor borrowed otherwise.
    unsafe fn deref_mut<'a>(ptr: usize) -> &'a mut Self;

    /// Drops the value and frees its memory.
    ///
    /// # Safety
    ///
    /// The address comes from [`init`](Self::init), and is not used again.
    unsafe fn drop(ptr: usize);
}

impl<T> Pointable for T {
    const ALIGN: usize = align_of::<T>();

    type Init = T;

    #[inline]
    unsafe fn init(init: T) -> usize {
        Box::into_raw(Box::new(init)).expose_provenance()
    }

    #[inline]
    unsafe fn deref<'a>(ptr: usize) -> &'a T {
        // SAFETY: the caller's contract.
        unsafe { &*ptr::with_exposed_provenance(ptr) }
    }

    #[inline]
    unsafe fn deref_mut<'a>(ptr: usize) -> &'a mut T {
        // SAFETY: the caller's contract.
        unsafe { &mut *ptr::with_exposed_provenance_mut(ptr) }
    }

    #[inline]
    unsafe fn drop(ptr: usize) {
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<T>(ptr)) });
    }
}

/// The length of a slice. A pointer to a slice leads here, and the items follow at the offset of `items`.
#[repr(C)]
struct Header<T> {
    len: usize,
    items: [MaybeUninit<T>; 0],
}

impl<T> Header<T> {
    /// Returns the layout of a header and `len` items.
    fn layout(len: usize) -> Layout {
        let items = Layout::array::<T>(len).expect("the slice is larger than the address space");
        let (layout, _) =
            Layout::new::<Self>().extend(items).expect("the slice is larger than the address space");
        layout.pad_to_align()
    }

    /// Returns a pointer to the items.
    ///
    /// # Safety
    ///
    /// `address` comes from [`Pointable::init`] of a slice, and was not dropped.
    unsafe fn items(address: usize) -> *mut [MaybeUninit<T>] {
        let header = ptr::with_exposed_provenance_mut::<Self>(address);
        // SAFETY: the caller's contract. The pointer to the empty array may be used for what follows, as it comes
        // from one to the whole allocation.
        unsafe { ptr::slice_from_raw_parts_mut((&raw mut (*header).items).cast(), (*header).len) }
    }
}

impl<T> Pointable for [MaybeUninit<T>] {
    const ALIGN: usize = align_of::<Header<T>>();

    type Init = usize;

    unsafe fn init(len: usize) -> usize {
        let layout = Header::<T>::layout(len);
        // SAFETY: the layout has a size, that of a header at least.
        let header = unsafe { alloc(layout) }.cast::<Header<T>>();
        if header.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the allocation is large enough and aligned. Items need not be initialized.
        unsafe { (&raw mut (*header).len).write(len) };
        header.expose_provenance()
    }

    unsafe fn deref<'a>(ptr: usize) -> &'a Self {
        // SAFETY: the caller's contract.
        unsafe { &*Header::items(ptr) }
    }

    unsafe fn deref_mut<'a>(ptr: usize) -> &'a mut Self {
        // SAFETY: the caller's contract.
        unsafe { &mut *Header::items(ptr) }
    }

    unsafe fn drop(ptr: usize) {
        let header = ptr::with_exposed_provenance_mut::<Header<T>>(ptr);
        // SAFETY: the caller's contract. Allocated with this layout.
        unsafe { dealloc(header.cast(), Header::<T>::layout((*header).len)) };
    }
}
