//! What the types forbid does not compile, for the reason that is meant.
//!
//! `TRYBUILD=overwrite cargo test --package stillpoint --test compile_fail` writes down what the compiler says now.
//!
//! Not in optimized builds, whose tests are run several times in different circumstances: these have none.
#![cfg(all(not(loom), debug_assertions))]

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
