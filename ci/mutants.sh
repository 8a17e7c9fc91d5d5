#!/usr/bin/env bash
# Shows that the models see: breaks the algorithms, one named step or ordering at a time, and expects the model that
# docs/proof.md names to fail. Fails if a mutant survives, if the unbroken models fail, or if the names in the source and
# in the table differ.
set -euo pipefail
cd "$(dirname "$0")/.."

table=docs/proof.md
limit=300 # seconds a model may take to find its mutant; it is not refuted by running out of time

# Those of per-CPU data, but for the module that loom sees, are for `ci/percpu.sh`.
mapfile -t sources < <(find stillpoint/src -name '*.rs' -not -path '*/percpu/*'; echo stillpoint/src/percpu/awaited.rs)

# Rows of the table: | `mutant` | ... | `test_file::test` |
rows=$(sed -nE 's/^\| `([a-z-]+)` \|.*\| `(loom_[a-z]+)::([a-z_]+)` \|$/\1 \2 \3/p' "$table")
in_source=$(grep -rhoE '(weaken\([^"]*|mutant\()"[a-z-]+"' "${sources[@]}" | grep -oE '"[a-z-]+"' | tr -d '"' | sort -u)
in_table=$(cut -d' ' -f1 <<<"$rows" | sort -u)
if ! diff <(echo "$in_source") <(echo "$in_table"); then
    echo "mutants: the names in the source (<) and in $table (>) differ" >&2
    exit 1
fi

export CARGO_PROFILE_RELEASE_LTO=off # quicker to build, and nothing is measured here
export RUSTFLAGS="--cfg loom" RUST_BACKTRACE=0
build=(cargo test --package stillpoint --release --target-dir target/loom --test 'loom_*')
"${build[@]}" --no-run
declare -A binary
while IFS= read -r path; do
    name=$(basename "$path")
    binary[${name%-*}]=$path
done < <("${build[@]}" --no-run --message-format=json 2>/dev/null | grep -oE '"executable":"[^"]+"' | cut -d'"' -f4)

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# Unbroken first: a model that always fails would refute everything.
sound() {
    local log=$scratch/$1.$2
    if ! "${binary[$1]}" --exact "$2" >"$log" 2>&1 || ! grep -q '1 passed' "$log"; then
        cat "$log"
        echo "mutants: $1::$2 does not pass unbroken" >&2
        touch "$scratch/failed"
    fi
}

refute() {
    local mutant=$1 file=$2 test=$3 log=$scratch/$1.$2.$3 begin=$EPOCHREALTIME status=0 seconds found
    # In a shell of its own, which keeps the news of a crash in the log.
    (STILLPOINT_MUTANT=$mutant timeout "$limit" "${binary[$file]}" --exact "$test"; exit $?) >"$log" 2>&1 || status=$?
    seconds=$(awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.1f", e - b }')
    if [ "$status" -eq 0 ] || [ "$status" -eq 124 ]; then
        echo "SURVIVES  $mutant ($file::$test, ${seconds} s)"
        touch "$scratch/failed"
    else
        found=$(grep -aoE 'deadlock|Causality violation|read a freed value|two owners|served by a turn|began after he asked|assertion' "$log" | head -1 || true)
        printf 'refuted   %-26s %-60s %5s s  %s\n' "$mutant" "$test" "$seconds" "${found:-ended otherwise}"
    fi
}

# each FUNCTION: calls it for each line read, as often at a time as there are processors.
each() {
    local processors words
    processors=$(nproc)
    while read -r -a words; do
        while (($(jobs -rp | wc -l) >= processors)); do wait -n || true; done
        "$1" "${words[@]}" &
    done
    wait
}

each sound < <(cut -d' ' -f2- <<<"$rows" | sort -u)
each refute <<<"$rows"
if [ -e "$scratch/failed" ]; then
    echo "mutants: some survived, or models failed unbroken" >&2
    exit 1
fi
echo "$(wc -l <<<"$rows") mutants refuted"
