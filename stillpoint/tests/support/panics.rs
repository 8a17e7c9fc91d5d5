//! Panics as values.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Once;

/// The message of a panic.
pub fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).expect("a panic with a message")
}

thread_local! {
    /// The place of the last panic of this thread, and its message.
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Returns the place of the panic of `f` as `file:line`, and its message. Replaces the hook of the process.
pub fn panic_of(f: impl FnOnce()) -> (String, String) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_hook(Box::new(|info| {
            let place = info.location().expect("there always is one");
            let text = message(info.payload()).to_owned();
            eprintln!("panicked at {place}: {text}");
            PANIC.set(Some((format!("{}:{}", place.file(), place.line()), text)));
        }));
    });
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "no panic");
    PANIC.take().expect("the hook has run")
}
