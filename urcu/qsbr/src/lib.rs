//! A drop-in replacement of `liburcu-qsbr.so.8`: readers report quiescent states. See `urcu/README.md`.

#![cfg(target_arch = "x86_64")]

use std::time::Duration;

use stillpoint::urcu::{Gp, InlinedProtocol, InlinedReader};

#[cfg(test)]
use stillpoint_urcu_self as _;

stillpoint_urcu_core::gp!("urcu_qsbr_gp");
stillpoint_urcu_core::thread_reader!("urcu_qsbr_reader", "stillpoint_urcu_qsbr_self");
stillpoint_urcu_core::exports!(Qsbr, "qsbr", quiescent_state, thread_offline, thread_online);
stillpoint_urcu_core::constructor!(load);

unsafe extern "C" {
    safe static urcu_qsbr_gp: Gp;
}

/// The flavor of quiescent states.
#[derive(Debug)]
struct Qsbr;

impl InlinedProtocol for Qsbr {
    const FENCED: bool = false;
    const QSBR: bool = true;
    const TIMED: bool = false;
    const CLOSING_FENCE: bool = false;

    #[inline(always)]
    fn gp(&self) -> &Gp {
        &urcu_qsbr_gp
    }

    fn report_stall(&self, thread: u32, waited: Duration) {
        flavor::report_stall::<Self>(thread, waited);
    }
}

impl Flavor for Qsbr {
    const NAME: &'static str = "liburcu-qsbr";

    fn domain() -> &'static Domain<Self> {
        &DOMAIN
    }

    #[inline(always)]
    fn own<'a>() -> &'a InlinedReader {
        own()
    }

    fn own_if_any<'a>() -> Option<&'a InlinedReader> {
        found_own()
    }

    fn register_thread() {
        register_thread();
    }

    fn unregister_thread() {
        unregister_thread();
    }
}

fn load() {
    flavor::load::<Qsbr>();
}

#[unsafe(export_name = "urcu_qsbr_read_lock")]
extern "C" fn read_lock() {}

#[unsafe(export_name = "urcu_qsbr_read_unlock")]
extern "C" fn read_unlock() {}

/// Returns 1 if the calling thread is online.
#[unsafe(export_name = "urcu_qsbr_read_ongoing")]
extern "C" fn read_ongoing() -> c_int {
    (own().ctr.load(Relaxed) != 0).into()
}

#[unsafe(export_name = "urcu_qsbr_quiescent_state")]
extern "C" fn quiescent_state() {
    DOMAIN.readers().quiescent_state(own());
}

#[unsafe(export_name = "urcu_qsbr_thread_offline")]
extern "C" fn thread_offline() {
    DOMAIN.readers().report(own(), 0);
}

#[unsafe(export_name = "urcu_qsbr_thread_online")]
extern "C" fn thread_online() {
    DOMAIN.readers().online(own());
}

#[unsafe(export_name = "urcu_qsbr_register_thread")]
extern "C" fn register_thread() {
    let own = own();
    flavor::register::<Qsbr>(own);
    // For the assertions of inlined code: `registered`.
    own.tail[1].store(1, Relaxed);
    thread_online();
}

#[unsafe(export_name = "urcu_qsbr_unregister_thread")]
extern "C" fn unregister_thread() {
    thread_offline();
    let own = own();
    own.tail[1].store(0, Relaxed);
    flavor::unregister::<Qsbr>(own);
}

#[unsafe(export_name = "urcu_qsbr_exit")]
extern "C" fn exit() {}
