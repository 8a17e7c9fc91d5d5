#!/usr/bin/env bash
# The code is formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh
cargo fmt --all --check
