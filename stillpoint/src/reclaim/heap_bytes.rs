//! What values own on the heap, for the [limits](super::backlog::Limits) of the backlog: by a trait, and without the
//! program's help for common types of the standard library ([`known`]).
//!
//! Rust has no specialization: a generic function cannot ask whether `T` implements [`HeapBytes`]. It can compare the
//! type with those of a list, which are constants.

use core::any::TypeId;
use core::mem::needs_drop;
use core::ptr;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::ffi::{CString, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A type that knows how much memory its values own on the heap.
///
/// For pointers that [weigh](crate::rcu::Rcu::weighed) their values. It is implemented for numbers, strings, `Option`,
/// tuples, and the collections of the standard library.
///
/// ```
/// use stillpoint::rcu::{HeapBytes, Rcu};
///
/// struct Config {
///     name: String,
///     blocked: Vec<String>,
/// }
///
/// impl HeapBytes for Config {
///     fn heap_bytes(&self) -> usize {
///         self.name.heap_bytes() + self.blocked.heap_bytes()
///     }
/// }
///
/// let config = Rcu::new(Config { name: "a".into(), blocked: vec!["10.0.0.1".into()] }).weighed();
/// config.replace(Config { name: "b".into(), blocked: vec![] });
/// ```
pub trait HeapBytes {
    /// Returns the bytes that dropping the value frees, without the value itself.
    ///
    /// An estimate, made when the value is retired, while readers may use it. What lies in an [`Arc`] counts if it has
    /// no other owner.
    fn heap_bytes(&self) -> usize;
}

/// Returns the heap bytes of some values.
fn sum<'a, T: HeapBytes + 'a>(values: impl IntoIterator<Item = &'a T>) -> usize {
    if const { needs_drop::<T>() } { values.into_iter().map(T::heap_bytes).sum() } else { 0 }
}

macro_rules! own_nothing {
    ($($type:ty)*) => {
        $(
            impl HeapBytes for $type {
                #[inline(always)]
                fn heap_bytes(&self) -> usize {
                    0
                }
            }
        )*
    };
}

own_nothing! {
    () bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 str
    Duration Instant SystemTime IpAddr Ipv4Addr Ipv6Addr SocketAddr
}

impl<T: ?Sized> HeapBytes for &T {
    #[inline(always)]
    fn heap_bytes(&self) -> usize {
        0
    }
}

macro_rules! capacity {
    ($($type:ty)*) => {
        $(
            impl HeapBytes for $type {
                #[inline]
                fn heap_bytes(&self) -> usize {
                    self.capacity()
                }
            }
        )*
    };
}

capacity! { String OsString PathBuf }

impl HeapBytes for CString {
    fn heap_bytes(&self) -> usize {
        self.count_bytes() + 1
    }
}

impl<T: HeapBytes> HeapBytes for [T] {
    #[inline]
    fn heap_bytes(&self) -> usize {
        sum(self)
    }
}

impl<T: HeapBytes, const N: usize> HeapBytes for [T; N] {
    fn heap_bytes(&self) -> usize {
        sum(self)
    }
}

impl<T: ?Sized + HeapBytes> HeapBytes for Box<T> {
    #[inline]
    fn heap_bytes(&self) -> usize {
        size_of_val::<T>(self) + (**self).heap_bytes()
    }
}

impl<T: ?Sized + HeapBytes> HeapBytes for Arc<T> {
    fn heap_bytes(&self) -> usize {
        if Arc::strong_count(self) != 1 {
            return 0;
        }
        2 * size_of::<usize>() + size_of_val::<T>(self) + (**self).heap_bytes()
    }
}

macro_rules! buffer {
    ($($type:ident)*) => {
        $(
            impl<T: HeapBytes> HeapBytes for $type<T> {
                #[inline]
                fn heap_bytes(&self) -> usize {
                    self.capacity() * size_of::<T>() + sum(self)
                }
            }
        )*
    };
}

buffer! { Vec VecDeque BinaryHeap }

/// The memory of a hash table that has room for `capacity` entries: a slot and a byte for each bucket.
fn table_bytes<T>(capacity: usize) -> usize {
    // Seven of eight buckets are used.
    if capacity == 0 { 0 } else { (capacity / 7 * 8).max(4).next_power_of_two() * (size_of::<T>() + 1) }
}

/// The memory of a B-tree's nodes, of which three quarters are used on average. The first has room for eleven entries.
fn tree_bytes<T>(len: usize) -> usize {
    if len == 0 { 0 } else { (len * 4 / 3).max(11) * size_of::<T>() }
}

impl<K: HeapBytes, V: HeapBytes, S> HeapBytes for HashMap<K, V, S> {
    fn heap_bytes(&self) -> usize {
        table_bytes::<(K, V)>(self.capacity()) + sum(self.keys()) + sum(self.values())
    }
}

impl<T: HeapBytes, S> HeapBytes for HashSet<T, S> {
    fn heap_bytes(&self) -> usize {
        table_bytes::<T>(self.capacity()) + sum(self)
    }
}

impl<K: HeapBytes, V: HeapBytes> HeapBytes for BTreeMap<K, V> {
    fn heap_bytes(&self) -> usize {
        tree_bytes::<(K, V)>(self.len()) + sum(self.keys()) + sum(self.values())
    }
}

impl<T: HeapBytes> HeapBytes for BTreeSet<T> {
    fn heap_bytes(&self) -> usize {
        tree_bytes::<T>(self.len()) + sum(self)
    }
}

impl<T: HeapBytes> HeapBytes for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<T: HeapBytes, E: HeapBytes> HeapBytes for Result<T, E> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or_else(E::heap_bytes, T::heap_bytes)
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {
        $(
            impl<$($name: HeapBytes),*> HeapBytes for ($($name,)*) {
                #[expect(non_snake_case, reason = "the variables are named as the types")]
                fn heap_bytes(&self) -> usize {
                    let ($($name,)*) = self;
                    0 $(+ $name.heap_bytes())*
                }
            }
        )*
    };
}

tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

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
/// `value` points to a `T` that is not borrowed mutably.
unsafe fn weigh<T: HeapBytes>(value: *const ()) -> usize {
    // SAFETY: the caller's contract.
    unsafe { &*value.cast::<T>() }.heap_bytes()
}

/// Returns the function that weighs the values of a type of the list, by its id and size. (The sizes are compared first,
/// which is faster without optimization.)
///
/// Not generic: a copy for each type that a program retires would take seconds to compile. With optimization, each call
/// is inlined, and all comparisons go.
#[cfg_attr(not(debug_assertions), inline(always))]
fn weigher(id: TypeId, size: usize) -> Option<unsafe fn(*const ()) -> usize> {
    macro_rules! look {
        ($($type:ty)*) => {
            $(
                if size == size_of::<$type>() && id == TypeId::of::<$type>() {
                    return Some(weigh::<$type>);
                }
            )*
        };
    }
    macro_rules! lists {
        ($($type:ty)*) => {
            $(look! { Vec<$type> Box<[$type]> VecDeque<$type> })*
        };
    }
    macro_rules! maps {
        ([$($key:ty)*] $values:tt) => {
            $(
                look! { HashSet<$key> BTreeSet<$key> }
                maps! { $key => $values }
            )*
        };
        ($key:ty => [$($value:ty)*]) => {
            $(look! { Vec<($key, $value)> HashMap<$key, $value> BTreeMap<$key, $value> })*
        };
    }
    look! { String Box<str> OsString PathBuf CString Vec<Vec<u8>> }
    lists! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 bool char &'static str String }
    maps! { [u32 u64 usize &'static str String] [u32 u64 usize f64 &'static str String Vec<u8>] }
    None
}
