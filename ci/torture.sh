#!/usr/bin/env bash
# Runs the torture on each backend, for a minute in all, and the floods. Then breaks one step at a time, and expects the
# torture to detect each within some seconds, by a violation of the kind that is listed here: another one does not
# count. Takes four minutes or less after the builds.
#
# Controls: after them, the same program with nothing broken must pass, for as long and as often as a broken step is
# tried; and before them a library without fences must be detected. On a machine that is too busy for that, the exit
# status is 77: not checked.
#
# usage: ci/torture.sh [SECONDS [RUNS [PATTERN]]]   runs for SECONDS, and each broken step RUNS times (prints median,
#        maximum); only the steps, written `MUTANT PART`, that match PATTERN. 0 SECONDS leave the first part out.
#        ci/torture.sh names   only checks that the steps exist
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
unset STILLPOINT_FENCE STILLPOINT_PERCPU STILLPOINT_MUTANT
seconds=${1:-60} runs=${2:-1} pattern=${3:-.}
limit=8 # seconds in which a broken step must be detected
busy=50 # milliseconds: where threads wait for a CPU for longer, a step that was not detected proves nothing

# Mutant, part, and the kinds of violation of which one must be seen: a grace period ends too `early`; a wait does not
# end (`hang`), or the child of a fork does (`child`); callbacks are out of `order`; values are `lost`; two threads
# hold a lock (`exclusion`); a thread panics (`panic`), or the program dies (`crash`). `NAME/N` leaves the step out once
# in N times.
rows="no-wait rcu early
no-fence rcu early
no-fence-before-rescan rcu hang
no-rescan rcu hang
snapshot-joins-current-round rcu early
ready-before-grace-period rcu early
barrier-does-not-wait rcu order, child
no-wake-up rcu hang
served-not-woken rcu hang
no-leader-woken rcu hang
sleepers-not-woken rcu hang, child
run-without-notify rcu hang, child
no-wait qsbr early
snapshot-joins-current-round qsbr early
quiescent-state-does-not-check qsbr hang
idle-index-skipped srcu early
busy-index-skipped srcu early
grace-period-unfenced srcu early
leader-not-woken srcu hang
no-fence-before-sum srcu hang
wake-up-not-published srcu hang
hazard-not-stored hazard early
protection-not-checked hazard early
protected-value-freed hazard early
cpu-not-checked percpu crash
not-armed percpu lost, crash
stop-not-checked percpu lost, crash
room-not-checked percpu lost, crash, panic
no-kick lock hang
head-leaves-without-promoting lock hang
no-fence/100 rcu early
sleepers-not-woken/10 rcu hang, child
grace-period-unfenced/100 srcu early
no-kick/5 lock hang
notified-not-woken/100 lock hang
readers-ignored/100000 rwlock exclusion
sleeping-readers-not-woken/10 rwlock hang
writer-not-woken/10 rwlock hang
shut-without-fence rwlock exclusion
pair-not-copied/100000 map lost"
unknown=$(comm -23 <(sed 's/[ /].*//' <<<"$rows" | sort -u) <(steps_in stillpoint/src collections/src dropins/liburcu/core/src))
[[ -z $unknown ]] || fail "the torture breaks steps that the source does not have: $unknown"
[[ $seconds != names ]] || exit 0
rows=$(grep -E -- "$pattern" <<<"$rows")
parts=$(cut -d' ' -f2 <<<"$rows" | sort -u)

if [[ $seconds != 0 ]]; then
    cargo build --release --package stillpoint-torture
    unbroken=${CARGO_TARGET_DIR:-target}/release/torture
fi
RUSTFLAGS="--cfg stillpoint_mutants --cfg stillpoint_faults" cargo build --profile torture --package stillpoint-torture \
    --target-dir target/torture
torture=target/torture/torture/torture
log=$scratch/log

# try MUTANT PART: runs the torture with a broken step. Sets `found` to the kind of the violation: `crash` if the
# program was killed or panicked; `hang` if it had to be; empty if there was none, on a usage error, and if the run is
# not conclusive.
try() {
    local status=0 start=$EPOCHREALTIME
    # In a subshell, which writes the message about a crash to the log.
    (timeout $((limit + 5)) "$torture" "$2" --seconds "$limit" --mutant "$1"; exit $?) >"$log" 2>&1 || status=$?
    took=$(awk -v s="$start" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.2f", e - s }')
    # The first: several threads may see the same violation before the process ends.
    failed=$(grep -m 1 -E '^torture [a-z]+: FAILED \([a-z]+\), ' "$log" || true)
    found=$(sed -nE 's/^.* FAILED \(([a-z]+)\), .*/\1/p' <<<"$failed")
    if [[ -z $found ]] && ((status == 101 || status >= 128)); then found=crash; fi
    if [[ -z $found ]] && ((status == 1)); then found=other; fi
    if [[ -z $found ]] && ((status == 124)); then found=hang; fi
    return 0
}

# Succeeds if the torture detects a library without fences on this machine, now.
control() {
    for _ in 1 2; do
        try no-fence rcu
        [[ $found != early ]] || return 0
    done
    return 1
}

inconclusive=()
not_conclusive() {
    echo "NOT CONCLUSIVE  $1" >&2
    inconclusive+=("$1")
}

# Ends this script if a run was not conclusive.
conclude() {
    ((${#inconclusive[@]} > 0)) || return 0
    printf 'NOT CONCLUSIVE, the machine is too busy: %s\n' "${inconclusive[@]}" >&2
    exit 77
}

# Each part passes with nothing broken. If a wait takes too long, no broken step of the part that
# does the same proves anything (`unreliable`). Any other violation is one of the library: exits.
unreliable=
nothing_broken() {
    local part run
    echo "-- control: nothing broken"
    for part in $parts; do
        for ((run = 0; run < runs; run++)); do
            try nothing "$part"
            case $found in
                '') sed -n '/NOT CONCLUSIVE/p' "$log" ;;
                hang | child)
                    cat "$log"
                    unreliable+=" $part"
                    not_conclusive "torture $part, with nothing broken: $found"
                    ;;
                *)
                    cat "$log"
                    fail "torture $part, with nothing broken: $found"
                    ;;
            esac
        done
    done
}

echo "-- control: no fences"
control && controlled=1 || controlled=0

if [[ $seconds != 0 ]]; then
    echo "-- the library as it is"
    status=0
    "$unbroken" all --seconds "$seconds" || status=$?
    case $status in
        0) ;;
        77) not_conclusive "torture all" ;;
        *) exit 1 ;;
    esac
    "$unbroken" flood --count 5000000 --stall-seconds 0.5
    "$unbroken" hazard-flood --count 5000000 --writers 2
fi
if ((!controlled)); then
    not_conclusive "the control, a library without fences, was not detected; broken steps were not tried"
    conclude
fi

echo "-- broken steps"
survivors=0
while read -r mutant part kinds; do
    times=() wrong=()
    for ((run = 0; run < runs; run++)); do
        # Several times, as the machine may have been busy.
        for _ in 1 2 3 4; do
            try "$mutant" "$part"
            if [[ -n $found && ", $kinds," == *", $found,"* ]]; then
                times+=("$took")
                what=${failed#*FAILED (*), }
                continue 2
            fi
            [[ -z $found ]] || wrong+=("$found")
        done
        cat "$log"
        late=$(sed -nE 's/^torture .*waited for a CPU for up to ([0-9]+) ms$/\1/p' "$log")
        if ((${#wrong[@]} > 0)); then
            echo "SURVIVES  $mutant (torture $part): found ${wrong[*]}, not $kinds" >&2
            survivors=$((survivors + 1))
        elif ((${late:-0} > busy)); then
            not_conclusive "$mutant (torture $part) was not detected, where threads waited for a CPU for up to $late ms"
        elif control; then
            echo "SURVIVES  $mutant (torture $part)" >&2
            survivors=$((survivors + 1))
        else
            not_conclusive "$mutant (torture $part) was not detected, and neither was the control after it"
        fi
    done
    ((${#times[@]} > 0)) || continue
    mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
    printf 'detected  %-26s %-7s %6s s, at most %6s s  %.90s\n' "$mutant" "$part" "${times[${#times[@]} / 2]}" \
        "${times[-1]}" "${what:-it crashes}"
done <<<"$rows"
nothing_broken
if [[ -n $unreliable ]]; then
    echo "waits that do not end prove nothing in:$unreliable" >&2
fi
((survivors == 0)) || exit 1
conclude
