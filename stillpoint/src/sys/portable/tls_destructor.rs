//! What a thread gives back when it ends: its variables have destructors.
//!
//! The standard library calls these in an order of its own, so other destructors of the thread may come later. Once
//! the variable is destroyed, they use another one, `late`, which has no destructor: what it stands for is not kept
//! between two uses. Where variables are keys (Android, `windows-gnu`), a destroyed variable is made again when it is
//! used, and destroyed once more.

use core::ffi::c_void;

/// A function that Linux runs at the end of each thread that arms it. Here the destructor of a variable does the
/// same.
#[derive(Debug)]
pub struct AtThreadExit;

impl AtThreadExit {
    pub const fn new(_: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self
    }

    /// Does nothing, and returns `true`.
    ///
    /// # Safety
    ///
    /// None. It is that of Linux.
    #[must_use]
    pub unsafe fn arm(&self, _: *mut c_void) -> bool {
        true
    }

    /// Does nothing: there is nothing to prepare.
    pub fn prepare(&self) {}
}

/// Calls `$f` with a variable of the calling thread, which begins as `$new`. Its destructor calls `$end`, which finds
/// the variable `$late`, as do later destructors of the thread.
#[doc(hidden)]
#[macro_export]
macro_rules! with_thread_variable {
    ($type:ty = $new:expr, late = $late:expr, end = $end:expr, $f:ident) => {{
        struct Ends($type);

        impl ::core::ops::Drop for Ends {
            fn drop(&mut self) {
                ($end)(&self.0);
            }
        }

        ::std::thread_local! {
            static VARIABLE: Ends = const { Ends($new) };
            static LATE: $type = const { $late };
        }
        let mut once = ::core::option::Option::Some($f);
        let mut call = |state: &$type| once.take().map(|f| f(state));
        match VARIABLE.try_with(|Ends(state)| call(state)).unwrap_or_else(|_| LATE.with(call)) {
            ::core::option::Option::Some(result) => result,
            ::core::option::Option::None => ::core::unreachable!(),
        }
    }};
}
