//! A drop-in replacement of `liburcu-bp.so.8`: threads register themselves, and readers may be in signal handlers.
//! See `dropins/liburcu/README.md`.

#![cfg(target_arch = "x86_64")]

mod arena;

use core::sync::atomic::AtomicU32;
use stillpoint_urcu_core::exports::nothing;
use stillpoint_urcu_core::flavor::SignalsBlocked;
use stillpoint_urcu_core::inlined::{InlinedProtocol, InlinedReader};

stillpoint_urcu_core::gp!(urcu_bp_gp);
stillpoint_urcu_core::zeros!(".globl", "urcu_bp_has_sys_membarrier", ".bss,\"aw\"", "4", "4");
stillpoint_urcu_core::zeros!(".globl", "urcu_bp_reader", ".tbss,\"awT\"", "8", "8");
stillpoint_urcu_core::thread_pointer!("urcu_bp_reader", "stillpoint_urcu_bp_self");
stillpoint_urcu_core::exports!(Bp, "bp", nothing, nothing, nothing);
stillpoint_urcu_core::section_exports!(Bp, "bp");
stillpoint_urcu_core::pointer_exports!("urcu_bp_");
stillpoint_urcu_core::constructor!(load);

unsafe extern "C" {
    safe static urcu_bp_has_sys_membarrier: AtomicU32;
}

/// The flavor that needs no registration.
#[derive(Debug)]
struct Bp;

impl InlinedProtocol for Bp {
    const FENCED: bool = true;
    const QSBR: bool = false;
    const TIMED: bool = true;
    const CLOSING_FENCE: bool = cfg!(not(target_arch = "x86_64"));

    stillpoint_urcu_core::protocol_methods!(urcu_bp_gp);
}

impl Flavor for Bp {
    const NAME: &'static str = "liburcu-bp";
    const IN_HANDLERS: bool = true;

    stillpoint_urcu_core::flavor_methods!(own, release);

    fn reset_in_child() {
        arena::reset_in_child(Self::own_if_any());
    }
}

/// Sets the thread's reader: for inlined code, and for this library.
fn set_own(own: *const InlinedReader) {
    // SAFETY: the thread's own variable, `urcu_bp_reader`.
    unsafe { *thread_address() = own };
    set_own_pointer(own);
}

#[inline(always)]
fn own<'a>() -> &'a InlinedReader {
    found_own().unwrap_or_else(register_own)
}

fn load() {
    init();
    arena::load();
    flavor::load::<Bp>();
    fork::load::<Bp>();
}

fn init() {
    urcu_bp_has_sys_membarrier.store(flavor::has_membarrier(), Relaxed);
}

/// Registers the calling thread, until it ends. May be called in a signal handler.
#[unsafe(export_name = "urcu_bp_register")]
extern "C" fn register() {
    register_own();
}

#[cold]
#[inline(never)]
fn register_own<'a>() -> &'a InlinedReader {
    let _blocked = SignalsBlocked::always();
    // A signal handler may have registered the thread.
    if let Some(own) = found_own() {
        return own;
    }
    init();
    let reader = arena::claim();
    flavor::register::<Bp>(reader);
    set_own(reader);
    arena::at_thread_exit(reader);
    reader
}

/// The reverse of [`register`].
fn release() {
    let _blocked = SignalsBlocked::always();
    if let Some(own) = found_own() {
        set_own(core::ptr::null());
        flavor::unregister::<Bp>(own);
        arena::release(own);
    }
}

#[unsafe(export_name = "urcu_bp_register_thread")]
extern "C" fn register_thread() {
    own();
}

/// Threads unregister when they end.
extern "C" fn unregister_thread() {}

#[unsafe(export_name = "urcu_bp_before_fork")]
extern "C" fn before_fork() {
    fork::block_signals();
    fork::announce();
}

#[unsafe(export_name = "urcu_bp_after_fork_parent")]
extern "C" fn after_fork_parent() {
    fork::unblock_in_parent();
}

#[unsafe(export_name = "urcu_bp_after_fork_child")]
extern "C" fn after_fork_child() {
    fork::repair_child::<Bp>();
    fork::unblock_in_child();
}

#[unsafe(export_name = "urcu_bp_exit")]
extern "C" fn exit() {}
