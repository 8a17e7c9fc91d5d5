//! What the types exclude, what panics say, and how the files of the packages depend on each other.
#![cfg(not(loom))]

// Types are the same on all systems, but the copy of the package below knows no `--cfg`. Not in optimized builds:
// these run several times, on each backend, which makes no difference here.
#[cfg(all(not(stillpoint_portable), debug_assertions))]
mod compile_fail;
mod layers;
mod misuse;
mod recursive_types;
