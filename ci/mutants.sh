#!/usr/bin/env bash
# Shows that the models see: breaks the algorithms, one named step or ordering at a time, and expects the model that
# docs/proof.md names to fail. Fails if a mutant survives, if the unbroken models fail, if the names in the source and
# in the table differ, if a mutant is not in the function that the table names, or if a page or a model cites a function that
# is gone.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

table=docs/proof.md
limit=300 # seconds a model may take to find its mutant; it is not refuted by running out of time

# Those of per-CPU data, but for the modules that loom sees, are for `ci/percpu.sh`.
mapfile -t sources < <(find stillpoint/src -name '*.rs' -not -path '*/percpu/*'
    echo stillpoint/src/percpu/owner_event.rs
    echo stillpoint/src/percpu/used.rs)

# Rows of the table: | `mutant` | ... | `test_file::test` |
rows=$(sed -nE 's/^\| `([a-z-]+)` \|.*\| `(loom_[a-z_]+)::([a-z_]+)` \|$/\1 \2 \3/p' "$table")
in_source=$(grep -rhoE '(weaken\([^"]*|mutant\()"[a-z-]+"' "${sources[@]}" | grep -oE '"[a-z-]+"' | tr -d '"' | sort -u)
in_table=$(cut -d' ' -f1 <<<"$rows" | sort -u)
if ! diff <(echo "$in_source") <(echo "$in_table"); then
    echo "mutants: the names in the source (<) and in $table (>) differ" >&2
    exit 1
fi

# Where the mutants are. Mutants of sections are known by number: first the file with their names.
faults=stillpoint/src/percpu/rseq/faults.rs
places=$(find stillpoint/src -name '*.rs' -not -path "$faults" -exec awk -f ci/places.awk "$faults" {} + | sort -u)
claimed=$(sed -nE 's/^\| `([a-z-]+)` \| (`[A-Za-z_:]+`(, `[A-Za-z_:]+`)*) \|.*::[a-z_]+` \|$/\1 \2/p' "$table" | tr -d '`,' |
    awk '{ for (i = 2; i <= NF; i++) print $1, $i }' | sort -u)
cited=$(grep -ohE '\b[A-Z][A-Za-z]+::[a-z_]+\b' models/*.pml models/README.md "$table" | sort -u)
missing=$(comm -23 <(sort -u <<<"$claimed"$'\n'"$cited") <(echo "$places"))
if [[ -n $missing ]]; then
    printf 'mutants: not in the source, or not there:\n%s\n' "$missing" >&2
    exit 1
fi

export RUST_BACKTRACE=0
build "${loom[@]}"

refute() {
    local mutant file test log begin=$EPOCHREALTIME status=0 seconds found
    read -r mutant file test <<<"$1"
    log=$scratch/$mutant.$file.$test
    # In a shell of its own, which keeps the news of a crash in the log.
    (STILLPOINT_MUTANT=$mutant timeout "$limit" "${binary[$file]}" --exact "$test"; exit $?) >"$log" 2>&1 || status=$?
    seconds=$(awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.1f", e - b }')
    if [ "$status" -eq 0 ] || [ "$status" -eq 124 ]; then
        echo "SURVIVES  $mutant ($file::$test, ${seconds} s)"
        return 1
    else
        found=$(grep -aoE 'deadlock|Causality violation|read a freed value|two owners|served by a round|began after he asked|assertion' "$log" | head -1 || true)
        printf 'refuted   %-26s %-60s %5s s  %s\n' "$mutant" "$test" "$seconds" "${found:-ended otherwise}"
    fi
}

# Unbroken first: a model that always fails would refute everything.
each holds < <(cut -d' ' -f2- <<<"$rows" | sort -u)
each refute <<<"$rows"
echo "$(wc -l <<<"$rows") mutants refuted"
