//! Static probes (USDT), for tracers such as bpftrace, perf and gdb: the feature `usdt`. `docs/probes.md` lists them.
//!
//! A probe is a `nop`, and a note in the program's file that says where it is and where its arguments are. Each is in
//! a function of its own, so that a program has it once, whatever is inlined and for how many types. Without the
//! feature there is nothing, and arguments are not evaluated. Probes fire on slow paths only, and never inside an
//! rseq critical section.

use core::marker::PhantomData;

/// Fires the probe of this name, if there are any.
#[cfg(all(feature = "usdt", not(miri)))]
macro_rules! probe {
    ($name:ident $(, $argument:expr)*) => { $crate::probes::fire::$name($($argument),*) };
}
#[cfg(not(all(feature = "usdt", not(miri))))]
macro_rules! probe {
    ($name:ident $(, $argument:expr)*) => { if false { _ = stringify!($name); $( _ = $argument; )* } };
}
pub(crate) use probe;

/// A function for each probe, with the names of its arguments.
#[cfg(all(feature = "usdt", not(miri)))]
pub(crate) mod fire {
    macro_rules! probes {
        ($($name:ident($($argument:ident: $type:ty),*);)+) => {
            $(
                #[inline(never)]
                pub fn $name($($argument: $type),*) {
                    ::probe::probe!(stillpoint, $name $(, $argument)*);
                }
            )+
        };
    }

    probes! {
        grace_period_start(domain: usize, number: u64, name: *const u8, length: usize);
        grace_period_wait(domain: usize, number: u64, thread: u32, sections: u64);
        grace_period_stall(domain: usize, number: u64, thread: u32, sections: u64, waited: u64);
        grace_period_end(domain: usize, number: u64, outcome: u32);
        reader_exit(domain: usize);
        callback_batch_start(domain: usize);
        callback_batch_end(domain: usize, count: u64, bytes: u64);
        callback_start(name: *const u8, length: usize, function: *const ());
        callback_end();
        throttle_start(domain: usize, bytes: u64, timeout: u64);
        throttle_end(domain: usize, outcome: u32);
        lock_contended(lock: usize, wait: u32);
        lock_acquired(lock: usize, wait: u32, queue: u32);
        lock_timeout(lock: usize, wait: u32);
        lock_handover(lock: usize);
    }
}

/// Identifies a domain in probes: the address of its readers. Nothing without the feature.
#[derive(Debug, Clone, Copy)]
pub struct DomainId {
    #[cfg(feature = "usdt")]
    address: usize,
    private: PhantomData<()>,
}

impl DomainId {
    /// The domain of these readers.
    #[inline(always)]
    pub(crate) fn of<R: ?Sized>(readers: &R) -> Self {
        _ = readers;
        Self {
            #[cfg(feature = "usdt")]
            address: core::ptr::from_ref(readers).addr(),
            private: PhantomData,
        }
    }
    /// Returns the address; without the feature 0.
    #[inline(always)]
    pub(crate) fn address(self) -> usize {
        #[cfg(feature = "usdt")]
        return self.address;
        #[cfg(not(feature = "usdt"))]
        0
    }
}
