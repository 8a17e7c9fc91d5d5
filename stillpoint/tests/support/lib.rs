//! What the tests of the library share.
#![allow(missing_docs, missing_debug_implementations, reason = "for tests only")]

#[cfg(not(loom))]
pub mod asleep;
#[cfg(not(loom))]
pub mod callbacks;
pub mod child;
pub mod counting;
pub mod deadline;
#[cfg(loom)]
pub mod domain;
#[cfg(not(loom))]
pub mod flavour;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod fork;
pub mod futures;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod late;
#[cfg(loom)]
pub mod model;
#[cfg(not(loom))]
pub mod owner;
pub mod panics;
#[cfg(not(loom))]
pub mod prelude;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod rseq;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod signals;
pub mod store_buffer;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod threads;
pub mod time_limit;
pub mod tracked;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(loom)))]
pub mod traps;
pub mod until;
pub mod variants;
#[cfg(not(loom))]
pub mod waiting;

/// The backends of the fence that the calling package's build of the library has.
#[macro_export]
macro_rules! backends {
    () => {
        ["membarrier", "seqcst"]
    };
}

/// Begins a test: defines a domain of its own, whose counters no other test changes, and perhaps a counter of drops.
/// Ends the process if the test hangs.
#[macro_export]
macro_rules! own {
    (@rest $($drops:ident)?) => {
        $(static $drops: ::std::sync::atomic::AtomicUsize = ::std::sync::atomic::AtomicUsize::new(0);)?
        let _running = $crate::deadline::deadline();
    };
    ($domain:ident $(, $drops:ident)?) => {
        ::stillpoint::domain! { struct $domain; }
        $crate::own!(@rest $($drops)?);
    };
    ($flavour:ident $domain:ident $(, $drops:ident)?) => {
        ::stillpoint::$flavour::domain! { struct $domain; }
        $crate::own!(@rest $($drops)?);
    };
}

/// Begins a test that needs a process of its own: the parent returns when a child has run it; or a child for each
/// backend of the fence, which may fork, or for each variant of the registration for per-CPU data. Ends the process
/// if the test hangs.
#[macro_export]
macro_rules! alone {
    () => {
        $crate::alone!(@run $crate::child::is_alone, $crate::deadline::deadline());
    };
    (on each backend) => {
        $crate::alone!(@run $crate::fork::is_alone, ());
    };
    (in each variant) => {
        $crate::alone!(@run $crate::variants::in_each_variant, $crate::deadline::deadline());
    };
    (@run $is_alone:path, $running:expr) => {
        fn here() {}
        if !$is_alone(here) {
            return;
        }
        let _running = $running;
    };
}

/// Runs a generic function, which is a test, for each flavour. Ends the process if it hangs.
#[macro_export]
macro_rules! each_flavour {
    ($test:ident) => {
        let _running = $crate::deadline::deadline();
        $test::<$crate::flavour::Threads>();
        $test::<$crate::flavour::Reporting>();
        $test::<::stillpoint::srcu::Domain>();
    };
}
