//! The functions behind `stillpoint.h`, the C interface of [stillpoint](https://docs.rs/stillpoint).
//!
//! There is nothing here for Rust programs to call. A Rust program that contains C code which includes `stillpoint.h`
//! names this crate once, so that it is linked:
//!
//! ```
//! use stillpoint_capi as _;
//! ```
//!
//! Readers of the C code and of the Rust code are then readers of the same domain, `stillpoint::rcu::Global`.
//!
//! C and C++ programs link `libstillpoint`, which `bindings/c/install.sh` builds. `include/stillpoint.h` has the
//! reference.
//!
//! # The boundary
//!
//! 1. Nothing unwinds into C: each function catches panics and returns an error code (`boundary::catch`). In a debug
//!    build it aborts.
//! 2. Misuse that is detected is reported on the standard error, and returns an error code. In a debug build it
//!    aborts.
//! 3. Functions of the program are called with an ABI that may unwind. A foreign exception ends the process, with a
//!    message of the Rust runtime.

mod boundary;
mod callback;
mod copy_map;
mod domain;
mod fence;
mod hash_map;
mod hazard;
mod lock;
mod percpu;
mod qsbr;
mod rcu;
mod srcu;
mod stall;
