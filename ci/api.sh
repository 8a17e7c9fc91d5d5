#!/usr/bin/env bash
# ci/api.sh DIR: lists the public API of each published package, as in ci/api/. The toolchain is RUSTUP_TOOLCHAIN, a
# nightly. Of implementations of traits only the types are listed: what functions and constants they have, the trait
# says. One line has all traits that a type implements with the same bounds. What has two paths is listed once.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

# list PACKAGE MANIFEST FEATURES
list() {
    cargo public-api --manifest-path "$2" --target-dir target/api ${3:+--features "$3"} -sss 2>"$out/log" >"$out/all" ||
        { cat "$out/log" >&2; return 1; }
    awk '
        /^(unsafe )?impl/ { type = match($0, /^(unsafe )?impl.* for /) ? substr($0, RLENGTH + 1) : ""; sub(/ where .*/, "", type) }
        type == "" || !/^pub (const |unsafe |extern "C" )*(fn|const) / || !index($0, " " type "::")
    ' "$out/all" | awk '
        seen[$0]++ { next }
        /^(unsafe )?impl/ && match($0, / [^ ]+ for /) {
            trait = substr($0, RSTART, RLENGTH - length(" for "))
            key = substr($0, 1, RSTART - 1) SUBSEP substr($0, RSTART + length(trait))
            if (key in traits) { traits[key] = traits[key] " +" trait; next }
            traits[key] = trait
            $0 = key
        }
        { lines[++count] = $0 }
        END { for (i = 1; i <= count; i++) { sub(SUBSEP, traits[lines[i]], lines[i]); print lines[i] } }
    ' >"$out/$1.txt"
}
list stillpoint stillpoint/Cargo.toml metrics,statistics-page,tracing
list stillpoint-collections collections/Cargo.toml ""
list stillpoint-tokio bindings/tokio/Cargo.toml ""
rm "$out"/{log,all}
