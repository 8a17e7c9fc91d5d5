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
/// The functions with addresses are those of crossbeam-epoch. They expose the provenance of their pointers. This crate
/// uses the hidden ones, which have implementations by the others.
pub trait Pointable {
    /// The alignment of the pointer: the bits below it have room for a tag.
    const ALIGN: usize;

    /// What a value is made from.
    type Init;

    /// Allocates a value and returns its address.
    ///
    /// # Safety
    ///
    /// The address is a multiple of [`ALIGN`](Self::ALIGN).
    unsafe fn init(init: Self::Init) -> usize;

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// The address comes from [`init`](Self::init), and for `'a` the value is neither dropped nor borrowed mutably.
    unsafe fn deref<'a>(ptr: usize) -> &'a Self;

    /// Returns the value.
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

    /// [`init`](Self::init).
    ///
    /// # Safety
    ///
    /// As there.
    #[doc(hidden)]
    unsafe fn init_pointer(init: Self::Init) -> *mut () {
        // SAFETY: the caller's contract.
        ptr::with_exposed_provenance_mut(unsafe { Self::init(init) })
    }

    /// [`deref`](Self::deref).
    ///
    /// # Safety
    ///
    /// As there.
    #[doc(hidden)]
    unsafe fn deref_pointer<'a>(pointer: *mut ()) -> &'a Self {
        // SAFETY: the caller's contract.
        unsafe { Self::deref(pointer.expose_provenance()) }
    }

    /// [`deref_mut`](Self::deref_mut).
    ///
    /// # Safety
    ///
    /// As there.
    #[doc(hidden)]
    unsafe fn deref_pointer_mut<'a>(pointer: *mut ()) -> &'a mut Self {
        // SAFETY: the caller's contract.
        unsafe { Self::deref_mut(pointer.expose_provenance()) }
    }

    /// [`drop`](Self::drop).
    ///
    /// # Safety
    ///
    /// As there.
    #[doc(hidden)]
    unsafe fn drop_pointer(pointer: *mut ()) {
        // SAFETY: the caller's contract.
        unsafe { Self::drop(pointer.expose_provenance()) };
    }
}

/// The functions with addresses, by those with pointers.
macro_rules! by_address {
    () => {
        unsafe fn init(init: Self::Init) -> usize {
            // SAFETY: the caller's contract.
            unsafe { Self::init_pointer(init) }.expose_provenance()
        }

        unsafe fn deref<'a>(ptr: usize) -> &'a Self {
            // SAFETY: the caller's contract.
            unsafe { Self::deref_pointer(ptr::with_exposed_provenance_mut(ptr)) }
        }

        unsafe fn deref_mut<'a>(ptr: usize) -> &'a mut Self {
            // SAFETY: the caller's contract.
            unsafe { Self::deref_pointer_mut(ptr::with_exposed_provenance_mut(ptr)) }
        }

        unsafe fn drop(ptr: usize) {
            // SAFETY: the caller's contract.
            unsafe { Self::drop_pointer(ptr::with_exposed_provenance_mut(ptr)) };
        }
    };
}

impl<T> Pointable for T {
    const ALIGN: usize = align_of::<T>();

    type Init = T;

    by_address!();

    #[inline]
    unsafe fn init_pointer(init: T) -> *mut () {
        Box::into_raw(Box::new(init)).cast()
    }

    #[inline]
    unsafe fn deref_pointer<'a>(pointer: *mut ()) -> &'a T {
        // SAFETY: the caller's contract.
        unsafe { &*pointer.cast() }
    }

    #[inline]
    unsafe fn deref_pointer_mut<'a>(pointer: *mut ()) -> &'a mut T {
        // SAFETY: the caller's contract.
        unsafe { &mut *pointer.cast() }
    }

    #[inline]
    unsafe fn drop_pointer(pointer: *mut ()) {
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
    }
}

/// What a pointer to a slice leads to. The items follow.
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
    /// `header` comes from [`Pointable::init_pointer`] of a slice, and was not dropped.
    unsafe fn items(header: *mut Self) -> *mut [MaybeUninit<T>] {
        // SAFETY: the caller's contract. The pointer to the empty array may be used for what follows, as it comes from
        // one to the whole allocation.
        unsafe { ptr::slice_from_raw_parts_mut((&raw mut (*header).items).cast(), (*header).len) }
    }
}

impl<T> Pointable for [MaybeUninit<T>] {
    const ALIGN: usize = align_of::<Header<T>>();

    type Init = usize;

    by_address!();

    unsafe fn init_pointer(len: usize) -> *mut () {
        let layout = Header::<T>::layout(len);
        // SAFETY: the layout has a size, that of a header at least.
        let header = unsafe { alloc(layout) }.cast::<Header<T>>();
        if header.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the allocation is large enough and aligned. Items need not be initialized.
        unsafe { (&raw mut (*header).len).write(len) };
        header.cast()
    }

    unsafe fn deref_pointer<'a>(pointer: *mut ()) -> &'a Self {
        // SAFETY: the caller's contract.
        unsafe { &*Header::items(pointer.cast()) }
    }

    unsafe fn deref_pointer_mut<'a>(pointer: *mut ()) -> &'a mut Self {
        // SAFETY: the caller's contract.
        unsafe { &mut *Header::items(pointer.cast()) }
    }

    unsafe fn drop_pointer(pointer: *mut ()) {
        // SAFETY: the caller's contract. Allocated with this layout.
        unsafe {
            let layout = Header::<T>::layout((*pointer.cast::<Header<T>>()).len);
            dealloc(pointer.cast(), layout);
        }
    }
}
