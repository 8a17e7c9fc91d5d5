//! Protection slots: what lets a guard outlive the section in which it was loaded, and keeps only its own value alive.
//!
//! A thread has a [`Record`](record::Record) of [`Slot`](slot::Slot)s. A load stores the loaded pointer in one of them,
//! inside a read-side critical section of the domain of all loads. So what a writer has unpublished is, after a grace
//! period of that domain, in the slots of all guards that have it: [`scan`] looks there. A guard may then be held for any
//! length of time, by any thread, and grace periods wait for none.

pub mod record;
pub mod scan;
pub mod slot;
