//! A callback: a deferred call or a deferred free, without its type, in three words (on 64 bits).
//!
//! Each thread also lists here the callbacks that it runs, innermost first. A thread runs more than one where a
//! callback waits for callbacks of another domain that has no worker thread, and where it defers so much in another
//! domain that it runs some of that domain's callbacks. Wakers are listed for no domain: a thread that calls them is
//! no domain's worker.

use core::any::type_name;
use core::cell::Cell;
use core::mem::{self, MaybeUninit};
use core::ptr::{self, NonNull};
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::pointer::thin::ThinPtr;
use crate::probes::probe;
use crate::reclaim::pool;
use crate::sync::block_on;

/// See the [module](self). It leaks what it holds if it is dropped without [`run`](Self::run).
#[derive(Debug)]
pub struct Callback {
    /// With [`RAW`], an `unsafe fn(*mut ())` for the pointer in `data`.
    run: Run,
    data: Data,
    /// The bytes that count towards the limits; below them one less than what it counts as, and the flags from
    /// [`UNKNOWN`] to [`PUSH_ONLY`].
    weight_and_flags: u64,
}

/// A pointer, or a closure of at most that size.
pub type Data = MaybeUninit<*mut ()>;

/// Runs a callback, of which it gets the data. Returns what has panicked, if anything has. (A function, as it costs
/// nothing then without a panic, and no callback has to hold a name.)
pub type Run = unsafe fn(Data) -> Option<fn() -> Panicked>;

/// What code of the program has panicked, and the name of its type.
#[derive(Debug, Clone, Copy)]
pub struct Panicked {
    pub what: &'static str,
    pub name: &'static str,
}

/// It may free more than its bytes. Bit 0, as each push counts it.
const UNKNOWN: u64 = 1;
/// The thread that deferred it may run it.
const LOCAL: u64 = 2;
/// It calls a function of the program with a pointer.
const RAW: u64 = 4;
/// It runs no code of the program.
const FREE_ONLY: u64 = 8;
/// The pointer in `data` is that of a value, which hazard pointers may protect.
const VALUE: u64 = 16;
/// The call that defers it runs no others.
const PUSH_ONLY: u64 = 32;
/// Where the count begins, and where the bytes.
const COUNT: u32 = 6;
const BYTES: u32 = COUNT + 7;
/// The most that a callback counts as.
const MAX_COUNT: u64 = 1 << (BYTES - COUNT);
/// The most bytes of a callback: the sum over all callbacks that memory has room for does not overflow.
const MAX_BYTES: u64 = 1 << 40;

// SAFETY: made of values that are `Send`, or that the caller allows any thread to use.
unsafe impl Send for Callback {}

impl Callback {
    /// Drops the value and frees its memory; counted as `bytes` and what it owns on the `heap`, if that is known.
    /// `local`: the thread that deferred it may run the destructor.
    ///
    /// # Safety
    ///
    /// Any thread may drop the value, and it is not freed otherwise. When the callback runs, no
    /// thread uses it any more.
    #[inline]
    pub unsafe fn free<T: ?Sized>(value: ThinPtr<T>, bytes: usize, heap: Option<usize>, local: bool) -> Self {
        /// # Safety
        ///
        /// `data` is the only word of a value.
        unsafe fn free<T: ?Sized>(data: Data) -> Option<fn() -> Panicked> {
            // SAFETY: the caller's contract; the pointer is not null.
            let word = unsafe { NonNull::new_unchecked(data.assume_init()) };
            // SAFETY: as above.
            let drop = || drop(unsafe { ThinPtr::<T>::from_word(word).into_box() });
            if !mem::needs_drop::<T>() {
                // Nothing here panics, and catching would take as long as freeing.
                drop();
                return None;
            }
            let panicked = || Panicked { what: "the destructor of a value retired", name: type_name::<T>() };
            catch(drop, ptr::null(), panicked)
        }
        let data = MaybeUninit::new(value.word().as_ptr());
        let flags = if mem::needs_drop::<T>() { u64::from(local) * LOCAL } else { FREE_ONLY | LOCAL };
        Self { run: free::<T>, data, weight_and_flags: weight(bytes, heap) | flags | VALUE }
    }

    /// Calls `drop_fn` with `pointer`; counted as `bytes` and the `heap` bytes, if these are known. `local`: the
    /// thread that deferred it may call it.
    ///
    /// # Safety
    ///
    /// Any thread may call `drop_fn` with `pointer` once, after a grace period.
    #[inline]
    pub unsafe fn drop_raw(
        pointer: *mut (),
        bytes: usize,
        heap: Option<usize>,
        drop_fn: unsafe fn(*mut ()),
        local: bool,
    ) -> Self {
        // SAFETY: all pointers to functions have the same representation; `run` turns it back.
        let run = unsafe { mem::transmute::<unsafe fn(*mut ()), Run>(drop_fn) };
        let flags = RAW | VALUE | (u64::from(local) * LOCAL);
        Self { run, data: MaybeUninit::new(pointer), weight_and_flags: weight(bytes, heap) | flags }
    }

    /// Calls `f`; counted as the size of the closure itself and the `heap` bytes, if these are known.
    pub fn call<F: FnOnce() + Send + 'static>(f: F, heap: Option<usize>) -> Self {
        /// # Safety
        ///
        /// `data` holds an `F`, which is not used again.
        unsafe fn call_inline<F: FnOnce()>(data: Data) -> Option<fn() -> Panicked> {
            // SAFETY: the caller's contract.
            call(unsafe { data.as_ptr().cast::<F>().read() })
        }
        /// # Safety
        ///
        /// `data` is the only pointer from a `Box<F>`.
        unsafe fn call_boxed<F: FnOnce()>(data: Data) -> Option<fn() -> Panicked> {
            // SAFETY: the caller's contract.
            call(*unsafe { Box::from_raw(data.assume_init().cast::<F>()) })
        }
        fn call<F: FnOnce()>(f: F) -> Option<fn() -> Panicked> {
            catch(f, ptr::null(), || Panicked { what: "a callback deferred", name: type_name::<F>() })
        }
        let weight_and_flags = weight(size_of::<F>(), heap);
        let mut data = Data::uninit();
        if size_of::<F>() <= size_of::<Data>() && align_of::<F>() <= align_of::<Data>() {
            // SAFETY: `data` has the size and the alignment.
            unsafe { data.as_mut_ptr().cast::<F>().write(f) };
            return Self { run: call_inline::<F>, data, weight_and_flags };
        }
        data.write(Box::into_raw(Box::new(f)).cast());
        Self { run: call_boxed::<F>, data, weight_and_flags }
    }

    /// A callback of a model. `frees`: `data` is the pointer of a value.
    ///
    /// # Safety
    ///
    /// `run` may be called with `data` once, after a grace period.
    #[cfg(loom)]
    pub unsafe fn from_parts(run: Run, data: Data, local: bool, frees: bool) -> Self {
        let flags = [(local, LOCAL), (frees, VALUE)];
        Self { run, data, weight_and_flags: flags.iter().map(|(set, flag)| u64::from(*set) * flag).sum() }
    }

    /// Returns the bytes that count towards the limits.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.weight_and_flags >> BYTES
    }

    /// Returns how many callbacks it counts as.
    #[inline(always)]
    pub fn count(&self) -> u64 {
        (self.weight_and_flags >> COUNT) % MAX_COUNT + 1
    }

    /// The same callback, which counts as `count`, 1 until now. `push_only`: the call that defers it runs no others.
    #[inline(always)]
    pub fn counted(self, count: u8, push_only: bool) -> Self {
        let more = u64::from(count.saturating_sub(1)).min(MAX_COUNT - 1);
        let flag = u64::from(push_only) * PUSH_ONLY;
        Self { weight_and_flags: self.weight_and_flags | more << COUNT | flag, ..self }
    }

    /// Returns `true` if the call that defers it runs no others.
    #[inline(always)]
    pub fn is_push_only(&self) -> bool {
        self.weight_and_flags & PUSH_ONLY != 0
    }

    /// Returns `true` if it may free more than that.
    #[inline(always)]
    pub fn is_unknown(&self) -> bool {
        const { assert!(UNKNOWN == 1) };
        self.weight_and_flags & UNKNOWN != 0
    }

    /// Returns `true` if it only frees memory, and runs no code of the program.
    pub fn is_free_only(&self) -> bool {
        self.weight_and_flags & FREE_ONLY != 0
    }

    /// Returns `true` if the thread that deferred it may run it wherever it defers another: it only frees memory, or
    /// the program allows it.
    pub fn may_run_on_owner(&self) -> bool {
        self.weight_and_flags & LOCAL != 0
    }

    /// Returns the address of the value that it frees, if it is one.
    #[inline(always)]
    pub fn value(&self) -> Option<usize> {
        // SAFETY: made of a pointer.
        (self.weight_and_flags & VALUE != 0).then(|| unsafe { self.data.assume_init() }.addr())
    }

    /// Returns the address of the function that it calls.
    pub fn function(&self) -> usize {
        self.run as usize
    }

    /// The same callback for a queue whose owners vary: the worker must run it.
    pub fn for_worker(self) -> Self {
        Self { weight_and_flags: self.weight_and_flags & !LOCAL, ..self }
    }

    /// Does what was deferred. Returns what has panicked, if anything has.
    ///
    /// # Safety
    ///
    /// A grace period has ended since the callback was made.
    #[inline]
    pub unsafe fn run(self) -> Option<fn() -> Panicked> {
        if self.weight_and_flags & RAW != 0 {
            // SAFETY: `drop_raw` made it of such a function.
            let drop_fn = unsafe { mem::transmute::<Run, unsafe fn(*mut ())>(self.run) };
            let panicked = || Panicked { what: "a drop function", name: "of a raw pointer" };
            // SAFETY: the contract of `drop_raw`, and the grace period.
            return catch(|| unsafe { drop_fn(self.data.assume_init()) }, drop_fn as *const (), panicked);
        }
        // SAFETY: `data` is what the function was stored with, and used once, as `self` is consumed. For `free`, the
        // grace period: no thread uses the value any more.
        unsafe { (self.run)(self.data) }
    }
}

/// Calls `f`, code of the program: `function`, if that is all it does, or else null. Returns `panicked` if it panics,
/// which the panic hook has reported.
#[inline]
fn catch(f: impl FnOnce(), function: *const (), panicked: fn() -> Panicked) -> Option<fn() -> Panicked> {
    probe!(callback_start, panicked().name.as_ptr(), panicked().name.len(), function);
    let result = catch_unwind(AssertUnwindSafe(f));
    probe!(callback_end);
    let payload = result.err()?;
    // Its destructor could panic too.
    mem::forget(payload);
    Some(panicked)
}

/// The bytes, in their place above the flags.
#[inline(always)]
fn weight(bytes: usize, heap: Option<usize>) -> u64 {
    let unknown = if heap.is_none() { UNKNOWN } else { 0 };
    (bytes.saturating_add(heap.unwrap_or(0)) as u64).min(MAX_BYTES) << BYTES | unknown
}

thread_local! {
    /// What the calling thread runs, innermost first: a list on its stack.
    static INNERMOST: Cell<*const Running> = const { Cell::new(ptr::null()) };
}

/// A callback that runs on this thread, or wakers.
struct Running {
    /// The address of its domain; null for wakers.
    domain: *const (),
    outer: *const Running,
}

/// Calls wakers.
pub(super) fn wake_all(wakers: Vec<Waker>) {
    let _code = (!wakers.is_empty()).then(pool::in_code);
    let call = || block_on::wake_all(wakers);
    // The threads of a model share what belongs to a thread here.
    if cfg!(loom) { call() } else { listed(ptr::null(), call) }
}

/// Calls `f`, a callback of `domain`: an address that no other domain has until it returns.
pub(super) fn listed<R>(domain: *const (), f: impl FnOnce() -> R) -> R {
    let running = Running { domain, outer: INNERMOST.get() };
    INNERMOST.set(&raw const running);
    f()
}

impl Drop for Running {
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
    }
}

/// Returns `true` if the calling thread runs a callback of any domain, or wakers.
pub(crate) fn is_any_running() -> bool {
    !INNERMOST.get().is_null()
}

/// Returns `true` if the calling thread runs a callback of `domain`.
pub(crate) fn is_running(domain: *const ()) -> bool {
    let mut next = INNERMOST.get();
    // SAFETY: what is listed lies on this thread's stack, in a call of `listed` that has not returned.
    while let Some(running) = unsafe { next.as_ref() } {
        if running.domain == domain {
            return true;
        }
        next = running.outer;
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_frees_without_destructors_are_free_only() {
        fn free<T: Send + 'static>(value: T) -> Callback {
            // SAFETY: the value was never shared.
            unsafe { Callback::free(ThinPtr::new(Box::new(value)), 5, Some(7), false) }
        }
        let callbacks = [free([1_u8; 3]), free(()), free(vec![1]), Callback::call(|| (), Some(12))];
        assert_eq!(callbacks.each_ref().map(Callback::is_free_only), [true, true, false, false]);
        assert_eq!(callbacks.each_ref().map(Callback::bytes), [12; 4]);
        // SAFETY: there are no readers.
        callbacks.into_iter().for_each(|callback| unsafe { assert!(callback.run().is_none()) });
    }
}
