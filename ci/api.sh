#!/usr/bin/env bash
# ci/api.sh DIR: lists the public API of each published package, as in docs/: `api.txt` is that of stillpoint, `api/*.txt`
# are the others. `api/*-traits.txt` are the traits that types have by derives, or as auto traits: one line for each type
# and condition. The toolchain is that of RUSTUP_TOOLCHAIN, a nightly.
set -euo pipefail
out=$(mkdir -p "$1/api" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

# list FILE PACKAGE MANIFEST FEATURES
list() {
    local command=(cargo public-api --manifest-path "$3" --target-dir target/api ${4:+--features "$4"})
    "${command[@]}" -sss >"$out/$1.txt" 2>"$out/log" || { cat "$out/log" >&2; return 1; }
    # From `impl<T> core::marker::Send for Type<T> where T: Send` to `Type<T> where T: Send: Send, ...`. Without the
    # unstable traits, and traits of the compiler.
    "${command[@]}" -s 2>/dev/null | grep '^impl' | grep -vxFf <(grep '^impl' "$out/$1.txt") |
        sed -E 's/^impl(<.*>)? (!?)([a-z_:]*::)?([A-Za-z]+(<.*>)?) for (.*)$/\6\t\2\4/' |
        grep -vE $'\t!?(Freeze|UnsafeUnpin|StructuralPartialEq)$' | sort -u |
        awk -F '\t' '$1 != type { if (NR > 1) print type ": " traits; type = $1; traits = $2; next }
            { traits = traits " " $2 } END { print type ": " traits }' >"$out/api/$2-traits.txt"
}
list api stillpoint stillpoint/Cargo.toml lock_api_04,lock-events,metrics,serde,signal-fence,tracing
list api/stillpoint-collections stillpoint-collections collections/Cargo.toml ""
list api/crossbeam-epoch crossbeam-epoch compat/crossbeam-epoch/Cargo.toml ""
rm "$out/log"
