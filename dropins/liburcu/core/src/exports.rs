//! Functions under liburcu's names.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

use crate::hooks::AtFork;
use crate::queue::{Function, RcuHead};

/// `struct rcu_flavor_struct`, as of liburcu 0.14.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    pub read_lock: extern "C" fn(),
    pub read_unlock: extern "C" fn(),
    pub read_ongoing: extern "C" fn() -> c_int,
    pub quiescent_state: extern "C" fn(),
    pub call_rcu: unsafe extern "C" fn(*mut RcuHead, Function),
    pub synchronize_rcu: extern "C" fn(),
    pub defer_rcu: unsafe extern "C" fn(crate::defer::Deferred, *mut c_void),
    pub thread_offline: extern "C" fn(),
    pub thread_online: extern "C" fn(),
    pub register_thread: extern "C" fn(),
    pub unregister_thread: extern "C" fn(),
    pub barrier: extern "C" fn(),
    pub register_atfork: extern "C" fn(*mut AtFork),
    pub unregister_atfork: extern "C" fn(*mut AtFork),
    pub start_poll: extern "C" fn() -> u64,
    pub poll_state: extern "C" fn(u64) -> bool,
}

const _: () = assert!(size_of::<Table>() == 128);

/// Does nothing: an entry of a flavor that has no such function.
pub extern "C" fn nothing() {}

/// Defines functions under liburcu's names, each of which calls another one. Those that are `unsafe` have the
/// contract that liburcu documents.
#[macro_export]
macro_rules! forward {
    ($prefix:literal, $name:literal; $($suffix:literal fn $function:ident($($argument:ident: $type:ty),*)
        $(-> $result:ty)? = $called:expr;)*) => {
        $(#[unsafe(export_name = concat!($prefix, $name, $suffix))]
        extern "C" fn $function($($argument: $type),*) $(-> $result)? {
            $called($($argument),*)
        })*
    };
    ($prefix:literal, $name:literal; $($suffix:literal unsafe fn $function:ident($($argument:ident: $type:ty),*)
        $(-> $result:ty)? = $called:expr;)*) => {
        $(#[unsafe(export_name = concat!($prefix, $name, $suffix))]
        unsafe extern "C" fn $function($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's contract is that of the function which is called.
            unsafe { $called($($argument),*) }
        })*
    };
}

/// Defines the functions that all flavors have, and the structure of the flavor. `quiescent`, `offline` and `online`
/// are functions of qsbr.
#[macro_export]
macro_rules! exports {
    ($flavor:ident, $name:literal, $quiescent:path, $offline:path, $online:path) => {
        use core::ffi::{c_int, c_ulong, c_void};
        use core::sync::atomic::Ordering::Relaxed;

        use stillpoint::urcu::Engine;
        use $crate::call_rcu::{self, CallRcu, Workers};
        use $crate::defer::{self, DeferRcu, Deferred, Deferring};
        use $crate::exports::Table;
        use $crate::flavor::{self, Flavor};
        use $crate::fork;
        use $crate::hooks::AtFork;
        use $crate::inlined::InlinedReaders;
        use $crate::poll;
        use $crate::progress::Progress;
        use $crate::queue::{Function, RcuHead};
        use $crate::worker::{self, Worker};
        use $crate::{barrier, cpus};

        #[unsafe(export_name = concat!("urcu_", $name, "_flavor"))]
        static TABLE: Table = Table {
            read_lock,
            read_unlock,
            read_ongoing,
            quiescent_state: $quiescent,
            call_rcu,
            synchronize_rcu,
            defer_rcu,
            thread_offline: $offline,
            thread_online: $online,
            register_thread,
            unregister_thread,
            barrier,
            register_atfork,
            unregister_atfork,
            start_poll,
            poll_state,
        };

        static ENGINE: Engine<InlinedReaders<$flavor>> =
            Engine::new(InlinedReaders::new($flavor), || $flavor::NAME);
        static PROGRESS: Progress = Progress::new();
        static WORKERS: Workers = Workers::new();
        static DEFERRING: Deferring = Deferring::new();

        impl CallRcu for $flavor {
            fn workers() -> &'static Workers {
                &WORKERS
            }
        }

        impl DeferRcu for $flavor {
            fn deferring() -> &'static Deferring {
                &DEFERRING
            }
        }

        $crate::forward! { "urcu_", $name;
            "_synchronize_rcu" fn synchronize_rcu() = flavor::synchronize::<$flavor>;
            "_start_poll_synchronize_rcu" fn start_poll() -> u64 = poll::start::<$flavor>;
            "_poll_state_synchronize_rcu" fn poll_state(number: u64) -> bool = poll::state::<$flavor>;
            "_barrier" fn barrier() = barrier::barrier::<$flavor>;
            "_create_call_rcu_data" fn create_call_rcu_data(flags: c_ulong, cpu: c_int) -> *mut Worker
                = call_rcu::create::<$flavor>;
            "_get_call_rcu_data" fn get_call_rcu_data() -> *mut Worker = call_rcu::get_worker::<$flavor>;
            "_get_default_call_rcu_data" fn get_default_call_rcu_data() -> *mut Worker
                = call_rcu::get_default_worker::<$flavor>;
            "_get_cpu_call_rcu_data" fn get_cpu_call_rcu_data(cpu: c_int) -> *mut Worker
                = cpus::get_cpu_worker::<$flavor>;
            "_set_cpu_call_rcu_data" fn set_cpu_call_rcu_data(cpu: c_int, worker: *mut Worker) -> c_int
                = cpus::set_cpu_worker::<$flavor>;
            "_get_thread_call_rcu_data" fn get_thread_call_rcu_data() -> *mut Worker
                = worker::get_thread_worker::<$flavor>;
            "_set_thread_call_rcu_data" fn set_thread_call_rcu_data(worker: *mut Worker)
                = worker::set_thread_worker::<$flavor>;
            "_create_all_cpu_call_rcu_data" fn create_all_cpu_call_rcu_data(flags: c_ulong) -> c_int
                = cpus::create_cpu_workers::<$flavor>;
            "_free_all_cpu_call_rcu_data" fn free_all_cpu_call_rcu_data() = cpus::free_cpu_workers::<$flavor>;
            "_call_rcu_before_fork" fn call_rcu_before_fork() = fork::before::<$flavor>;
            "_call_rcu_after_fork_parent" fn call_rcu_after_fork_parent() = fork::after_in_parent::<$flavor>;
            "_call_rcu_after_fork_child" fn call_rcu_after_fork_child() = fork::after_in_child::<$flavor>;
            "_register_rculfhash_atfork" fn register_atfork(hooks: *mut AtFork) = fork::register_hooks::<$flavor>;
            "_unregister_rculfhash_atfork" fn unregister_atfork(hooks: *mut AtFork)
                = fork::unregister_hooks::<$flavor>;
            "_defer_register_thread" fn defer_register_thread() -> c_int = defer::register::<$flavor>;
            "_defer_unregister_thread" fn defer_unregister_thread() = defer::unregister::<$flavor>;
            "_defer_barrier" fn defer_barrier() = defer::barrier::<$flavor>;
            "_defer_barrier_thread" fn defer_barrier_thread() = defer::barrier_thread::<$flavor>;
            "_defer_exit" fn defer_exit() = $crate::exports::nothing;
        }
        $crate::forward! { "urcu_", $name;
            "_call_rcu" unsafe fn call_rcu(head: *mut RcuHead, function: Function) = call_rcu::call::<$flavor>;
            "_call_rcu_data_free" unsafe fn call_rcu_data_free(worker: *mut Worker) = call_rcu::free::<$flavor>;
            "_get_call_rcu_thread" unsafe fn get_call_rcu_thread(worker: *mut Worker) -> libc::pthread_t
                = call_rcu::thread_of;
            "_defer_rcu" unsafe fn defer_rcu(function: Deferred, argument: *mut c_void) = defer::defer::<$flavor>;
        }

        $crate::common_exports!();
    };
}

/// Defines the methods of `InlinedProtocol`. `gp` is the variable with the counter.
#[macro_export]
macro_rules! protocol_methods {
    ($gp:ident) => {
        #[inline(always)]
        fn gp(&self) -> &$crate::inlined::Gp {
            &$gp
        }

        fn report_stall(&self, thread: u32, waited: core::time::Duration) {
            flavor::report_stall::<Self>(thread, waited);
        }
    };
}

/// Defines the methods of `Flavor`, but for `reset_in_child`. `register` and `unregister` are those of a thread.
#[macro_export]
macro_rules! flavor_methods {
    ($register:path, $unregister:path) => {
        #[inline(always)]
        fn engine() -> &'static Engine<InlinedReaders<Self>> {
            &ENGINE
        }

        fn progress() -> &'static Progress {
            &PROGRESS
        }

        #[inline(always)]
        fn own<'a>() -> &'a $crate::inlined::InlinedReader {
            own()
        }

        fn own_if_any<'a>() -> Option<&'a $crate::inlined::InlinedReader> {
            found_own()
        }

        fn register_thread() {
            $register();
        }

        fn unregister_thread() {
            $unregister();
        }
    };
}

/// Defines the functions for readers that enter and leave sections: memb, mb and bp.
///
/// The calls of a thread that has no pointer to its reader yet are tail calls, so that the others need no stack.
#[macro_export]
macro_rules! section_exports {
    ($flavor:ident, $name:literal) => {
        #[unsafe(export_name = concat!("urcu_", $name, "_read_lock"))]
        extern "C" fn read_lock() {
            #[cold]
            #[inline(never)]
            extern "C" fn first() {
                ENGINE.readers().enter(own());
            }
            match found_own() {
                Some(own) => ENGINE.readers().enter(own),
                None => first(),
            }
        }

        #[unsafe(export_name = concat!("urcu_", $name, "_read_unlock"))]
        extern "C" fn read_unlock() {
            #[cold]
            #[inline(never)]
            extern "C" fn first() {
                ENGINE.readers().leave(own());
            }
            match found_own() {
                Some(own) => ENGINE.readers().leave(own),
                None => first(),
            }
        }

        #[unsafe(export_name = concat!("urcu_", $name, "_read_ongoing"))]
        extern "C" fn read_ongoing() -> c_int {
            own().in_section().into()
        }
    };
}

/// Defines the functions by which threads register: memb and mb.
#[macro_export]
macro_rules! registration_exports {
    ($flavor:ident, $name:literal) => {
        #[unsafe(export_name = concat!("urcu_", $name, "_register_thread"))]
        extern "C" fn register_thread() {
            let own = own();
            flavor::register::<$flavor>(own);
            // For the assertions of inlined code: `registered`.
            own.tail[0].store(1, Relaxed);
        }

        #[unsafe(export_name = concat!("urcu_", $name, "_unregister_thread"))]
        extern "C" fn unregister_thread() {
            let own = own();
            own.tail[0].store(0, Relaxed);
            flavor::unregister::<$flavor>(own);
        }
    };
}

/// Defines the functions that each library has under the same names.
#[macro_export]
macro_rules! common_exports {
    () => {
        $crate::zeros!(".weak", "__urcu_compat_futex_lock", ".bss.compat,\"aw\"", "40", "8");
        $crate::zeros!(".weak", "__urcu_compat_futex_cond", ".bss.compat,\"aw\"", "48", "8");

        $crate::pointer_exports!("rcu_");

        #[unsafe(no_mangle)]
        unsafe extern "C" fn compat_futex_noasync(
            word: *mut i32,
            operation: c_int,
            value: i32,
            timeout: *const libc::timespec,
            word2: *mut i32,
            value3: i32,
        ) -> c_int {
            // SAFETY: the caller's arguments of `futex(2)`.
            unsafe { libc::syscall(libc::SYS_futex, word, operation, value, timeout, word2, value3) as c_int }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn compat_futex_async(
            word: *mut i32,
            operation: c_int,
            value: i32,
            timeout: *const libc::timespec,
            word2: *mut i32,
            value3: i32,
        ) -> c_int {
            // SAFETY: as above.
            unsafe { compat_futex_noasync(word, operation, value, timeout, word2, value3) }
        }
    };
}

/// Defines the functions for pointers.
#[macro_export]
macro_rules! pointer_exports {
    ($prefix:literal) => {
        const _: () = {
            use core::ffi::c_void;

            use $crate::exports::{compare_exchange, get, set, swap};

            extern "C" fn same(pointer: *mut c_void) -> *mut c_void {
                pointer
            }

            $crate::forward! { $prefix, "";
                "dereference_sym" fn dereference(pointer: *mut c_void) -> *mut c_void = same;
            }
            $crate::forward! { $prefix, "";
                "dereference_sym2" unsafe fn dereference_place(place: *mut *mut c_void) -> *mut c_void = get;
                "set_pointer_sym" unsafe fn set_pointer(place: *mut *mut c_void, new: *mut c_void) -> *mut c_void = set;
                "xchg_pointer_sym" unsafe fn xchg_pointer(place: *mut *mut c_void, new: *mut c_void) -> *mut c_void
                    = swap;
                "cmpxchg_pointer_sym" unsafe fn cmpxchg_pointer(
                    place: *mut *mut c_void, old: *mut c_void, new: *mut c_void) -> *mut c_void = compare_exchange;
            }
        };
    };
}

/// Loads a pointer.
///
/// # Safety
///
/// The place is valid and aligned.
pub unsafe fn get(place: *mut *mut c_void) -> *mut c_void {
    // Acquire: what it points to; pairs with the Release in `set`.
    // SAFETY: the caller's contract.
    unsafe { AtomicPtr::from_ptr(place) }.load(Acquire)
}

/// Publishes a pointer, and returns it.
///
/// # Safety
///
/// The place is valid and aligned.
pub unsafe fn set(place: *mut *mut c_void, new: *mut c_void) -> *mut c_void {
    // Release: publishes what it points to; pairs with the Acquire in `get`, and with the dependency of readers.
    // SAFETY: the caller's contract.
    unsafe { AtomicPtr::from_ptr(place) }.store(new, Release);
    new
}

/// Replaces a pointer. Returns the old one.
///
/// # Safety
///
/// The place is valid and aligned.
pub unsafe fn swap(place: *mut *mut c_void, new: *mut c_void) -> *mut c_void {
    // SeqCst: a full fence, as liburcu documents.
    // SAFETY: the caller's contract.
    unsafe { AtomicPtr::from_ptr(place) }.swap(new, SeqCst)
}

/// Replaces a pointer that is `old`. Returns what it was.
///
/// # Safety
///
/// The place is valid and aligned.
pub unsafe fn compare_exchange(place: *mut *mut c_void, old: *mut c_void, new: *mut c_void) -> *mut c_void {
    // SeqCst: as in `swap`.
    // SAFETY: the caller's contract.
    let result = unsafe { AtomicPtr::from_ptr(place) }.compare_exchange(old, new, SeqCst, SeqCst);
    result.unwrap_or_else(|now| now)
}
