#!/usr/bin/env bash
# Runs the torture on each backend, for a minute in all. Then breaks one step at a time, and expects the torture to
# detect each within ten seconds. Takes two or three minutes after the builds.
#
# The first run is a control: a library without fences must be detected. On a machine that is too busy for that, other
# undetected steps prove nothing either, and the exit status is 77: not checked.
#
# usage: ci/torture.sh [SECONDS [RUNS]]   runs for SECONDS, and each broken step RUNS times (prints median, maximum)
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh
unset STILLPOINT_FENCE STILLPOINT_PERCPU STILLPOINT_MUTANT
seconds=${1:-60} runs=${2:-1}
limit=10 # seconds in which a broken step must be detected

# Table rows: | `mutant` | `torture part` | ... |
table=docs/proof.md
rows=$(sed -nE 's/^\| `([a-z-]+)` \| `torture ([a-z]+)` \|.*$/\1 \2/p' "$table")
faults=stillpoint/src/percpu/rseq/faults.rs
in_source=$(find stillpoint/src -name '*.rs' -not -path "$faults" -exec awk -f ci/places.awk "$faults" {} + | sed -n 's/ .*//p' | sort -u)
if unknown=$(comm -23 <(cut -d' ' -f1 <<<"$rows" | sort -u) <(echo "$in_source")) && [[ -z $rows || -n $unknown ]]; then
    echo "the source has no such steps, or $table no rows for the torture: $unknown" >&2
    exit 1
fi

cargo build --release --package stillpoint-lab --features liburcu
stillpoint=${CARGO_TARGET_DIR:-target}/release/stillpoint
RUSTFLAGS="--cfg stillpoint_mutants --cfg stillpoint_faults" cargo build --profile torture --package stillpoint-lab --bin torture \
    --no-default-features --features alone --target-dir target/torture
torture=target/torture/torture/torture
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# detects MUTANT PART: runs the torture with a broken step, and succeeds if it was detected. A crash counts. A usage
# error, a timeout and a run that is not conclusive do not.
detects() {
    local status=0
    start=$EPOCHREALTIME
    # In a subshell, which writes the message about a crash to the log.
    (timeout $((limit + 5)) "$torture" "$2" --seconds "$limit" --mutant "$1"; exit $?) >"$log" 2>&1 || status=$?
    times+=("$(awk -v s="$start" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.2f", e - s }')")
    ((status != 0 && status != 2 && status != 77 && status != 124))
}

# Succeeds if the torture detects the control on this machine, now.
control() {
    local times=()
    detects no-fence rcu || detects no-fence rcu
}

inconclusive=()
not_conclusive() {
    echo "NOT CONCLUSIVE  $1" >&2
    inconclusive+=("$1")
}

# check_status STATUS WHAT: handles the exit status of a torture that must pass. Fails if the torture failed.
check_status() {
    case $1 in
        0) ;;
        77) not_conclusive "$2" ;;
        *) return 1 ;;
    esac
}

# Ends this script if a run was not conclusive.
conclude() {
    ((${#inconclusive[@]} > 0)) || return 0
    printf 'NOT CONCLUSIVE, the machine is too busy: %s\n' "${inconclusive[@]}" >&2
    exit 77
}

echo "-- control: no fences"
control && controlled=1 || controlled=0

echo "-- the library as it is"
status=0
"$stillpoint" torture all --seconds "$seconds" || status=$?
check_status "$status" "torture all"
if ((!controlled)); then
    not_conclusive "the control, a library without fences, was not detected; broken steps were not tried"
    conclude
fi

echo "-- broken steps"
# The same program with the same timeouts, and nothing broken.
for part in rcu qsbr srcu percpu lock; do
    status=0
    "$torture" "$part" --seconds 2 --mutant nothing >"$log" 2>&1 || status=$?
    check_status "$status" "torture $part, with nothing broken" || { cat "$log" >&2; exit 1; }
done

survivors=0
while read -r mutant part; do
    times=() detected=0
    for ((run = 0; run < runs; run++)); do
        # Twice, as the machine may have been busy.
        if detects "$mutant" "$part" || detects "$mutant" "$part"; then
            detected=$((detected + 1))
            what=$(sed -nE 's/^torture [a-z]+: FAILED, //p' "$log")
            continue
        fi
        cat "$log"
        if control; then
            echo "SURVIVES  $mutant (torture $part)" >&2
            survivors=$((survivors + 1))
        else
            not_conclusive "$mutant (torture $part) was not detected, and neither was the control after it"
        fi
    done
    ((detected > 0)) || continue
    mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
    printf 'detected  %-26s %-7s %6s s, at most %6s s  %.90s\n' "$mutant" "$part" "${times[${#times[@]} / 2]}" \
        "${times[-1]}" "${what:-it crashes}"
done <<<"$rows"
((survivors == 0)) || exit 1
conclude
