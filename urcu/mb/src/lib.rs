//! A drop-in replacement of `liburcu-mb.so.8`: readers and grace periods use full fences. See `urcu/README.md`.

#![cfg(target_arch = "x86_64")]

use std::time::Duration;

use stillpoint::urcu::{Gp, InlinedProtocol, InlinedReader};
use stillpoint_urcu_core::exports::nothing;

#[cfg(test)]
use stillpoint_urcu_self as _;

stillpoint_urcu_core::gp!("urcu_mb_gp");
stillpoint_urcu_core::thread_reader!("urcu_mb_reader", "stillpoint_urcu_mb_self");
stillpoint_urcu_core::exports!(Mb, "mb", nothing, nothing, nothing);
stillpoint_urcu_core::section_exports!(Mb, "mb");
stillpoint_urcu_core::registration_exports!(Mb, "mb");
stillpoint_urcu_core::constructor!(load);

unsafe extern "C" {
    safe static urcu_mb_gp: Gp;
}

/// The flavor of full fences.
#[derive(Debug)]
struct Mb;

impl InlinedProtocol for Mb {
    const FENCED: bool = false;
    const QSBR: bool = false;
    const TIMED: bool = false;
    const CLOSING_FENCE: bool = false;

    #[inline(always)]
    fn gp(&self) -> &Gp {
        &urcu_mb_gp
    }

    fn report_stall(&self, thread: u32, waited: Duration) {
        flavor::report_stall::<Self>(thread, waited);
    }
}

impl Flavor for Mb {
    const NAME: &'static str = "liburcu-mb";

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
    flavor::load::<Mb>();
}

#[unsafe(export_name = "urcu_mb_init")]
extern "C" fn init() {}

#[unsafe(export_name = "urcu_mb_exit")]
extern "C" fn exit() {}
