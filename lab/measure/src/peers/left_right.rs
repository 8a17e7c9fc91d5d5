//! left-right: two copies of a value, one for the readers and one for the writer.

use std::sync::{Arc, Mutex, PoisonError};

use left_right::{Absorb, ReadGuard, ReadHandle, ReadHandleFactory, WriteHandle};

use super::{ReadSide, Stores, VALUE};

/// What there are two copies of.
#[derive(Clone)]
pub struct Pointer(Arc<u64>);

/// The operation that replaces it.
pub struct Replace(Arc<u64>);

impl Absorb<Replace> for Pointer {
    fn absorb_first(&mut self, operation: &mut Replace, _: &Self) {
        self.0 = Arc::clone(&operation.0);
    }

    fn absorb_second(&mut self, operation: Replace, _: &Self) {
        self.0 = operation.0;
    }

    fn sync_with(&mut self, first: &Self) {
        self.clone_from(first);
    }
}

/// A handle for each thread. A guard holds up the writer.
pub struct Handles {
    factory: ReadHandleFactory<Pointer>,
    writer: Mutex<WriteHandle<Pointer, Replace>>,
}

impl ReadSide for Handles {
    const NAME: &'static str = "left-right";
    type Reader<'a> = ReadHandle<Pointer>;
    type Guard<'a> = ReadGuard<'a, Pointer>;

    fn new() -> Self {
        let (writer, reader) = left_right::new_from_empty(Pointer(Arc::new(VALUE)));
        Self { factory: reader.factory(), writer: Mutex::new(writer) }
    }

    fn reader(&self) -> ReadHandle<Pointer> {
        self.factory.handle()
    }

    #[inline(always)]
    fn enter<'a>(&'a self, reader: &'a ReadHandle<Pointer>) -> ReadGuard<'a, Pointer> {
        reader.enter().expect("the writer exists")
    }

    #[inline(always)]
    fn load(&self, guard: &ReadGuard<'_, Pointer>) -> u64 {
        *guard.0
    }
}

impl Stores for Handles {
    fn store(&self, pointer: Arc<u64>) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.append(Replace(pointer)).publish();
    }
}
