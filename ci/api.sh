#!/usr/bin/env bash
# ci/api.sh DIR: lists the public API of each published package, as in ci/api/. The toolchain is RUSTUP_TOOLCHAIN, a
# nightly.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

# list PACKAGE MANIFEST FEATURES
list() {
    cargo public-api --manifest-path "$2" --target-dir target/api ${3:+--features "$3"} -sss >"$out/$1.txt" 2>"$out/log" ||
        { cat "$out/log" >&2; return 1; }
}
list stillpoint stillpoint/Cargo.toml lock_api_05,metrics,statistics-page,tracing
list stillpoint-collections collections/Cargo.toml ""
list stillpoint-tokio integrations/tokio/Cargo.toml ""
rm "$out/log"
