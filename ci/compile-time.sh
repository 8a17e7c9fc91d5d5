#!/usr/bin/env bash
# Measures what the library costs the build of a program that does nothing but depend on it: the CPU seconds of `cargo
# build --release`, in rounds of one build of each program, and the median. Beside it, programs that depend on other
# crates. At the end, the size of the README's program. Nothing is checked.
#
# ci/compile-time.sh [REVISION] [ROUNDS]   also of the library at REVISION, with the ratio
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

revision=${1:-} rounds=${2:-3}
TIMEFORMAT='%U %S'
declare -A seconds

# program NAME DEPENDENCY: a program with one dependency, with the versions of `Cargo.lock`.
program() {
    mkdir -p "$scratch/$1/src"
    printf '[package]\nname = "program"\nedition = "2024"\n[workspace]\n[dependencies]\n%s\n' "$2" >"$scratch/$1/Cargo.toml"
    echo 'fn main() {}' >"$scratch/$1/src/main.rs"
    cp Cargo.lock "$scratch/$1"
    cargo fetch --quiet --manifest-path "$scratch/$1/Cargo.toml"
    names+=("$1")
}

# build_program NAME: prints the CPU seconds.
build_program() {
    local used
    rm -rf "$scratch/$1/target"
    used=$({ time cargo build --release --offline --quiet --manifest-path "$scratch/$1/Cargo.toml" >&2; } 2>&1)
    awk '{ print $1 + $2 }' <<<"$used"
}

median() { tr ' ' '\n' <<<"$1" | grep . | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

names=()
if [[ $revision ]]; then
    git archive --prefix=library/ "$revision" | tar --extract --directory "$scratch"
    program "revision" "stillpoint = { path = \"$scratch/library/stillpoint\" }"
fi
program "stillpoint" "stillpoint = { path = \"$PWD/stillpoint\" }"
program "no-default-features" "stillpoint = { path = \"$PWD/stillpoint\", default-features = false }"
program "arc-swap" 'arc-swap = "1.9"'
program "parking_lot" 'parking_lot = "0.13"'
program "crossbeam-epoch" 'crossbeam-epoch = "0.9"'
program "dashmap" 'dashmap = "6"'

for ((round = 1; round <= rounds; round++)); do
    for name in "${names[@]}"; do
        seconds[$name]+=" $(build_program "$name")"
    done
done
of_first=$(median "${seconds[${names[0]}]}")
printf '%-22s %7s %7s  %s\n' "program" "CPU s" "ratio" "rounds"
for name in "${names[@]}"; do
    middle=$(median "${seconds[$name]}")
    printf '%-22s %7.2f %7.2f  %s\n' "$name" "$middle" "$(awk "BEGIN { print $middle / $of_first }")" "${seconds[$name]}"
done
for name in revision stillpoint; do
    [[ -d $scratch/$name ]] || continue
    [[ -d $scratch/$name/target ]] || continue
    awk '/^```rust/ { code = 1; next } /^```/ { exit } code' README.md >"$scratch/$name/src/main.rs"
    build_program "$name" >/dev/null
    strip -o "$scratch/stripped" "$scratch/$name/target/release/program"
    echo "README's program, $name: $(stat --format %s "$scratch/$name/target/release/program") bytes, stripped $(stat --format %s "$scratch/stripped")"
done
