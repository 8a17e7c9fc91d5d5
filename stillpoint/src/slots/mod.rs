//! Protection slots: what keeps one value alive, for any length of time, while grace periods wait for no slot.
//!
//! A thread has a [`Record`](record::Record) of [`Slot`](slot::Slot)s, each of which has the address of a value. They
//! serve two parts, which have tables of their own:
//!
//! | part | a slot is filled by | the slots are looked at by |
//! |---|---|---|
//! | [`crate::arc`] | a load, inside a section of the domain of all loads | a store, after a grace period of that domain, which gives each guard a reference ([`scan`]) |
//! | `hazard` | a hazard pointer, which then sees that the value is still published; or inside a section | the threads that free what was retired, after a grace period: they leave what is protected ([`protected`]) |

#[cfg_attr(loom, path = "loom.rs")]
pub mod pointers;
pub mod protected;
pub mod record;
pub mod scan;
pub mod slot;
pub mod thread;
