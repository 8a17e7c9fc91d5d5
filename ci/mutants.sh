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

log=$(mktemp)
trap 'rm -f "$log"' EXIT
survivors=0 refuted=0
declare -A sound
while read -r mutant file test; do
    run=("${binary[$file]}" --exact "$test")
    if [ -z "${sound[$test]:-}" ]; then
        if ! "${run[@]}" >"$log" 2>&1 || ! grep -q '1 passed' "$log"; then
            cat "$log"
            echo "mutants: $file::$test does not pass unbroken" >&2
            exit 1
        fi
        sound[$test]=yes
    fi
    start=$(date +%s.%N)
    status=0
    # In a shell of its own, which keeps the news of a crash in the log.
    (STILLPOINT_MUTANT=$mutant timeout "$limit" "${run[@]}") >"$log" 2>&1 || status=$?
    seconds=$(awk -v s="$start" -v e="$(date +%s.%N)" 'BEGIN { printf "%.1f", e - s }')
    if [ "$status" -eq 0 ] || [ "$status" -eq 124 ]; then
        echo "SURVIVES  $mutant ($file::$test, ${seconds} s)"
        survivors=$((survivors + 1))
    else
        found=$(grep -aoE 'deadlock|Causality violation|read a freed value|two owners|served by a turn|began after he asked|assertion' "$log" | head -1 || true)
        printf 'refuted   %-26s %-60s %5s s  %s\n' "$mutant" "$test" "$seconds" "${found:-ended by a signal}"
        refuted=$((refuted + 1))
    fi
done <<<"$rows"

echo "$refuted mutants refuted, $survivors survived"
[ "$survivors" -eq 0 ]
