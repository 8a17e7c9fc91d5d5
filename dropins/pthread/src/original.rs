//! The C library's functions, for the objects that keep them.
//!
//! All are looked up when the library is initialized, or when one is first called: constructors of other libraries
//! may run before. Later, `dlsym(3)` could wait for a thread that loads a library, and that thread for the mutex.

use core::ffi::{CStr, c_int, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, timespec};

/// A function of the next library that has it: the C library, or another one that was preloaded.
struct Original {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Original {
    /// Returns its address, or null if there is none.
    fn address(&self) -> *mut c_void {
        // Relaxed: code is not written.
        let address = self.address.load(Relaxed);
        if !address.is_null() {
            return address;
        }
        find_all();
        self.address.load(Relaxed)
    }

    fn find(&self) {
        // SAFETY: the name is a C string.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Relaxed);
    }
}

macro_rules! originals {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// Calls the C library's function. An error if it has none.
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[cold]
            pub unsafe fn $name($($argument: $type),*) -> c_int {
                let address = originals::$name.address();
                if address.is_null() {
                    return libc::ENOSYS;
                }
                type Function = unsafe extern "C" fn($($type),*) -> c_int;
                // SAFETY: the function has this type; the rest is the caller's contract.
                unsafe { mem::transmute::<*mut c_void, Function>(address)($($argument),*) }
            }
        )*

        #[allow(non_upper_case_globals)]
        mod originals {
            use super::*;

            $(pub static $name: Original = Original {
                name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("no C string"),
                },
                address: AtomicPtr::new(ptr::null_mut()),
            };)*
        }

        #[cold]
        extern "C" fn find_all() {
            $(originals::$name.find();)*
        }
    };
}

#[used]
// SAFETY: the section is an array of such functions, which the C library calls.
#[unsafe(link_section = ".init_array")]
static FIND_ALL: extern "C" fn() = find_all;

originals! {
    fn pthread_mutex_lock(mutex: *mut pthread_mutex_t);
    fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t);
    fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, until: *const timespec);
    fn pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, until: *const timespec);
    fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t);
    fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t);
    fn pthread_cond_signal(cond: *mut pthread_cond_t);
    fn pthread_cond_broadcast(cond: *mut pthread_cond_t);
    fn pthread_cond_destroy(cond: *mut pthread_cond_t);
    fn pthread_rwlock_rdlock(rwlock: *mut pthread_rwlock_t);
    fn pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t);
    fn pthread_rwlock_tryrdlock(rwlock: *mut pthread_rwlock_t);
    fn pthread_rwlock_trywrlock(rwlock: *mut pthread_rwlock_t);
    fn pthread_rwlock_timedrdlock(rwlock: *mut pthread_rwlock_t, until: *const timespec);
    fn pthread_rwlock_timedwrlock(rwlock: *mut pthread_rwlock_t, until: *const timespec);
    fn pthread_rwlock_clockrdlock(rwlock: *mut pthread_rwlock_t, clock: clockid_t, until: *const timespec);
    fn pthread_rwlock_clockwrlock(rwlock: *mut pthread_rwlock_t, clock: clockid_t, until: *const timespec);
    fn pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t);
    fn pthread_rwlock_destroy(rwlock: *mut pthread_rwlock_t);
}

/// Defines functions of the C library: of an object that `$find` returns, as `$ours`, and of others, which keep the C
/// library's. Its own libraries use some by a second name.
macro_rules! replaced {
    ($find:ident(*mut $object:ty): $(
        $(#[$doc:meta])*
        fn $name:ident($ours:ident $(, $argument:ident: $type:ty)*) $(= $second:ident)? $body:block
    )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// As the C library's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(object: *mut $object $(, $argument: $type)*) -> c_int {
                // SAFETY: the caller's contract.
                let Some($ours) = (unsafe { $find(object) }) else {
                    // SAFETY: as above.
                    return unsafe { $crate::original::$name(object $(, $argument)*) };
                };
                $body
            }

            $(
                /// # Safety
                ///
                /// As the C library's function.
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $second(object: *mut $object) -> c_int {
                    // SAFETY: the caller's contract.
                    unsafe { $name(object) }
                }
            )?
        )*
    };
}
pub(crate) use replaced;
