//! Memory that other processes find by a link in `/proc/PID/fd`, and read from there.
//!
//! It is a file without a name in any folder (`memfd_create(2)`), mapped here. It is sealed: no process can change
//! its size, so no access is outside of it, and its memory is allocated at once, as a page that is missing later
//! would be a signal.
//!
//! The program may close the descriptor, as daemons close all that they find, and open a file that gets the same
//! number. So the memory is written by the mapping only, and the descriptor is closed only if it still belongs to
//! this file. The child of a fork has the descriptor but not the mapping; a program that is executed has neither.

use core::ffi::{CStr, c_int};
use core::mem::{self, ManuallyDrop};
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU64;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

/// See the [module](self).
#[derive(Debug)]
pub struct SharedPage {
    /// The number of a descriptor that the program may have closed, and the file that it belonged to.
    descriptor: c_int,
    file: FileId,
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: lends atomics only; the mapping may be removed by any thread.
unsafe impl Send for SharedPage {}

impl SharedPage {
    /// Makes memory of so many words, all 0, with a name in `/proc`.
    pub fn create(name: &CStr, words: usize) -> io::Result<Self> {
        if cfg!(miri) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // A kernel may insist on the last flag, or not know it (before 6.3).
        let file =
            make_file(name, flags | libc::MFD_NOEXEC_SEAL).or_else(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => make_file(name, flags),
                _ => Err(error),
            })?;
        let (number, bytes) = (file.as_raw_fd(), words * size_of::<AtomicU64>());
        // SAFETY: plain data, which outlives the call, which cannot fail.
        let limit = unsafe {
            let mut limit: libc::rlimit = mem::zeroed();
            libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit);
            limit.rlim_cur
        };
        // The kernel would send a signal that ends the program, `SIGXFSZ`.
        if limit < bytes as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: no pointers, and the file is open.
        unsafe {
            checked(libc::fallocate(number, 0, 0, bytes as libc::off_t))?;
            checked(libc::fcntl(number, libc::F_ADD_SEALS, seals))?;
        }
        let id = file_of(number)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, number, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("a mapping is not at address 0");
        let page = Self { descriptor: file.into_raw_fd(), file: id, start, words };
        // SAFETY: the mapping, which only this value uses.
        checked(unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTFORK) })?;
        Ok(page)
    }

    /// Returns the memory.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, is as long as the file, which is sealed, and lives as long as
        // `self`. Other processes may change it only by ignoring that it is this one's; the words are atomic, and
        // nothing here relies on what they contain.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Returns `true` if other processes can find it: the program has not closed the descriptor.
    pub fn is_open(&self) -> bool {
        file_of(self.descriptor).is_ok_and(|file| file == self.file)
    }

    /// Closes the descriptor if it is open. Called once.
    fn close(&self) {
        if self.is_open() {
            // SAFETY: it belongs to the file, and so to this value.
            drop(unsafe { OwnedFd::from_raw_fd(self.descriptor) });
        }
    }

    /// Closes the descriptor, in the child of a fork, which has no mapping.
    pub fn close_in_child(self) {
        ManuallyDrop::new(self).close();
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping, of which there is no reference any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
        self.close();
    }
}

/// `memfd_create(2)`, which the oldest C libraries lack.
fn make_file(name: &CStr, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string, which outlives the call.
    let file = checked(unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), flags) } as c_int)?;
    // SAFETY: a new descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// Returns what the C library has returned, or its error.
fn checked(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Device and inode.
type FileId = (libc::dev_t, libc::ino_t);

/// Returns what the number belongs to, if it is open.
fn file_of(number: c_int) -> io::Result<FileId> {
    // SAFETY: plain data.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: `status` outlives the call, which returns an error if the number is not open.
    checked(unsafe { libc::fstat(number, &mut status) })?;
    Ok((status.st_dev, status.st_ino))
}
