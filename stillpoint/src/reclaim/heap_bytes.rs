//! What values own on the heap, for the [limits](super::backlog::Limits) of the backlog: of a few types, without the
//! program's help. Rust has no specialization, but a generic function can compare its type with those of a list.

use core::any::TypeId;
use core::mem::needs_drop;
use core::ptr;

/// See [`known_heap_bytes`](crate::rcu::known_heap_bytes).
#[inline]
pub fn known<T: ?Sized + 'static>(value: &T) -> Option<usize> {
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

/// Returns the function that weighs the values of a type of the list, by its id and size. (The sizes are compared first,
/// which is faster without optimization.)
///
/// Not generic: a copy for each type that a program retires would take seconds to compile. With optimization, each call
/// is inlined, and all comparisons go.
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
