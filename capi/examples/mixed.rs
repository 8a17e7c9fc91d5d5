//! A Rust program with C code in it: readers of both are readers of one domain.
fn main() {}
