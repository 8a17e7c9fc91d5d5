#!/usr/bin/env bash
# The documentation builds, and its links lead somewhere; with the optional features too.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTDOCFLAGS="-D warnings"
cargo doc --workspace --no-deps
cargo doc --package stillpoint --no-deps --features tracing,metrics,lock-events,lock_api_04
