//! Boxes, where there may be no memory.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::alloc::alloc;

/// [`Box::new`], which returns the value if there is no memory.
pub fn try_box<T>(value: T) -> Result<Box<T>, T> {
    if size_of::<T>() == 0 {
        return Ok(Box::new(value));
    }
    // SAFETY: the layout's size is not zero.
    let Some(place) = NonNull::new(unsafe { alloc(Layout::new::<T>()) }.cast::<T>()) else {
        return Err(value);
    };
    // SAFETY: allocated above, with the layout of `T`.
    unsafe {
        place.write(value);
        Ok(Box::from_raw(place.as_ptr()))
    }
}
