//! The stack of the library's threads, which run destructors and callbacks of the program.
//!
//! A destructor may recurse, and must get as far in a worker as on the thread that might have run it: the main
//! thread, whose stack `RLIMIT_STACK` bounds, or a thread of `std`, which heeds `RUST_MIN_STACK`. Pages that are not
//! touched take address space only.

/// Bytes at least, as in `std::thread`.
pub const LEAST: usize = 2 << 20;
/// Bytes at most because of `RLIMIT_STACK`, which may be unlimited. Each domain that has something to do has a
/// thread, so a thousand of them take 64 GiB of address space, and as much memory where `mlockall` locks it.
const MOST_BY_LIMIT: u64 = 64 << 20;

/// Returns the size of a new thread's stack.
pub fn size() -> usize {
    // SAFETY: plain data.
    let mut limit: libc::rlimit = unsafe { core::mem::zeroed() };
    // SAFETY: `limit` outlives the call.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) };
    #[allow(clippy::unnecessary_cast, reason = "not on all systems")]
    let by_limit = (limit.rlim_cur as u64).min(MOST_BY_LIMIT) as usize;
    let parse = |value: Option<&[u8]>| core::str::from_utf8(value?).ok()?.parse().ok();
    LEAST.max(by_limit).max(super::with_variable(c"RUST_MIN_STACK", parse).unwrap_or(0))
}
