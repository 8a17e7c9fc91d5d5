#!/usr/bin/env bash
# The code is formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
