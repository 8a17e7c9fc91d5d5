//! A drop-in replacement of `liburcu-qsbr.so.8`: readers report quiescent states. See `dropins/liburcu/README.md`.

#![cfg(target_arch = "x86_64")]

use stillpoint_urcu_core::inlined::InlinedProtocol;

stillpoint_urcu_core::gp!(urcu_qsbr_gp);
stillpoint_urcu_core::thread_reader!("urcu_qsbr_reader", "stillpoint_urcu_qsbr_self");
stillpoint_urcu_core::exports!(Qsbr, "qsbr", quiescent_state, thread_offline, thread_online);
stillpoint_urcu_core::constructor!(load);

/// The flavor of quiescent states.
#[derive(Debug)]
struct Qsbr;

impl InlinedProtocol for Qsbr {
    const FENCED: bool = false;
    const QSBR: bool = true;
    const TIMED: bool = false;
    const CLOSING_FENCE: bool = false;

    stillpoint_urcu_core::protocol_methods!(urcu_qsbr_gp);
}

impl Flavor for Qsbr {
    const NAME: &'static str = "liburcu-qsbr";

    stillpoint_urcu_core::flavor_methods!(register_thread, unregister_thread);
}

fn load() {
    flavor::load::<Qsbr>();
    fork::load::<Qsbr>();
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
    ENGINE.readers().quiescent_state(own());
}

#[unsafe(export_name = "urcu_qsbr_thread_offline")]
extern "C" fn thread_offline() {
    ENGINE.readers().report(own(), 0);
}

#[unsafe(export_name = "urcu_qsbr_thread_online")]
extern "C" fn thread_online() {
    ENGINE.readers().online(own());
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
