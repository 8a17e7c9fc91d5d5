#!/usr/bin/env bash
# The fuzz targets of lab/fuzz/ (cargo-fuzz, as OSS-Fuzz takes them) build, find the error that `FUZZ_BROKEN` puts
# into what they test, and find none without it. `ci/fuzz.sh SECONDS TARGET...`: 60 for each of all. Needs cargo-fuzz
# (`ci/setup.sh release`); no part of .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
source ci/pin.sh
seconds=${1:-60}
# fuzz COMMAND...: of cargo-fuzz.
fuzz() { RUSTUP_TOOLCHAIN=$rust_nightly target/tools/bin/cargo-fuzz fuzz "$1" --fuzz-dir lab/fuzz "${@:2}"; }

[[ -x target/tools/bin/cargo-fuzz ]] || cannot "there is no cargo-fuzz"
pin lab/fuzz
mapfile -t targets < <(fuzz list)
(($# < 2)) || targets=("${@:2}")
# With AddressSanitizer. Threads of the library outlive a program, and what they hold is no leak.
fuzz build --target-dir target/fuzz
for target in "${targets[@]}"; do
    program=target/fuzz/x86_64-unknown-linux-gnu/release/$target
    corpus=target/fuzz/corpus/$target
    mkdir -p "$corpus"
    # Enough bytes for a program to begin with.
    [[ -e $corpus/first ]] || head -c 4096 /dev/urandom >"$corpus/first"
    run() { "$program" -max_len=8192 -detect_leaks=0 -artifact_prefix="$scratch/" "$@" >"$scratch/log" 2>&1; }
    if FUZZ_BROKEN=1 run -timeout=30 -max_total_time=120; then
        fail "$target: the error that is built in is not found"
    fi
    # A broken lock may also hang the program.
    grep --quiet -E 'panicked at|this has not ended|libFuzzer: timeout' "$scratch/log" || { tail -20 "$scratch/log" >&2; exit 1; }
    printf 'found     %-8s after %s programs\n' "$target" "$(grep -oE '^#[0-9]+' "$scratch/log" | tail -1)"
    run -timeout=300 -max_total_time="$seconds" "$corpus" || { tail -80 "$scratch/log" >&2; echo "FAILED    $target" >&2; exit 1; }
    printf 'passed    %-8s %s\n' "$target" "$(grep -E '^Done' "$scratch/log")"
done
