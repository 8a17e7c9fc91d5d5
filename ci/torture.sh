#!/usr/bin/env bash
# Tortures the library on each backend, for a minute in all; then breaks it, one step at a time, and expects the torture to
# notice within ten seconds. Two or three minutes, after the builds.
#
# usage: ci/torture.sh [SECONDS [RUNS]]   tortures for SECONDS, and each broken step RUNS times (then prints median and maximum)
set -euo pipefail
cd "$(dirname "$0")/.."
unset STILLPOINT_FENCE STILLPOINT_PERCPU STILLPOINT_MUTANT
seconds=${1:-60} runs=${2:-1}
limit=10 # seconds to find a broken step

# Rows of the table: | `mutant` | `torture part` | ... |
table=docs/proof.md
rows=$(sed -nE 's/^\| `([a-z-]+)` \| `torture ([a-z]+)` \|.*$/\1 \2/p' "$table")
in_source=$({
    sed -n '/IN_SECTIONS: /,/\];/p' stillpoint/src/percpu/faults.rs
    grep -rhoE '(weaken\([^"]*|mutant\()"[a-z-]+"' stillpoint/src
} | grep -oE '"[a-z-]+"' | tr -d '"' | sort -u)
if unknown=$(comm -23 <(cut -d' ' -f1 <<<"$rows" | sort -u) <(echo "$in_source")) && [[ -z $rows || -n $unknown ]]; then
    echo "the source has no such steps, or $table no rows for the torture: $unknown" >&2
    exit 1
fi

cargo build --release --package stillpoint-lab --features liburcu
"${CARGO_TARGET_DIR:-target}/release/stillpoint" torture all --seconds "$seconds"

echo "-- broken steps"
RUSTFLAGS="--cfg stillpoint_mutants --cfg stillpoint_faults" cargo build --profile torture --package stillpoint-lab --bin torture \
    --no-default-features --features alone --target-dir target/torture
torture=target/torture/torture/torture
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The same program, as impatient, with nothing broken.
for part in rcu qsbr srcu percpu lock; do
    "$torture" "$part" --seconds 2 --mutant nothing >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
done

# Runs a broken step; whether it was noticed. A crash counts, an error of this command does not.
notices() { # mutant part
    local status=0
    start=$EPOCHREALTIME
    # In a shell of its own, which keeps the news of a crash in the log.
    (timeout $((limit + 5)) "$torture" "$2" --seconds "$limit" --mutant "$1"; exit $?) >"$log" 2>&1 || status=$?
    times+=("$(awk -v s="$start" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.2f", e - s }')")
    ((status != 0 && status != 2 && status != 124))
}

survivors=0
while read -r mutant part; do
    times=()
    for ((run = 0; run < runs; run++)); do
        # Once more, as others may have had the machine.
        if ! notices "$mutant" "$part" && ! notices "$mutant" "$part"; then
            cat "$log"
            echo "SURVIVES  $mutant (torture $part)" >&2
            survivors=$((survivors + 1))
        fi
    done
    what=$(sed -nE 's/^torture [a-z]+: FAILED, //p' "$log")
    mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
    printf 'noticed   %-26s %-7s %6s s, at most %6s s  %.90s\n' "$mutant" "$part" "${times[${#times[@]} / 2]}" \
        "${times[-1]}" "${what:-it crashes}"
done <<<"$rows"
((survivors == 0))
