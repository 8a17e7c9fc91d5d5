//! What an owner has in a model: a reader, and the queue that is attached to it.

use std::ops::Deref;

use stillpoint::readers::reader::Reader;
use stillpoint::readers::registry::Registry;
use stillpoint::reclaim::queue::Queue;

/// A reader and its queue.
#[derive(Clone, Copy)]
pub struct Own {
    pub reader: &'static Reader,
    pub queue: &'static Queue,
}

impl Own {
    pub fn of(registry: &Registry<Queue>, reader: &'static Reader) -> Self {
        Self { reader, queue: registry.attached_to(reader) }
    }

    /// That of a thread which registers.
    pub fn claim(registry: &Registry<Queue>) -> Self {
        Self::of(registry, registry.claim().unwrap())
    }
}

impl Deref for Own {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        self.reader
    }
}
