//! Stall reports.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::{mem, ptr};
use std::ffi::CString;
use std::time::Duration;

use stillpoint::rcu::{self, Stall, StalledReader, foreign};

use crate::boundary;
use crate::domain::nanoseconds;

/// `struct sp_stalled_reader`.
#[derive(Debug)]
#[repr(C)]
pub struct CReader {
    thread_id: u32,
    has_exited: u32,
    thread_name: *const c_char,
}

/// `struct sp_stall`.
#[derive(Debug)]
#[repr(C)]
pub struct CStall {
    domain: *const c_char,
    grace_period: u64,
    waited_ns: u64,
    readers: *const CReader,
    reader_count: usize,
    sections: u64,
    text: *const c_char,
}

// As the header says.
const _: () = assert!(size_of::<CReader>() == 16 && size_of::<CStall>() == 56);

type Hook = unsafe extern "C-unwind" fn(*const CStall, *mut c_void);

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Calls the hook. `words` are the addresses of the function and of its argument.
fn call(stall: &Stall, words: [usize; 2]) {
    let [hook, argument] = words.map(ptr::with_exposed_provenance_mut::<c_void>);
    // SAFETY: `sp_set_stall_hook` has stored it.
    let hook = unsafe { mem::transmute::<*mut c_void, Hook>(hook) };
    let names: Vec<_> = stall.readers().iter().map(|reader| reader.thread_name().map(c_string)).collect();
    let reader = |(reader, name): (&StalledReader, &Option<CString>)| CReader {
        thread_id: reader.thread_id(),
        has_exited: reader.has_exited().into(),
        thread_name: name.as_deref().map_or(ptr::null(), CStr::as_ptr),
    };
    let readers: Vec<_> = stall.readers().iter().zip(&names).map(reader).collect();
    let (domain, text) = (c_string(stall.domain()), c_string(&stall.to_string()));
    let stall = CStall {
        domain: domain.as_ptr(),
        grace_period: stall.grace_period(),
        waited_ns: nanoseconds(stall.waited()),
        readers: readers.as_ptr(),
        reader_count: readers.len(),
        sections: stall.sections(),
        text: text.as_ptr(),
    };
    // SAFETY: the contract of `sp_set_stall_hook`.
    unsafe { hook(&raw const stall, argument) };
}

/// Sets the hook; null restores the default.
///
/// # Safety
///
/// Any thread may call `hook` with `argument`, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_set_stall_hook(hook: Option<Hook>, argument: *mut c_void) -> c_int {
    boundary::run(|| {
        let address = hook.map_or(ptr::null_mut(), |hook| hook as *mut c_void);
        let words = [address, argument].map(<*mut c_void>::expose_provenance);
        foreign::set_plain_stall_hook(hook.map(|_| call as fn(&Stall, [usize; 2])), words);
        Ok(())
    })
}

/// Sets after how many nanoseconds a stall is reported; 0 for never.
#[unsafe(no_mangle)]
pub extern "C" fn sp_set_stall_timeout(timeout: u64) -> c_int {
    boundary::run(|| {
        rcu::set_stall_timeout((timeout != 0).then(|| Duration::from_nanos(timeout)));
        Ok(())
    })
}
