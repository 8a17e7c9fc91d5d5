//! A drop-in replacement of `liburcu.so.8` and `liburcu-memb.so.8`: readers use compiler barriers, grace periods
//! `membarrier(2)`. See `dropins/liburcu/README.md`.

#![cfg(target_arch = "x86_64")]

use core::sync::atomic::AtomicU32;
use stillpoint_urcu_core::exports::nothing;
use stillpoint_urcu_core::inlined::InlinedProtocol;

stillpoint_urcu_core::gp!(urcu_memb_gp);
stillpoint_urcu_core::zeros!(".globl", "urcu_memb_has_sys_membarrier", ".bss,\"aw\"", "4", "4");
stillpoint_urcu_core::thread_reader!("urcu_memb_reader", "stillpoint_urcu_memb_self");
stillpoint_urcu_core::exports!(Memb, "memb", nothing, nothing, nothing);
stillpoint_urcu_core::section_exports!(Memb, "memb");
stillpoint_urcu_core::registration_exports!(Memb, "memb");
stillpoint_urcu_core::constructor!(load);

unsafe extern "C" {
    safe static urcu_memb_has_sys_membarrier: AtomicU32;
}

/// The flavor of `membarrier(2)`.
#[derive(Debug)]
struct Memb;

impl InlinedProtocol for Memb {
    const FENCED: bool = true;
    const QSBR: bool = false;
    const TIMED: bool = false;
    const CLOSING_FENCE: bool = cfg!(not(target_arch = "x86_64"));

    stillpoint_urcu_core::protocol_methods!(urcu_memb_gp);
}

impl Flavor for Memb {
    const NAME: &'static str = "liburcu-memb";

    stillpoint_urcu_core::flavor_methods!(register_thread, unregister_thread);
}

fn load() {
    init();
    flavor::load::<Memb>();
    fork::load::<Memb>();
}

/// Inlined readers use compiler barriers from now on, if the kernel has `membarrier(2)`. May be called again.
#[unsafe(export_name = "urcu_memb_init")]
extern "C" fn init() {
    urcu_memb_has_sys_membarrier.store(flavor::has_membarrier(), Relaxed);
}

#[unsafe(export_name = "urcu_memb_exit")]
extern "C" fn exit() {}
