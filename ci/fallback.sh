#!/usr/bin/env bash
# The tests of the library that depend on fences, in release builds, on each fence backend but the default one,
# requested or as the fallback (the tests of the fence select backends themselves).
#
#   ci/fallback.sh      these
#   ci/fallback.sh all  and on the default one, with every wait audited (`grace_period/audit.rs`): three minutes more
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
unset STILLPOINT_FENCE

cargo build --release --package stillpoint-torture
torture=${CARGO_TARGET_DIR:-target}/release/torture
export CARGO_PROFILE_RELEASE_LTO=off # faster builds; nothing is measured here
suite=(cargo test --release --package stillpoint --locked --target-dir target/fallback)
fenced=(arc fork fuzz hazard lock rcu allocator srcu stall)
others=(--lib)
[[ ${1-} != all ]] || others+=(--test fence --test percpu --test qsbr)
build "${suite[@]}" "${others[@]}" "${fenced[@]/#/--test=}"

# passes "NAME FILTER...": the test program passes, in the folder in which cargo would run it.
passes() {
    local log name filters
    read -r name filters <<<"$1"
    # shellcheck disable=SC2086
    if ! log=$(cd stillpoint && timeout 900 "${binary[$name]}" --quiet $filters 2>&1); then
        printf '%s\nFAILS     %s\n' "$log" "$1"
        return 1
    fi
    sed -nE "s/^test result: ok\. ([0-9]+) passed.* finished in (.*)$/passes    $1: \1, \2/p" <<<"$log"
}

# run PATTERN...: runs the test programs with such names, one per processor at a time: many of them mostly sleep.
run() {
    local pattern name
    for pattern; do
        for name in "${!binary[@]}"; do
            # shellcheck disable=SC2053
            [[ $name != $pattern ]] || echo "$name"
        done
    done >"$scratch/names"
    each passes < <(sort -u "$scratch/names")
}

if [[ ${1-} == all ]]; then
    echo "-- the default backend: $("$torture" probe | sed -n 's/^fence  *//p')"
    run '*'
fi

echo "-- STILLPOINT_FENCE=seqcst"
export STILLPOINT_FENCE=seqcst
run "${fenced[@]}"
# Handlers at each instruction of the paths that this backend takes.
passes 'stillpoint rcu::tests::'
unset STILLPOINT_FENCE

for errno in ENOSYS EPERM; do
    echo "-- membarrier fails with $errno"
    denied=("$torture" seccomp-deny --errno "$errno" membarrier --)
    probe=$("${denied[@]}" "$torture" probe) ||
        fail "CANNOT CHECK: a process on this host cannot deny itself a system call"
    grep --quiet '^membarrier .*os error' <<<"$probe" && grep --quiet '^fence  *seqcst' <<<"$probe" ||
        fail "membarrier was not denied, or the library did not fall back: $probe"
    # The backend `seqcst` has been tested above.
    "${denied[@]}" "${binary[rcu]}" --quiet grace_period:: guard::
    "${denied[@]}" "${binary[fork]}" --quiet rcu::
done

[[ ${1-} == all ]] || exit 0
echo "-- every wait is audited"
binary=()
RUSTC_WORKSPACE_WRAPPER=$PWD/ci/cfg/stillpoint_audit build "${suite[@]}" --lib --test rcu
printf '%s\n' stillpoint 'rcu callbacks:: cookie:: grace_period::' >"$scratch/names"
each passes <"$scratch/names"
