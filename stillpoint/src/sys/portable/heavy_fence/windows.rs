//! `FlushProcessWriteBuffers`. Windows interrupts each processor that runs the process, which is a full fence there. That
//! is documented for all writes; that later reads are not early either follows on x86 only, where an interrupt serializes.
//!
//! In Wine 8.0 the function does nothing, and it cannot report that. So the fence is not used in Wine, whose `ntdll`
//! has a function that tells it from Windows.

use core::fmt;

use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
use windows_sys::Win32::System::Threading::FlushProcessWriteBuffers;

pub const EXISTS: bool = true;

pub const WORKS: &str = "FlushProcessWriteBuffers works";

#[derive(Debug, Clone, Copy)]
pub enum Unavailable {
    Wine,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("in Wine, FlushProcessWriteBuffers may do nothing")
    }
}

/// Returns whether the fence is available.
pub fn register() -> Result<(), Unavailable> {
    // SAFETY: the names are C strings, and the library stays loaded.
    let is_wine = unsafe {
        let ntdll = GetModuleHandleA(c"ntdll.dll".as_ptr().cast());
        !ntdll.is_null() && GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast()).is_some()
    };
    if is_wine {
        return Err(Unavailable::Wine);
    }
    execute();
    Ok(())
}

/// Executes a full fence on every running thread of the process.
pub fn execute() {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { FlushProcessWriteBuffers() };
}
