#!/usr/bin/env bash
# Explores the models of the algorithms with loom: each in a process of its own, as threads of one would wait for each other
# whenever loom maps a stack, and as many at a time as there are processors. Under a minute, after the build.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_PROFILE_RELEASE_LTO=off # quicker to build, and nothing is measured here
export RUSTFLAGS="--cfg loom"
build=(cargo test --package stillpoint --release --target-dir target/loom --test 'loom_*' --no-run)
"${build[@]}"
mapfile -t binaries < <("${build[@]}" --message-format=json 2>/dev/null | grep -oE '"executable":"[^"]+"' | cut -d'"' -f4)
((${#binaries[@]} > 0))

for binary in "${binaries[@]}"; do
    "$binary" --list --format terse | sed -nE "s|^(.*): test$|$binary \1|p"
done | xargs -P "$(nproc)" -n 2 bash -c '
    if log=$("$0" --exact "$1" 2>&1) && grep --quiet "1 passed" <<<"$log"; then
        echo "holds     $1"
    else
        printf "%s\nFAILS     %s\n" "$log" "$1"
        exit 1
    fi'
