//! Finds out whether the compiler knows what the library uses where it can, and whether the system is 64-bit Linux.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(asm_goto)");
    // Labels as operands of `asm!`.
    if minor_version().is_some_and(|minor| minor >= 87) {
        println!("cargo::rustc-cfg=asm_goto");
    }
    // Elsewhere, or as `--cfg stillpoint_portable` asks.
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    if !(is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")) {
        println!("cargo::rustc-cfg=stillpoint_portable");
    }
}

/// Returns the minor version of the compiler: 95 of `rustc 1.95.0 (59807616e 2026-04-14)`.
fn minor_version() -> Option<u32> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}
