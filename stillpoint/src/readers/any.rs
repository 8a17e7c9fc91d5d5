//! Readers of any domain: what is slow is compiled once, for these.

use super::sections::reader::Reader;
use crate::grace_period::engine::{Engine, ReaderSet};

/// Readers of any domain. Those of some have no [`Reader`].
pub type AnyReaders = dyn ReaderSet<Reader = Reader>;

/// The engine of any domain.
pub type AnyEngine = Engine<AnyReaders>;
