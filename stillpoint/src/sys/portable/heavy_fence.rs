//! The heavy fence of the system: `FlushProcessWriteBuffers` on Windows for x86. Elsewhere there is none.
//!
//! Windows interrupts each processor that runs the process, which is a full fence there. That is documented for all
//! writes; that later reads are not early either follows on x86 only, where an interrupt serializes.
//!
//! In Wine 8.0 the function does nothing, and it cannot report that. So the fence is not used in Wine, whose `ntdll`
//! has a function that tells it from Windows.

use core::fmt;

/// What is said of it if it works.
pub const WORKS: &str = "FlushProcessWriteBuffers works";

/// Why it is not available.
#[derive(Debug, Clone, Copy)]
pub enum Unavailable {
    #[cfg_attr(
        all(windows, any(target_arch = "x86", target_arch = "x86_64")),
        expect(dead_code, reason = "there is one")
    )]
    Missing,
    #[cfg(all(windows, any(target_arch = "x86", target_arch = "x86_64")))]
    Wine,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "this system has no process-wide fence that is known to suffice",
            #[cfg(all(windows, any(target_arch = "x86", target_arch = "x86_64")))]
            Self::Wine => "in Wine, FlushProcessWriteBuffers may do nothing",
        })
    }
}

/// Returns whether the fence is available.
#[cfg(all(windows, any(target_arch = "x86", target_arch = "x86_64")))]
pub fn register() -> Result<(), Unavailable> {
    use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};

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
#[cfg(all(windows, any(target_arch = "x86", target_arch = "x86_64")))]
pub fn execute() {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { windows_sys::Win32::System::Threading::FlushProcessWriteBuffers() };
}

/// Returns an error.
#[cfg(not(all(windows, any(target_arch = "x86", target_arch = "x86_64"))))]
pub fn register() -> Result<(), Unavailable> {
    Err(Unavailable::Missing)
}

/// Not to be called, as there is none.
#[cfg(not(all(windows, any(target_arch = "x86", target_arch = "x86_64"))))]
pub fn execute() {
    unreachable!("the backend cannot be chosen");
}
