//! Maps of the program's objects: a [`HashMap`] of pointers, with a hash and a comparison of the program's.
//!
//! An object contains its key, at the same place in each. So the map has nothing of an object but its address. A
//! thread that has the address of an object in a section may follow it: the program retires what it removes.

use core::ffi::{c_int, c_void};
use core::hash::{BuildHasherDefault, Hash, Hasher};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use stillpoint::rcu::{self, foreign};
use stillpoint_collections::HashMap;
use stillpoint_collections::hash_map::{Equivalent, Operation};

use crate::boundary;

type Equal = unsafe extern "C-unwind" fn(*const c_void, *const c_void) -> c_int;

/// What the program says of its objects.
#[derive(Debug, Clone, Copy)]
struct Functions {
    offset: usize,
    hash: unsafe extern "C-unwind" fn(*const c_void) -> u64,
    equal: Equal,
    /// Called with an object before its key is looked at: for ThreadSanitizer.
    found: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// `struct sp_hash_map`.
#[derive(Debug)]
pub struct ObjectMap {
    functions: Functions,
    map: HashMap<Object, (), BuildHasherDefault<Taken>>,
}

/// An object in the map, or to be put into it.
#[derive(Debug, Clone, Copy)]
struct Object {
    address: NonNull<c_void>,
    /// Of the map, which outlives its entries.
    functions: NonNull<Functions>,
}

// SAFETY: the contract of `sp_hash_map_create_v1_`: any thread may use the objects.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

/// A key that is looked up.
#[derive(Debug, Clone, Copy)]
struct Key<'m> {
    address: *const c_void,
    functions: &'m Functions,
}

impl Object {
    fn key(&self) -> Key<'_> {
        // SAFETY: the map is there, and so is the object, as the caller is in a section, or the program's is.
        let functions = unsafe { self.functions.as_ref() };
        Key { address: self.address.as_ptr().wrapping_byte_add(functions.offset), functions }
    }
}

impl Key<'_> {
    #[inline(always)]
    fn is_key_of(&self, object: &Object) -> bool {
        // SAFETY: the contract of `sp_hash_map_create_v1_`.
        unsafe {
            if let Some(found) = self.functions.found {
                found(object.address.as_ptr());
            }
            let key = object.address.as_ptr().wrapping_byte_add(self.functions.offset);
            (self.functions.equal)(self.address, key) != 0
        }
    }
}

impl Hash for Key<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // SAFETY: the contract of `sp_hash_map_create_v1_`.
        state.write_u64(unsafe { (self.functions.hash)(self.address) });
    }
}

impl Equivalent<Object> for Key<'_> {
    #[inline]
    fn equivalent(&self, object: &Object) -> bool {
        self.is_key_of(object)
    }
}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.key().is_key_of(other)
    }
}

impl Eq for Object {}

/// The hash that the program has computed, as it is.
#[derive(Debug, Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn write(&mut self, _: &[u8]) {}

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

impl ObjectMap {
    fn object(&self, address: NonNull<c_void>) -> Object {
        Object { address, functions: NonNull::from(&self.functions) }
    }

    fn key(&self, address: *const c_void) -> Key<'_> {
        Key { address, functions: &self.functions }
    }
}

fn address(object: Option<(&Object, &())>) -> *mut c_void {
    object.map_or(ptr::null_mut(), |(object, ())| object.address.as_ptr())
}

/// Creates a map.
///
/// # Safety
///
/// Any thread may call the functions with the addresses of keys, at any time, and use the objects that are put into
/// the map. An object that has been removed is there until the sections have ended that were open then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_hash_map_create_v1_(
    map: &mut MaybeUninit<NonNull<ObjectMap>>,
    offset: usize,
    hash: unsafe extern "C-unwind" fn(*const c_void) -> u64,
    equal: Equal,
    found: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    boundary::run(|| {
        let functions = Functions { offset, hash, equal, found };
        map.write(boundary::boxed(ObjectMap { functions, map: HashMap::default() })?);
        Ok(())
    })
}

/// Frees a map, after it has called `function` with each object.
///
/// # Safety
///
/// `map` is null or comes from `sp_hash_map_create_v1_`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_hash_map_destroy(
    map: Option<NonNull<ObjectMap>>,
    function: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
) -> c_int {
    boundary::run(|| {
        let Some(map) = map else { return Ok(()) };
        // SAFETY: the caller's contract.
        let mut map = unsafe { Box::from_raw(map.as_ptr()) };
        for (object, ()) in map.map.drain() {
            if let Some(function) = function {
                // SAFETY: the caller's contract.
                unsafe { function(object.address.as_ptr()) };
            }
        }
        Ok(())
    })
}

/// Returns the object with the key, or null.
///
/// # Safety
///
/// `key` is the address of a key, and the calling thread is inside a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_hash_map_get(map: &ObjectMap, key: *const c_void) -> *mut c_void {
    if cfg!(debug_assertions) && !rcu::in_read_section() {
        boundary::misuse("sp_hash_map_get", "outside of read-side critical sections", libc::EPERM);
    }
    // SAFETY: the caller's contract.
    let guard = unsafe { foreign::assume_section() };
    address(map.map.get_key_value(&map.key(key), &guard))
}

/// Inserts an object, and returns the one that it replaces, or null.
///
/// # Safety
///
/// The contract of `sp_hash_map_create_v1_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_hash_map_insert(map: &ObjectMap, object: NonNull<c_void>) -> *mut c_void {
    address(map.map.replace(map.object(object), (), &rcu::enter()))
}

/// Inserts an object, unless one has its key: returns that, or null.
///
/// # Safety
///
/// The contract of `sp_hash_map_create_v1_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_hash_map_get_or_insert(map: &ObjectMap, object: NonNull<c_void>) -> *mut c_void {
    let guard = rcu::enter();
    let mut there = ptr::null_mut();
    let _ = map.map.compute(
        &map.object(object),
        |entry| {
            there = address(entry);
            match entry {
                None => Operation::Insert(()),
                Some(_) => Operation::Abort(()),
            }
        },
        &guard,
    );
    there
}

/// Removes the object with the key, and returns it, or null.
///
/// # Safety
///
/// `key` is the address of a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_hash_map_remove(map: &ObjectMap, key: *const c_void) -> *mut c_void {
    address(map.map.remove_entry(&map.key(key), &rcu::enter()))
}

/// Returns the number of objects.
#[unsafe(no_mangle)]
pub extern "C" fn sp_hash_map_len(map: &ObjectMap) -> usize {
    map.map.len()
}

/// Calls `visit` with each object, until it returns another code than 0. Returns that, or 0.
///
/// # Safety
///
/// `visit` may be called with the objects and `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_hash_map_for_each(
    map: &ObjectMap,
    visit: unsafe extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    boundary::catch(|| {
        let guard = rcu::enter();
        // SAFETY: the caller's contract.
        let mut codes =
            map.map.keys(&guard).map(|object| unsafe { visit(object.address.as_ptr(), argument) });
        Ok(codes.find(|code| *code != 0).unwrap_or(0))
    })
}
