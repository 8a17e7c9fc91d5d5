//! The torture as a program of its own (feature `alone`): `torture NAME` is `stillpoint torture NAME`. It compiles
//! fast, which builds of the library with broken steps need.

mod harness {
    //! The modules that the torture uses.
    // The benches use the rest of it.
    #[allow(dead_code)]
    pub(crate) mod controls;
    pub(crate) mod crew;
    pub(crate) mod memory;
    pub(crate) mod pin;
    pub(crate) mod progress;
    pub(crate) mod units;
}
#[path = "torture/mod.rs"]
mod torture;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "torture", version)]
struct Cli {
    #[command(flatten)]
    args: torture::Args,
}

fn main() {
    torture::run(&Cli::parse().args);
}
