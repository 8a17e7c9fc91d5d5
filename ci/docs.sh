#!/usr/bin/env bash
# The documentation builds, and its links lead somewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
