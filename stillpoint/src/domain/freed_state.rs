//! Threads whose thread-local variables are freed before they end, as on targets where these are keys (Android, `windows-gnu`). Their
//! next section finds a new [`ThreadState`](super::static_domain::ThreadState), which knows of no reader, and so does
//! [`exit`](super::static_domain). The thread then takes back its reader by the pointer that is armed.
//!
//! *What is armed in a thread is its reader, and has not been released*: the reader is released only after `exit` has
//! begun, which is not armed any more then, and threads whose `exit` has begun do not arm again.

use core::ffi::c_void;

use super::static_domain::{StaticDomain, attach};
use crate::readers::sections::reader::Reader;

/// Takes back the reader that is armed in the calling thread, which has none. Returns `None` if there is none.
pub fn take_back<D: StaticDomain>(armed: *mut c_void) -> Option<&'static Reader> {
    // SAFETY: null, or a reader, as the domain arms; readers are never freed.
    let reader: &'static Reader = unsafe { armed.cast::<Reader>().as_ref() }?;
    // The child of a fork has the variables of a thread that it does not have, and a fiber may have come from another
    // thread, with what that has armed.
    if !reader.belongs_to(crate::sys::thread::tid().unsigned_abs()) {
        return None;
    }
    let registry = D::shared().readers().registry();
    D::with_thread_state(|local| {
        local.registration.take_back(registry, reader, crate::fence::fast_path_suffices());
        attach::<D>(local, reader);
    });
    Some(reader)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::Domain;
    use crate::domain::static_domain::{ThreadState, registered_reader};
    use crate::rcu::RcuDomain;

    /// As a target does that frees the state of a thread whose destructors still run.
    fn free_state<D: StaticDomain>() {
        D::with_thread_state(|local| {
            let state = core::ptr::from_ref::<ThreadState>(local).cast_mut();
            // SAFETY: the thread's own, which has no destructor, and to which there is no other reference.
            unsafe { state.write(ThreadState::new()) };
        });
    }

    #[test]
    fn thread_whose_state_is_freed_gives_its_reader_back() {
        crate::domain! { struct Own; }
        let end = |reads_again: bool| {
            thread::spawn(move || {
                drop(Own::enter());
                let reader = registered_reader::<Own>().expect("registered");
                free_state::<Own>();
                assert!(registered_reader::<Own>().is_none());
                if reads_again {
                    drop(Own::enter());
                    assert!(core::ptr::eq(registered_reader::<Own>().expect("registered"), reader));
                    free_state::<Own>();
                }
            })
            .join()
            .expect("no panic");
        };
        (0..10).for_each(|round| end(round % 2 == 0));
        assert_eq!(Own.stats().readers, 1, "each thread uses the reader of the one before");
        Own.synchronize();
    }
}
