//! The time-slice extension of Linux 7.0 around a lock.
//!
//! A thread sets a request in its rseq area while it holds the lock. If its time slice ends then, the kernel lets it
//! run on for 5 us (`/sys/kernel/debug/rseq/slice_ext_nsec`), once. The thread gives back the rest when it has released
//! the lock. `Documentation/userspace-api/rseq.rst` of Linux has the protocol.
//!
//! The kernel needs `CONFIG_RSEQ_SLICE_EXTENSION`, and a registration of more than the 32 bytes of the first rseq
//! areas, with which older C libraries and our library register. So each thread registers an area of its own here,
//! which is possible if the C library does not register it: `GLIBC_TUNABLES=glibc.pthread.rseq=0`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::{io, thread};

use anyhow::{Context as _, bail, ensure};

use super::Lock;

/// Size and alignment of an area. The kernel demands at least 33 and 64 bytes in Linux 7.2.
const SIZE: usize = 64;
/// Offset of the request in an area. The kernel clears it when it grants an extension, and when it preempts the thread.
const REQUEST: usize = 28;
/// Offset of the grant. Only the kernel writes it.
const GRANTED: usize = 29;

/// Any number: no critical section is run in these areas.
const SIGNATURE: u32 = 0x5305_3053;

/// Sections that ran on in an extension, and sections in which the thread was preempted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) extended: u64,
    pub(crate) preempted: u64,
}

static EXTENDED: AtomicU64 = AtomicU64::new(0);
static PREEMPTED: AtomicU64 = AtomicU64::new(0);

/// Returns the counts since the last call.
pub(crate) fn take_counts() -> Counts {
    // Relaxed, both: statistics only.
    Counts { extended: EXTENDED.swap(0, Relaxed), preempted: PREEMPTED.swap(0, Relaxed) }
}

/// Returns an error with the reason if threads cannot have extensions here.
pub(crate) fn check() -> anyhow::Result<()> {
    thread::scope(|scope| scope.spawn(|| AREA.with(Area::extend)).join()).expect("no panic")
}

/// The rseq area of a thread.
#[repr(C, align(64))]
struct Area {
    bytes: [AtomicU8; SIZE],
    registered: Cell<bool>,
}

thread_local! {
    static AREA: Area =
        const { Area { bytes: [const { AtomicU8::new(0) }; SIZE], registered: Cell::new(false) } };
}

impl Area {
    /// Registers the calling thread.
    fn register(&self) -> anyhow::Result<()> {
        const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
        const AT_RSEQ_ALIGN: libc::c_ulong = 28;
        // SAFETY: reads the auxiliary vector.
        let (features, align) =
            unsafe { (libc::getauxval(AT_RSEQ_FEATURE_SIZE), libc::getauxval(AT_RSEQ_ALIGN)) };
        ensure!(features > GRANTED as u64, "the kernel has no time-slice extensions: Linux 7.0 has");
        ensure!(features.max(align) <= SIZE as u64, "an rseq area has {features} bytes here");
        self.call(0).context(
            "the kernel does not register the thread (with GLIBC_TUNABLES=glibc.pthread.rseq=0, glibc does not either)",
        )?;
        self.registered.set(true);
        Ok(())
    }

    /// Registers the calling thread, and enables extensions for it.
    fn extend(&self) -> anyhow::Result<()> {
        const PR_RSEQ_SLICE_EXTENSION: libc::c_int = 79;
        const SET: libc::c_ulong = 2;
        const ENABLE: libc::c_ulong = 1;
        self.register()?;
        // SAFETY: concerns the calling thread only.
        if unsafe { libc::prctl(PR_RSEQ_SLICE_EXTENSION, SET, ENABLE, 0_u64, 0_u64) } != 0 {
            let error = io::Error::last_os_error();
            bail!(
                "the kernel enables no time-slice extensions, as without CONFIG_RSEQ_SLICE_EXTENSION: {error}"
            );
        }
        Ok(())
    }

    /// `rseq(2)` with this area.
    fn call(&self, flags: libc::c_int) -> io::Result<()> {
        // SAFETY: the area lives until `drop` unregisters it. Its bytes are atomic.
        match unsafe { libc::syscall(libc::SYS_rseq, self.bytes.as_ptr(), SIZE, flags, SIGNATURE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    // Relaxed, in all of these: the kernel reads and writes the fields on the CPU of this thread.

    fn request(&self) {
        self.bytes[REQUEST].store(1, Relaxed);
    }

    fn is_granted(&self) -> bool {
        self.bytes[GRANTED].load(Relaxed) != 0
    }

    /// Counts what has happened since the request.
    fn count(&self) {
        if self.bytes[REQUEST].load(Relaxed) == 0 {
            let counter = if self.is_granted() { &EXTENDED } else { &PREEMPTED };
            // Relaxed: statistics only.
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Clears the request, and gives back the rest of an extension.
    fn finish(&self) {
        const SYS_RSEQ_SLICE_YIELD: libc::c_long = 471;
        self.bytes[REQUEST].store(0, Relaxed);
        if self.is_granted() {
            // SAFETY: takes nothing.
            unsafe { libc::syscall(SYS_RSEQ_SLICE_YIELD) };
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        const UNREGISTER: libc::c_int = 1;
        if self.registered.get() {
            self.call(UNREGISTER).expect("it is registered");
        }
    }
}

/// A lock that requests extensions for its holders. They are enabled only if `ENABLED`; otherwise the kernel clears the
/// request of a preempted thread, and does nothing more.
pub(crate) struct Sliced<L, const ENABLED: bool>(L);

impl<L: Lock, const ENABLED: bool> Lock for Sliced<L, ENABLED> {
    const NAME: &'static str = L::NAME;

    fn new() -> Self {
        Self(L::new())
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        AREA.with(|area| {
            if !area.registered.get() {
                if ENABLED { area.extend() } else { area.register() }.expect("checked before");
            }
            let result = self.0.with(|value| {
                area.request();
                let result = f(value);
                area.count();
                result
            });
            area.finish();
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_that_cannot_be_enabled_is_an_error() {
        match check() {
            Ok(()) => AREA.with(|area| assert!(area.extend().is_ok() && !area.is_granted())),
            Err(why) => assert!(why.to_string().contains("kernel"), "{why}"),
        }
    }
}
