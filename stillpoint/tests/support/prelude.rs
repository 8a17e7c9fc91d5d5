//! What most tests use.

pub use std::cell::{Cell, RefCell};
pub use std::panic::{AssertUnwindSafe, catch_unwind};
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
pub use std::sync::mpsc::{self, Receiver, Sender, channel};
pub use std::sync::{Arc, Barrier, OnceLock};
pub use std::task::{Context, Poll, Wake, Waker};
pub use std::time::{Duration, Instant};
pub use std::{io, mem, ptr, thread};

pub use stillpoint::rcu::{self, DeferOptions, GracePeriod, Guard, Limits, Rcu, StaticDomain};
pub use stillpoint::{Domain as _, EnterSection as _};
pub use stillpoint::{qsbr, srcu};

pub use crate::callbacks::counter;
pub use crate::flavour::{Flavour, Reporting, Threads};
#[cfg(target_os = "linux")]
pub use crate::fork::in_child;
#[cfg(target_os = "linux")]
pub use crate::threads::deny_threads;
pub use crate::time_limit::{TIME_LIMIT, repetitions};
pub use crate::until::{in_threads, until, until_quick};
pub use crate::waiting::{waiting, waiting_synchronize};
pub use crate::{alone, backends, child, each_flavour, own};
pub use crate::{deadline::deadline, panics::message, tracked::OnDrop, tracked::Tracked};
