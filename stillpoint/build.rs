//! Finds out whether the compiler knows what the library uses where it can.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(asm_goto)");
    // Labels as operands of `asm!`.
    if minor_version().is_some_and(|minor| minor >= 87) {
        println!("cargo::rustc-cfg=asm_goto");
    }
}

/// Returns the minor version of the compiler: 95 of `rustc 1.95.0 (59807616e 2026-04-14)`.
fn minor_version() -> Option<u32> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}
