//! Misuse that the types exclude does not compile, for the intended reason.
//!
//! `TRYBUILD=overwrite cargo test --package stillpoint --test compile_fail` records what the compiler says now.
//!
//! Not in optimized builds: these run several times, on each backend, which makes no difference here.
#![cfg(all(not(loom), debug_assertions))]

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
