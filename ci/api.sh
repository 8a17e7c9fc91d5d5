#!/usr/bin/env bash
# ci/api.sh DIR: lists the public API of each published package, as in ci/api/. `*-traits.txt` are the traits that types
# have by derives, or as auto traits: one line for each type and condition. The toolchain is RUSTUP_TOOLCHAIN, a
# nightly.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

# list PACKAGE MANIFEST FEATURES
list() {
    local command=(cargo public-api --manifest-path "$2" --target-dir target/api ${3:+--features "$3"})
    "${command[@]}" -sss >"$out/$1.txt" 2>"$out/log" || { cat "$out/log" >&2; return 1; }
    # From `impl<T> core::marker::Send for Type<T> where T: Send` to `Type<T> where T: Send: Send, ...`. Without the
    # unstable traits, and traits of the compiler.
    { "${command[@]}" -s 2>/dev/null | grep '^impl' | grep -vxFf <(grep '^impl' "$out/$1.txt") || true; } |
        sed -E 's/^impl(<.*>)? (!?)([a-z_:]*::)?([A-Za-z]+(<.*>)?) for (.*)$/\6\t\2\4/' |
        { grep -vE $'\t!?(Freeze|UnsafeUnpin|StructuralPartialEq)$' || true; } | sort -u | # a package may have no types
        awk -F '\t' '$1 != type { if (NR > 1) print type ": " traits; type = $1; traits = $2; next }
            { traits = traits " " $2 } END { if (NR > 0) print type ": " traits }' >"$out/$1-traits.txt"
}
list stillpoint stillpoint/Cargo.toml lock_api_05,lock-events,metrics,serde,signal-fence,statistics-page,tracing
list stillpoint-collections collections/Cargo.toml ""
list stillpoint-tokio integrations/tokio/Cargo.toml ""
list arc-swap compat/arc-swap/Cargo.toml serde
list crossbeam-epoch compat/crossbeam-epoch/Cargo.toml ""
rm "$out/log"
