#!/usr/bin/env bash
# Tests of the library under ThreadSanitizer, AddressSanitizer (with leak detection) and valgrind's memcheck. The
# sanitizers must also report programs that leave out one step, and report nothing in the same programs with that
# step. The first two need a nightly toolchain with rust-src (`ci/setup.sh`). Takes half a minute after the builds.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
unset STILLPOINT_PERCPU STILLPOINT_FENCE STILLPOINT_MUTANT RUSTFLAGS

limit=600 # seconds after which a program counts as hanging
export RUST_BACKTRACE=0
log=$scratch/log

# reports WHAT: ends the check, and shows what the program has written.
reports() {
    cat "$log" >&2
    fail "$*"
}

# passes WHAT COMMAND...: the command succeeds, and nothing is reported.
passes() {
    local what=$1 begin=$SECONDS status=0
    shift
    timeout "$limit" "$@" >"$log" 2>&1 || status=$?
    ((status == 0)) || reports "$what: status $status"
    grep --quiet -E '^(ended|test result: ok\. [1-9])' "$log" || reports "$what: did not run"
    printf 'clean     %-40s %3d s\n' "$what" $((SECONDS - begin))
}

# detects STEP REPORT COMMAND...: the program without the step is reported as REPORT, the one with it is not reported.
detects() {
    local step=$1 report=$2 status=0
    shift 2
    passes "wrong $step taken" "$@" "$step" taken
    # In a subshell, which writes the message about a crash to the log.
    (timeout "$limit" "$@" "$step" left-out) >"$log" 2>&1 || status=$?
    ((status == code)) && grep --quiet -E "$report" "$log" || reports "SURVIVES  $step: status $status, no report of $report"
    printf 'reported  %-40s %s\n' "wrong $step left-out" "$(grep -m1 -oE "$report" "$log")"
}

# fuzz COMMAND...: the random programs pass. Leaves out the programs of broken variants, which may leak.
fuzz() {
    passes fuzz "$@" "${binary[fuzz]}" match_the_model
}

host=$(rustc -vV | sed -n 's/^host: //p')
code=66 # exit status of a program with a report

if ! sysroot=$(rustc "+$rust_nightly" --print sysroot 2>/dev/null) || [[ ! -d $sysroot/lib/rustlib/src/rust/library ]]; then
    cannot "there is no nightly toolchain with rust-src"
fi
compgen -G "$sysroot/lib/rustlib/$host/lib/librustc-*_rt.tsan.a" >/dev/null ||
    cannot "the nightly toolchain has no sanitizers for $host"
nightly=(cargo "+$rust_nightly" test --package stillpoint-sanitizers --target "$host" --test fuzz --test use_after_free)

echo "-- ThreadSanitizer, with an instrumented standard library; it does not see rseq critical sections"
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only
export RUSTFLAGS="-Zsanitizer=thread"
build "${nightly[@]}" -Zbuild-std --target-dir target/tsan
export TSAN_OPTIONS="halt_on_error=1 exitcode=$code" STILLPOINT_PERCPU=atomic
wrong=(target/tsan/"$host"/debug/wrong)
detects grace-period 'heap-use-after-free|data race' "${wrong[@]}"
detects release 'data race' "${wrong[@]}"
fuzz
passes use_after_free "${binary[use_after_free]}"
unset STILLPOINT_PERCPU

echo "-- AddressSanitizer, with leak detection"
export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer"
build "${nightly[@]}" --target-dir target/asan
export ASAN_OPTIONS="detect_leaks=1 exitcode=$code"
wrong=(target/asan/"$host"/debug/wrong)
detects grace-period 'heap-use-after-free' "${wrong[@]}"
detects free 'detected memory leaks' "${wrong[@]}"
fuzz
# This test leaks on purpose.
passes use_after_free env ASAN_OPTIONS="detect_leaks=0 exitcode=$code" "${binary[use_after_free]}"

echo "-- memcheck, without rseq, with the fence backend seqcst"
command -v valgrind >/dev/null || cannot "there is no valgrind"
unset RUSTFLAGS CARGO_PROFILE_DEV_OPT_LEVEL CARGO_PROFILE_DEV_DEBUG
build cargo test --package stillpoint-sanitizers --test fuzz
memcheck=(valgrind --quiet --fair-sched=yes --error-exitcode=$code --leak-check=full --errors-for-leak-kinds=definite)
wrong=("${memcheck[@]}" ${CARGO_TARGET_DIR:-target}/debug/wrong)
detects grace-period 'Invalid read' "${wrong[@]}"
detects free 'definitely lost' "${wrong[@]}"
export PROPTEST_CASES=5
# Only the fallback of per-CPU data, without child processes with other modes.
export STILLPOINT_TEST_CHILD=1 STILLPOINT_FENCE=seqcst
fuzz "${memcheck[@]}"
