//! Maps of plain pairs: [`CopyMap`]s for a few sizes of keys and values, behind one structure of C.
//!
//! Keys and values have at most 64 bytes, of a number that the program says when it creates the map. Here they have
//! 1, 2 or 8 words, the rest of which is zero: four maps, of 35 KiB of code each, which have a table of functions.
//! The header calls these, so a lookup is one indirect call.

use core::ffi::{c_int, c_void};
use core::hash::{BuildHasher, Hash, Hasher};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use std::hash::{DefaultHasher, RandomState};

use stillpoint::rcu::foreign;
use stillpoint_collections::CopyMap;

use crate::boundary::{self, Error};

/// A key or a value, and zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
struct Padded<const N: usize>([u64; N]);

// SAFETY: an array of integers.
unsafe impl<const N: usize> bytemuck::Zeroable for Padded<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> bytemuck::Pod for Padded<N> {}

impl<const N: usize> Hash for Padded<N> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(bytemuck::bytes_of(self));
    }
}

impl<const N: usize> Padded<N> {
    /// # Safety
    ///
    /// `from` is the address of `size` bytes, at most those of this type.
    #[inline(always)]
    unsafe fn load(from: *const c_void, size: usize) -> Self {
        // SAFETY: the caller's contract.
        unsafe {
            if size == 8 * N {
                return from.cast::<Self>().read_unaligned();
            }
            let mut padded = Self([0; N]);
            if N == 1 && size == 4 {
                padded.0.as_mut_ptr().cast::<u32>().write(from.cast::<u32>().read_unaligned());
            } else {
                ptr::copy_nonoverlapping(from.cast::<u8>(), padded.0.as_mut_ptr().cast(), size);
            }
            padded
        }
    }

    /// Stores the value, if there is a place for it.
    ///
    /// # Safety
    ///
    /// `to` is null, or the address of `size` bytes, at most those of this type.
    #[inline(always)]
    unsafe fn store(self, to: *mut c_void, size: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            if to.is_null() {
            } else if size == 8 * N {
                to.cast::<Self>().write_unaligned(self);
            } else {
                ptr::copy_nonoverlapping(self.0.as_ptr().cast::<u8>(), to.cast(), size);
            }
        }
    }
}

type HashFunction = unsafe extern "C-unwind" fn(*const c_void, usize) -> u64;

/// The hash function of the program, or the one of the standard library, with random keys.
#[derive(Debug)]
struct Hashing {
    random: RandomState,
    function: Option<HashFunction>,
    key_size: usize,
}

enum Hashed {
    Random(DefaultHasher),
    ByFunction(HashFunction, usize, u64),
}

impl BuildHasher for Hashing {
    type Hasher = Hashed;

    #[inline]
    fn build_hasher(&self) -> Hashed {
        match self.function {
            None => Hashed::Random(self.random.build_hasher()),
            Some(function) => Hashed::ByFunction(function, self.key_size, 0),
        }
    }

    /// With the kind of hasher known: the compiler leaves it out.
    #[inline(always)]
    fn hash_one<T: Hash>(&self, key: T) -> u64 {
        let Some(function) = self.function else { return self.random.hash_one(key) };
        let mut hasher = Hashed::ByFunction(function, self.key_size, 0);
        key.hash(&mut hasher);
        hasher.finish()
    }
}

impl Hasher for Hashed {
    #[inline(always)]
    fn write(&mut self, key: &[u8]) {
        match self {
            Self::Random(hasher) => hasher.write(key),
            // SAFETY: the contract of `sp_copy_map_create`; the key is padded.
            Self::ByFunction(function, size, hash) => *hash = unsafe { function(key.as_ptr().cast(), *size) },
        }
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        match self {
            Self::Random(hasher) => hasher.finish(),
            Self::ByFunction(_, _, hash) => *hash,
        }
    }
}

type Visit = unsafe extern "C-unwind" fn(*const c_void, *const c_void, *mut c_void) -> c_int;

/// `struct sp_copy_map_functions_`. Keys and values are of the sizes of the map.
#[derive(Debug)]
#[repr(C)]
pub struct Functions {
    get: unsafe extern "C" fn(&Head, *const c_void, *mut c_void) -> c_int,
    insert: unsafe extern "C" fn(&Head, *const c_void, *const c_void, *mut c_void) -> c_int,
    compare_exchange: unsafe extern "C" fn(&Head, *const c_void, *mut c_void, *const c_void) -> c_int,
    remove: unsafe extern "C" fn(&Head, *const c_void, *mut c_void) -> c_int,
    len: unsafe extern "C" fn(&Head) -> usize,
    for_each: unsafe extern "C" fn(&Head, Visit, *mut c_void) -> c_int,
    reserve: unsafe extern "C" fn(&Head, usize) -> c_int,
    destroy: unsafe extern "C" fn(NonNull<Head>),
}

/// `struct sp_copy_map`.
#[derive(Debug)]
#[repr(C)]
pub struct Head(&'static Functions);

/// A map of keys of `K` words and values of `V`.
#[repr(C)]
struct Map<const K: usize, const V: usize> {
    head: Head,
    map: CopyMap<Padded<K>, Padded<V>, Hashing>,
    value_size: usize,
}

impl<const K: usize, const V: usize> Map<K, V> {
    const FUNCTIONS: Functions = Functions {
        get: Self::get,
        insert: Self::insert,
        compare_exchange: Self::compare_exchange,
        remove: Self::remove,
        len: Self::len,
        for_each: Self::for_each,
        reserve: Self::reserve,
        destroy: Self::destroy,
    };
    /// For keys and values without padding, and a hash function of the program's.
    const PLAIN: Functions = Functions { get: Self::get_plain, ..Self::FUNCTIONS };

    fn create(hashing: Hashing, value_size: usize) -> Result<NonNull<Head>, Error> {
        let is_plain = hashing.function.is_some() && hashing.key_size == 8 * K && value_size == 8 * V;
        let functions = if is_plain { const { &Self::PLAIN } } else { const { &Self::FUNCTIONS } };
        let map = CopyMap::with_hasher(hashing);
        Ok(boundary::boxed(Self { head: Head(functions), map, value_size })?.cast())
    }

    /// # Safety
    ///
    /// `head` is that of a map of this type, here and below: its functions are in `head`. Keys and values are as the
    /// header says.
    #[inline(always)]
    unsafe fn of(head: &Head) -> &Self {
        // SAFETY: the caller's contract. It was derived from the pointer to the whole, by C.
        unsafe { &*ptr::from_ref(head).cast() }
    }

    #[inline(always)]
    unsafe fn key(&self, key: *const c_void) -> Padded<K> {
        // SAFETY: the caller's contract.
        unsafe { Padded::load(key, self.map.hasher().key_size) }
    }

    /// Stores what was found. Returns 1 if there is something.
    #[inline(always)]
    unsafe fn found(&self, value: Option<Padded<V>>, to: *mut c_void) -> c_int {
        // SAFETY: the caller's contract.
        value.map_or(0, |value| unsafe {
            value.store(to, self.value_size);
            1
        })
    }

    /// The calling thread is inside a section: the function in the header begins it.
    unsafe extern "C" fn get(head: &Head, key: *const c_void, value: *mut c_void) -> c_int {
        // SAFETY: the caller's contract, here and below.
        unsafe {
            let (this, section) = (Self::of(head), foreign::assume_section());
            let key = this.key(key);
            this.found(this.map.get_in(this.map.hasher().hash_one(key), &key, &section), value)
        }
    }

    /// The same for [`PLAIN`](Self::PLAIN).
    unsafe extern "C" fn get_plain(head: &Head, key: *const c_void, value: *mut c_void) -> c_int {
        // SAFETY: as above, and `create`.
        unsafe {
            let (this, section) = (Self::of(head), foreign::assume_section());
            let hash = this.map.hasher().function.unwrap_unchecked()(key, 8 * K);
            let found = this.map.get_in(hash, &Padded::load(key, 8 * K), &section);
            found.map_or(0, |found| {
                found.store(value, 8 * V);
                1
            })
        }
    }

    unsafe extern "C" fn insert(
        head: &Head,
        key: *const c_void,
        value: *const c_void,
        old: *mut c_void,
    ) -> c_int {
        // SAFETY: see above.
        boundary::catch(|| unsafe {
            let this = Self::of(head);
            Ok(this.found(this.map.insert(this.key(key), Padded::load(value, this.value_size)), old))
        })
    }

    unsafe extern "C" fn compare_exchange(
        head: &Head,
        key: *const c_void,
        expected: *mut c_void,
        value: *const c_void,
    ) -> c_int {
        // SAFETY: see above.
        boundary::catch(|| unsafe {
            let this = Self::of(head);
            let current = (!expected.is_null()).then(|| Padded::load(expected, this.value_size));
            match this.map.compare_exchange(this.key(key), current, Padded::load(value, this.value_size)) {
                Ok(()) => Ok(1),
                Err(found) => {
                    this.found(found, expected);
                    Ok(0)
                }
            }
        })
    }

    unsafe extern "C" fn remove(head: &Head, key: *const c_void, old: *mut c_void) -> c_int {
        // SAFETY: see above.
        boundary::catch(|| unsafe {
            let this = Self::of(head);
            Ok(this.found(this.map.remove(&this.key(key)), old))
        })
    }

    unsafe extern "C" fn len(head: &Head) -> usize {
        // SAFETY: see above.
        unsafe { Self::of(head) }.map.len()
    }

    unsafe extern "C" fn for_each(head: &Head, visit: Visit, argument: *mut c_void) -> c_int {
        // SAFETY: see above; keys and values begin with the bytes of the program's.
        boundary::catch(|| unsafe {
            let pairs = Self::of(head).map.iter();
            let mut codes =
                pairs.map(|(key, value)| visit((&raw const key).cast(), (&raw const value).cast(), argument));
            Ok(codes.find(|code| *code != 0).unwrap_or(0))
        })
    }

    unsafe extern "C" fn reserve(head: &Head, additional: usize) -> c_int {
        boundary::run(|| {
            // SAFETY: see above.
            unsafe { Self::of(head) }.map.try_reserve(additional).map_err(|_| Error(libc::ENOMEM))
        })
    }

    unsafe extern "C" fn destroy(head: NonNull<Head>) {
        // SAFETY: see above; it comes from `create`.
        drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) });
    }
}

/// Creates a map.
///
/// # Safety
///
/// `hash` is null, or any thread may call it with keys, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_copy_map_create(
    map: &mut MaybeUninit<NonNull<Head>>,
    key_size: usize,
    value_size: usize,
    function: Option<HashFunction>,
) -> c_int {
    boundary::run(|| {
        let hashing = Hashing { random: RandomState::new(), function, key_size };
        let create = match (key_size, value_size) {
            (1..=8, ..=8) => Map::<1, 1>::create,
            (1..=16, ..=8) => Map::<2, 1>::create,
            (1..=16, ..=16) => Map::<2, 2>::create,
            (1..=64, ..=64) => Map::<8, 8>::create,
            _ => {
                let what = "with keys of no bytes, or keys or values of more than 64";
                return Err(boundary::misuse("sp_copy_map_create", what, libc::EINVAL));
            }
        };
        map.write(create(hashing, value_size)?);
        Ok(())
    })
}
