//! Domains: separate worlds of readers and grace periods, told apart by type.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::*;
use std::io::Write;

use super::deferred::Deferred;
use super::engine::{Engine, Orphaned, Stats};
use super::guard::Guard;
use super::reader::{FENCED, Reader};
use crate::sys::at_exit::AtThreadExit;

/// A domain: readers, and the grace periods that wait for them and for nobody else.
///
/// Most programs need only [`Global`], which the functions of [`crate::rcu`] use. A domain of its own, made by
/// [`domain!`](crate::domain), keeps the long sections of one part of a program from delaying another part. It is a type
/// without data: a guard of one domain does not open a pointer of another, at no cost at run time.
///
/// ```
/// use stillpoint::rcu::{Domain, Rcu};
///
/// stillpoint::domain! {
///     /// Routing tables.
///     pub struct Routes;
/// }
///
/// let table = Rcu::new_in(vec![1, 2, 3], Routes);
/// let guard = Routes::enter();
/// assert_eq!(table.load(&guard).len(), 3);
/// ```
///
/// A guard of the wrong domain is refused by the compiler:
///
/// ```compile_fail,E0308
/// use stillpoint::rcu::{self, Rcu};
///
/// stillpoint::domain! { pub struct Routes; }
///
/// let table = Rcu::new_in(vec![1, 2, 3], Routes);
/// let guard = rcu::enter();
/// table.load(&guard);
/// ```
///
/// # Safety
///
/// Implemented by [`domain!`](crate::domain) only, which gives each type its own state.
pub unsafe trait Domain: Sized + 'static {
    #[doc(hidden)]
    fn shared() -> &'static Shared;

    #[doc(hidden)]
    fn with_local<R>(f: impl FnOnce(&Local) -> R) -> R;

    /// Begins a read-side section: see [`rcu::enter`](super::enter).
    #[inline]
    fn enter() -> Guard<Self> {
        let reader = Self::with_local(|local| local.fast.get());
        if reader.try_enter(Self::shared().engine.counter()) {
            Guard::new(reader)
        } else if !ptr::eq(reader, &NOBODY) {
            reader.nest();
            Guard::new(reader)
        } else {
            enter_slow()
        }
    }

    /// Waits for a grace period: see [`rcu::synchronize`](super::synchronize).
    fn synchronize() {
        if let Err(Orphaned) = try_synchronize::<Self>() {
            panic!(
                "synchronize() would wait for ever: a thread ended inside a read-side section of this domain \
                 (its guard was leaked)"
            );
        }
    }

    /// Registers the calling thread now: see [`rcu::register`](super::register).
    fn register() {
        own_reader::<Self>();
    }

    /// Whether the calling thread is inside a section.
    fn is_inside() -> bool {
        registered_reader::<Self>().is_some_and(Reader::is_inside)
    }

    /// Counters since the start of the process.
    fn stats() -> Stats {
        Self::shared().engine.stats()
    }
}

/// What all threads share of a domain.
#[doc(hidden)]
#[derive(Debug)]
pub struct Shared {
    pub(super) engine: Engine,
    pub(super) deferred: Deferred,
    at_exit: AtThreadExit,
}

impl Shared {
    pub const fn new<D: Domain>() -> Self {
        Self { engine: Engine::new(), deferred: Deferred::new(), at_exit: AtThreadExit::new(part::<D>) }
    }
}

/// What a thread knows of a domain.
#[doc(hidden)]
#[derive(Debug)]
pub struct Local {
    /// This thread's reader, if the backend's light fence is a compiler fence in every thread; else [`NOBODY`], which never lets
    /// anybody enter the fast way.
    fast: Cell<&'static Reader>,
    /// This thread's reader.
    reader: Cell<Option<&'static Reader>>,
}

static NOBODY: Reader = Reader::always_inside();

impl Local {
    pub const fn new() -> Self {
        Self { fast: Cell::new(&NOBODY), reader: Cell::new(None) }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

/// Begins a section in a thread that is not registered, or in which a light fence is a real one.
#[cold]
fn enter_slow<D: Domain>() -> Guard<D> {
    let reader = own_reader::<D>();
    if !reader.try_enter(D::shared().engine.counter()) {
        reader.nest();
    }
    // A real fence, or the backend's reason why a compiler fence will do.
    crate::fence::light();
    Guard::new(reader)
}

fn registered_reader<D: Domain>() -> Option<&'static Reader> {
    D::with_local(|local| local.reader.get())
}

/// The calling thread's reader; registers the thread if need be.
fn own_reader<D: Domain>() -> &'static Reader {
    registered_reader::<D>().unwrap_or_else(register::<D>)
}

#[cold]
fn register<D: Domain>() -> &'static Reader {
    let shared = D::shared();
    let registry = shared.engine.registry();
    // Chooses the backend of the fence, before this thread can be a reader.
    crate::fence::register_thread();
    let light_is_free = crate::fence::backend() == crate::fence::Backend::Membarrier;
    let Ok(reader) = registry.claim() else {
        panic!("out of memory: cannot register a reader thread");
    };
    if let Some(reader_of_handler) = registered_reader::<D>() {
        // A signal handler on this thread was faster.
        registry.release(reader);
        return reader_of_handler;
    }
    // SAFETY: `part` wants a reader that belongs to this thread, from now until it is called.
    if !unsafe { shared.at_exit.arm(ptr::from_ref(reader).cast_mut().cast()) } {
        registry.release(reader);
        panic!("cannot register a reader thread: no thread-specific data key or memory left");
    }
    if light_is_free {
        reader.attention.fetch_and(!FENCED, Relaxed);
    } else {
        reader.attention.fetch_or(FENCED, Relaxed);
    }
    D::with_local(|local| {
        local.reader.set(Some(reader));
        local.fast.set(if light_is_free { reader } else { &NOBODY });
    });
    reader
}

/// The end of a registered thread.
///
/// # Safety
///
/// `reader` is the calling thread's.
unsafe extern "C" fn part<D: Domain>(reader: *mut c_void) {
    // SAFETY: the reader comes from `register`; readers are never freed.
    let reader: &'static Reader = unsafe { &*reader.cast::<Reader>() };
    // Destructors that still run and read register the thread anew.
    D::with_local(|local| {
        local.reader.set(None);
        local.fast.set(&NOBODY);
    });
    if !D::shared().engine.part(reader) {
        let tid = crate::sys::signal::tid();
        let domain = core::any::type_name::<D>();
        // Not `eprintln!`, which panics if it cannot write.
        let _ = writeln!(
            std::io::stderr(),
            "stillpoint: thread {tid} ends inside a read-side section of {domain} (a guard was leaked): \
             grace periods of this domain cannot be completed until that is dropped"
        );
    }
}

/// Waits for a grace period.
///
/// # Panics
///
/// Inside a section of the domain.
pub(super) fn try_synchronize<D: Domain>() -> Result<(), Orphaned> {
    let own = registered_reader::<D>();
    assert!(
        !own.is_some_and(Reader::is_inside),
        "synchronize() inside a read-side section of the same domain would wait for itself: drop the guard first"
    );
    D::shared().engine.synchronize(own)
}

/// Defines an isolated [`Domain`](crate::rcu::Domain): a type without data, with readers and grace periods of its own.
///
/// ```
/// use stillpoint::rcu::Domain;
///
/// stillpoint::domain! {
///     /// Sessions of the connection table.
///     pub struct Sessions;
/// }
///
/// drop(Sessions::enter());
/// Sessions::synchronize();
/// ```
#[macro_export]
macro_rules! domain {
    ($(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $name;

        // SAFETY: the statics below belong to this type alone.
        unsafe impl $crate::rcu::Domain for $name {
            #[inline(always)]
            fn shared() -> &'static $crate::rcu::Shared {
                static SHARED: $crate::rcu::Shared = $crate::rcu::Shared::new::<$name>();
                &SHARED
            }

            #[inline(always)]
            fn with_local<R>(f: impl FnOnce(&$crate::rcu::Local) -> R) -> R {
                ::std::thread_local! {
                    static LOCAL: $crate::rcu::Local = const { $crate::rcu::Local::new() };
                }
                LOCAL.with(f)
            }
        }
    };
}

crate::domain! {
    /// The domain of the functions of [`crate::rcu`].
    pub struct Global;
}
