//! A drop-in replacement of `liburcu-mb.so.8`: readers and grace periods use full fences. See
//! `dropins/liburcu/README.md`.

#![cfg(target_arch = "x86_64")]

use stillpoint_urcu_core::exports::nothing;
use stillpoint_urcu_core::inlined::InlinedProtocol;

stillpoint_urcu_core::gp!(urcu_mb_gp);
stillpoint_urcu_core::thread_reader!("urcu_mb_reader", "stillpoint_urcu_mb_self");
stillpoint_urcu_core::exports!(Mb, "mb", nothing, nothing, nothing);
stillpoint_urcu_core::section_exports!(Mb, "mb");
stillpoint_urcu_core::registration_exports!(Mb, "mb");
stillpoint_urcu_core::constructor!(load);

/// The flavor of full fences.
#[derive(Debug)]
struct Mb;

impl InlinedProtocol for Mb {
    const FENCED: bool = false;
    const QSBR: bool = false;
    const TIMED: bool = false;
    const CLOSING_FENCE: bool = false;

    stillpoint_urcu_core::protocol_methods!(urcu_mb_gp);
}

impl Flavor for Mb {
    const NAME: &'static str = "liburcu-mb";

    stillpoint_urcu_core::flavor_methods!(register_thread, unregister_thread);
}

fn load() {
    flavor::load::<Mb>();
    fork::load::<Mb>();
}

#[unsafe(export_name = "urcu_mb_init")]
extern "C" fn init() {}

#[unsafe(export_name = "urcu_mb_exit")]
extern "C" fn exit() {}
