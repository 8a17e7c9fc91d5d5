//! What the library allocates, frees and knows of memory, and what it does without.
#![cfg(not(loom))]

mod heap_bytes;
mod percpu;
mod srcu;

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;
