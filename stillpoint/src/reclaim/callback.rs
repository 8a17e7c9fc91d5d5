//! Something to do after a grace period: a call or a free, without its type, in three words.

use core::any::type_name;
use core::cell::Cell;
use core::mem::{self, MaybeUninit};
use core::ptr::NonNull;

/// A deferred call. Dropped without [`run`](Self::run), it leaks what it holds.
#[derive(Debug)]
pub struct Callback {
    run: unsafe fn(Data),
    data: Data,
    /// Bytes it stands for; below them, whether it is [plain](Self::is_free_only), and whether it is
    /// [local](Self::may_run_on_owner).
    bytes_and_flags: usize,
}

/// A pointer, or a closure of at most that size.
pub type Data = MaybeUninit<*mut ()>;

// SAFETY: made of values that are `Send` only.
unsafe impl Send for Callback {}

impl Callback {
    /// Drops the box that `value` comes from; counted as `bytes`. `local` says that its owner may do it.
    ///
    /// # Safety
    ///
    /// `value` comes from a `Box`, and nobody else frees it. When the entry runs, nobody uses it any more.
    #[inline]
    pub unsafe fn free<T: Send + 'static>(value: NonNull<T>, bytes: usize, local: bool) -> Self {
        /// # Safety
        ///
        /// `data` is a pointer from a `Box<T>` that nobody else has.
        unsafe fn free<T>(data: Data) {
            // SAFETY: the caller's contract.
            let value = unsafe { Box::from_raw(data.assume_init().cast::<T>()) };
            named("the destructor of a value retired", type_name::<T>, || drop(value));
        }
        let data = MaybeUninit::new(value.as_ptr().cast());
        let plain = !mem::needs_drop::<T>();
        let flags = if plain { PLAIN | LOCAL } else { usize::from(local) * LOCAL };
        Self { run: free::<T>, data, bytes_and_flags: bytes_and_flags(bytes) | flags }
    }

    /// Calls `f`; counted as `bytes` and what the closure itself takes.
    pub fn call<F: FnOnce() + Send + 'static>(f: F, bytes: usize) -> Self {
        /// # Safety
        ///
        /// `data` holds an `F`, which is not used again.
        unsafe fn call_inline<F: FnOnce()>(data: Data) {
            // SAFETY: the caller's contract.
            let f = unsafe { data.as_ptr().cast::<F>().read() };
            callback(f);
        }
        /// # Safety
        ///
        /// `data` is a pointer from a `Box<F>` that nobody else has.
        unsafe fn call_boxed<F: FnOnce()>(data: Data) {
            // SAFETY: the caller's contract.
            let f = unsafe { Box::from_raw(data.assume_init().cast::<F>()) };
            callback(*f);
        }
        let bytes_and_flags = bytes_and_flags(bytes.saturating_add(size_of::<F>()));
        let mut data = Data::uninit();
        if size_of::<F>() <= size_of::<Data>() && align_of::<F>() <= align_of::<Data>() {
            // SAFETY: it fits, and the place is aligned.
            unsafe { data.as_mut_ptr().cast::<F>().write(f) };
            return Self { run: call_inline::<F>, data, bytes_and_flags };
        }
        data.write(Box::into_raw(Box::new(f)).cast());
        Self { run: call_boxed::<F>, data, bytes_and_flags }
    }

    /// An entry of a model.
    ///
    /// # Safety
    ///
    /// `run` may be called with `data` once, after a grace period.
    #[cfg(loom)]
    pub unsafe fn from_parts(run: unsafe fn(Data), data: Data, bytes_and_flags: usize) -> Self {
        Self { run, data, bytes_and_flags }
    }

    /// Bytes it stands for.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes_and_flags >> FLAGS
    }

    /// Whether it only gives memory back: no code of the program runs.
    pub fn is_free_only(&self) -> bool {
        self.bytes_and_flags & PLAIN != 0
    }

    /// Whether the thread that deferred it may do it, at any point where it defers others: it is plain, or the program says so.
    pub fn may_run_on_owner(&self) -> bool {
        self.bytes_and_flags & LOCAL != 0
    }

    /// The same, but not local: no thread is the one that deferred it.
    pub fn for_anybody(self) -> Self {
        Self { bytes_and_flags: self.bytes_and_flags & !LOCAL, ..self }
    }

    /// Does it.
    ///
    /// # Safety
    ///
    /// A grace period has ended since the entry was made.
    pub unsafe fn run(self) {
        // SAFETY: `data` is what the function was stored with; `self` is consumed, so it is used once. For `free`, the
        // grace period: nobody uses the value any more.
        unsafe { (self.run)(self.data) }
    }
}

/// What code of the program has panicked, and the name of its type.
#[derive(Debug, Clone, Copy)]
pub struct Panicked {
    pub what: &'static str,
    pub name: &'static str,
}

thread_local! {
    static PANICKED: Cell<Option<Panicked>> = const { Cell::new(None) };
}

/// After a panic in an entry, or a [`callback`]: which one it was.
pub fn panicked() -> Option<Panicked> {
    PANICKED.take()
}

/// Calls `f`, code of the program. If that panics, [`panicked`] says what it was. The name is part of this function's code for each
/// type, so no entry holds it, and it costs nothing without a panic.
#[inline]
fn named(what: &'static str, name: fn() -> &'static str, f: impl FnOnce()) {
    struct Unwinds(&'static str, fn() -> &'static str);
    impl Drop for Unwinds {
        fn drop(&mut self) {
            PANICKED.set(Some(Panicked { what: self.0, name: self.1() }));
        }
    }
    let unwinds = Unwinds(what, name);
    f();
    mem::forget(unwinds);
}

/// Calls `f`, which was deferred.
fn callback<F: FnOnce()>(f: F) {
    named("a callback deferred", type_name::<F>, f);
}

const PLAIN: usize = 1;
const LOCAL: usize = 2;
const FLAGS: u32 = 2;

/// The most that an entry can stand for: the sum over all entries that memory has room for does not overflow.
const MOST: usize = 1 << 40;

/// The bytes, in the place of the bytes_and_flags where they belong.
#[inline(always)]
fn bytes_and_flags(bytes: usize) -> usize {
    bytes.min(MOST) << FLAGS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn closures_of_every_size_run_once_and_are_dropped_once() {
        let calls = Arc::new(AtomicUsize::new(0));
        let entries = || {
            let (small, large) = (Arc::clone(&calls), (Arc::clone(&calls), [7_u8; 100]));
            [
                Callback::call(move || _ = small.fetch_add(1, Relaxed), 0),
                Callback::call(move || _ = large.0.fetch_add(large.1[99].into(), Relaxed), 0),
            ]
        };
        // SAFETY: nobody reads anything.
        entries().into_iter().for_each(|entry| unsafe { entry.run() });
        assert_eq!(calls.load(Relaxed), 8);
        assert_eq!(Arc::strong_count(&calls), 1);
    }

    #[test]
    fn only_frees_without_destructors_are_plain() {
        fn free<T: Send + 'static>(value: T) -> Callback {
            // SAFETY: the value was never shared.
            unsafe { Callback::free(NonNull::from(Box::leak(Box::new(value))), 12, false) }
        }
        let entries = [free([1_u8; 3]), free(()), free(vec![1]), Callback::call(|| (), 12)];
        assert_eq!(entries.each_ref().map(Callback::is_free_only), [true, true, false, false]);
        assert_eq!(entries.each_ref().map(Callback::bytes), [12; 4]);
        // SAFETY: nobody reads anything.
        entries.into_iter().for_each(|entry| unsafe { entry.run() });
    }
}
