#!/usr/bin/env bash
# Systems other than 64-bit Linux. Their code passes the tests on Linux, by `--cfg stillpoint_portable`; the packages are
# checked for other systems; and the tests pass on Windows, as far as Wine is one (x86-64 only).
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
unset STILLPOINT_FENCE STILLPOINT_PERCPU
packages=(--package stillpoint --package stillpoint-collections --package crossbeam-epoch)

# counted COMMAND...: runs tests, and prints how many have passed.
counted() {
    local log=$scratch/tests
    if ! "$@" >"$log" 2>&1; then
        cat "$log"
        return 1
    fi
    awk '/^test result: ok/ { passed += $4; ignored += $8 } END { print passed " tests passed, " ignored " ignored" }' "$log"
}

echo "-- the portable code on Linux"
portable=(env RUSTFLAGS="--cfg stillpoint_portable" RUSTDOCFLAGS="--cfg stillpoint_portable"
    cargo test --locked --target-dir target/portable "${packages[@]}")
counted "${portable[@]}" --lib --test '*'
counted "${portable[@]}" --doc

echo "-- other systems"
for target in x86_64-pc-windows-gnu x86_64-apple-darwin aarch64-apple-darwin x86_64-unknown-freebsd aarch64-linux-android \
    i686-unknown-linux-gnu; do
    RUSTFLAGS="--deny warnings" cargo check --locked --quiet --target-dir target/portable "${packages[@]}" --target "$target"
    echo "$target: builds"
done

echo "-- Windows"
export WINEPREFIX=$PWD/target/wine WINEDEBUG=-all CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
counted cargo test --locked --target-dir target/portable "${packages[@]}" --lib --test '*' --target x86_64-pc-windows-gnu
