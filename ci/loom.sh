#!/usr/bin/env bash
# Explores the models of the algorithms with loom. About half a minute, after the build.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_PROFILE_RELEASE_LTO=off # quicker to build, and nothing is measured here
RUSTFLAGS="--cfg loom" cargo test --package stillpoint --release --target-dir target/loom --test 'loom_*' "$@"
