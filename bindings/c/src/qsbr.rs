//! Threads that report quiescent states.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::ManuallyDrop;

use stillpoint::qsbr::Handle;

use crate::boundary::{self, Error, misuse};

/// What the calling thread has.
#[derive(Debug)]
enum State {
    Unregistered,
    Offline,
    /// Not dropped when the thread exits, as the program may have leaked references with it: the thread then blocks
    /// grace periods, and is reported.
    Online(ManuallyDrop<Handle>),
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Unregistered) };
}

/// Calls `f` with the state, and keeps what it leaves.
fn with_state(f: impl FnOnce(&mut State) -> Result<(), Error>) -> c_int {
    boundary::run(|| {
        // The signal handlers that may interrupt this must not call functions of this file.
        let mut state = STATE.replace(State::Unregistered);
        let result = f(&mut state);
        STATE.set(state);
        result
    })
}

fn online() -> Result<State, Error> {
    match Handle::try_register() {
        Ok(handle) => Ok(State::Online(ManuallyDrop::new(handle))),
        Err(None) => Err(Error(libc::EBUSY)),
        Err(Some(_)) => Err(Error(libc::ENOMEM)),
    }
}

/// Drops the handle of a thread that is online.
fn offline(state: &mut State) {
    if let State::Online(handle) = core::mem::replace(state, State::Offline) {
        drop(ManuallyDrop::into_inner(handle));
    }
}

/// Registers the calling thread, which is then online.
#[unsafe(no_mangle)]
pub extern "C" fn sp_qsbr_register() -> c_int {
    with_state(|state| match state {
        State::Unregistered => {
            *state = online()?;
            Ok(())
        }
        _ => Err(Error(libc::EBUSY)),
    })
}

/// Unregisters the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn sp_qsbr_unregister() -> c_int {
    with_state(|state| {
        if let State::Unregistered = state {
            return Err(misuse("sp_qsbr_unregister", "by a thread that is not registered", libc::EPERM));
        }
        offline(state);
        *state = State::Unregistered;
        Ok(())
    })
}

/// Reports a quiescent state.
#[unsafe(no_mangle)]
pub extern "C" fn sp_qsbr_quiescent() -> c_int {
    with_state(|state| match state {
        State::Online(handle) => {
            handle.quiescent();
            Ok(())
        }
        _ => Err(misuse("sp_qsbr_quiescent", "by a thread that is not online", libc::EPERM)),
    })
}

/// Takes the calling thread offline.
#[unsafe(no_mangle)]
pub extern "C" fn sp_qsbr_offline() -> c_int {
    with_state(|state| match state {
        State::Unregistered => {
            Err(misuse("sp_qsbr_offline", "by a thread that is not registered", libc::EPERM))
        }
        _ => {
            offline(state);
            Ok(())
        }
    })
}

/// Takes the calling thread online again.
#[unsafe(no_mangle)]
pub extern "C" fn sp_qsbr_online() -> c_int {
    with_state(|state| match state {
        State::Unregistered => {
            Err(misuse("sp_qsbr_online", "by a thread that is not registered", libc::EPERM))
        }
        State::Offline => {
            *state = online()?;
            Ok(())
        }
        State::Online(_) => Ok(()),
    })
}
