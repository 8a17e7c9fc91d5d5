//! `FlushProcessWriteBuffers`. Windows interrupts each processor that runs the process, which is a full fence there.
//! That is documented for all writes; that later reads are not early either follows on x86 only, where an interrupt
//! serializes.
//!
//! In Wine 8.0 the function does nothing, and it cannot report that. So the fence is not used in Wine, whose `ntdll`
//! has a function that tells it from Windows.

use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
use windows_sys::Win32::System::Threading::FlushProcessWriteBuffers;

use super::Reason;

pub const EXISTS: bool = true;

/// Returns whether the fence is available, with the reason.
pub fn register() -> Result<Reason, Reason> {
    // SAFETY: the names are C strings, and the library stays loaded.
    let is_wine = unsafe {
        let ntdll = GetModuleHandleA(c"ntdll.dll".as_ptr().cast());
        !ntdll.is_null() && GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast()).is_some()
    };
    if is_wine {
        return Err(Reason("in Wine, FlushProcessWriteBuffers may do nothing", 0));
    }
    execute();
    Ok(Reason("FlushProcessWriteBuffers works", 0))
}

/// Executes a full fence on every running thread of the process.
pub fn execute() {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { FlushProcessWriteBuffers() };
}

/// Returns `false`: there is no such fence.
pub fn execute_quietly() -> bool {
    false
}
