# The versions of the tools that the checks use. Sourced by each script, so that no check depends on what is newest on
# the day. `ci/setup.sh` installs them.
#
# Crates are pinned by `Cargo.lock` and `ci/crates.txt`. Packages of Debian are those of the release that is
# installed, because its archive keeps only one version of each; `ci/setup.sh` prints them.

# Rust: what builds and tests, and the oldest that builds all but the lab.
rust_stable=1.95.0
rust_oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml).0
# For the sanitizers, Miri and rustdoc's JSON. One that has miri and rust-src.
rust_nightly=nightly-2026-05-20
# Reads the JSON of that nightly.
cargo_public_api=0.52.0
# Compares with the last release, by the JSON of the stable rustdoc.
cargo_semver_checks=0.51.0
# Builds and runs the fuzz targets.
cargo_fuzz=0.13.2
# Makes mutants of source files.
cargo_mutants=27.1.0
# From PyPI: links with old C libraries.
ziglang=0.17.1

# The network may fail for a while.
export CARGO_NET_RETRY=10

# For each call of cargo, rustc and rustup that names no toolchain. Programs of `rustup` only look at it.
export RUSTUP_TOOLCHAIN=$rust_stable
