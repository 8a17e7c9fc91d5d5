#!/usr/bin/env bash
# The library in Miri, with strict provenance: pointers, guards, values that are retired, callbacks and their worker, in
# domains of all kinds, the hash maps, and atomic `Arc`s, these with any number of seeds: each is another schedule, with other
# stale loads. Miri checks aliasing, initialization, data races, and orderings weaker than the processor's.
#
# Miri lacks `membarrier`, rseq and futexes of half a word. So fences are those of the backend `seqcst`, per-CPU data
# uses atomics, and threads that sleep poll. Not checked: other backends, rseq critical sections, signals, forks. Only
# `stillpoint/src/sys` and `sync/native.rs` depend on `cfg(miri)`. Locks, whose futexes have half a word, run on the portable
# code, with hazard pointers; `parking_lot_core` below it makes pointers of integers.
#
# Needs Miri (`ci/setup.sh`). Takes three minutes after the build.
#
#   ci/miri.sh          all of it
#   ci/miri.sh cells N  only the schedules of atomic `Arc`s, with N seeds: some hundred take an hour
#   ci/miri.sh portable only the portable code: locks and hazard pointers. Takes a quarter of an hour
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh

if ! cargo "+$rust_nightly" miri --version >/dev/null 2>&1; then
    echo "CANNOT CHECK: Miri is not installed" >&2
    exit 77 # see .ci/run
fi

# Files cannot be read, which the library expects. The clock belongs to the interpreter.
flags="-Zmiri-strict-provenance -Zmiri-isolation-error=hide -Zmiri-env-set=STILLPOINT_TEST_TIME_FACTOR=100"

# run PACKAGE PROGRAM FILTER... [--skip TEST]: the tests whose names contain a filter, each of which must select some.
run() {
    local miri=(cargo "+$rust_nightly" miri test --quiet --target-dir target/miri --package "$1" --test "$2") filter names
    shift 2
    names=$(MIRIFLAGS=$flags "${miri[@]}" -- --list --format terse)
    for filter; do
        [[ $filter == --* ]] || grep --quiet --fixed-strings "$filter" <<<"$names" ||
            { echo "no test has \`$filter\` in its name" >&2; return 1; }
    done
    "${miri[@]}" -- "$@"
}

if [[ ${1-} == cells ]]; then
    echo "-- atomic Arcs, $2 seeds"
    export MIRIFLAGS="$flags -Zmiri-ignore-leaks -Zmiri-many-seeds=0..$2"
    cargo "+$rust_nightly" miri test --quiet --target-dir target/miri --package arc-swap --test reported >/dev/null
    cargo "+$rust_nightly" miri test --quiet --target-dir target/miri --package stillpoint --test arc -- \
        threads::guards stress:: deferred::guard >/dev/null
    exit
fi

if [[ ${1-} == portable ]]; then
    flags=${flags/strict/permissive}
    export RUSTFLAGS="--cfg stillpoint_portable" MIRIFLAGS="${flags/FACTOR=100/FACTOR=1000} -Zmiri-ignore-leaks \
        -Zmiri-env-set=STILLPOINT_TEST_CHILD=1"
    miri=(cargo "+$rust_nightly" miri test --target-dir target/miri-portable --package stillpoint)
    echo "-- locks on the portable code"
    # Without signals; without threads that choose their CPU, which Miri has none of, or that are known to sleep; and
    # without three tests of many threads, which take longer than five minutes.
    "${miri[@]}" --test lock -- --skip stalled_head --skip another_cpu --skip unlock_fair \
        --skip more_threads_than_cpus --skip few_of_many_writes --skip threads_exclude
    echo "-- hazard pointers on the portable code"
    "${miri[@]}" --test hazard
    exit
fi

echo "-- without leaks"
# Tests in which no thread of the library starts: an idle one outlives the program, and counts as a leak.
export MIRIFLAGS=$flags
run stillpoint rcu does_not_leak every_alignment below_the_alignment gives_the_new_pointer_back shared_and_back without_size
cargo "+$rust_nightly" miri test --quiet --target-dir target/miri --package stillpoint-collections --lib recycled
# Not in children, which cannot be started. Threads that migrate have nothing to migrate to.
MIRIFLAGS="$flags -Zmiri-env-set=STILLPOINT_TEST_CHILD=1" run stillpoint percpu arc:: ref_count:: --skip fork_child \
    --skip words_of_many --skip while_threads_migrate --skip registered_and_unregistered
echo "-- with threads of the library"
export MIRIFLAGS="$flags -Zmiri-ignore-leaks"
run stillpoint rcu atomic:: pointer:: unchecked:: callbacks::barrier_panics callbacks::barrier_with \
    callbacks::callback_may --skip raw_pointer_needs_no_allocation
run stillpoint qsbr handle::callback_waits handle::grace_period_waits handle::late_handle
run stillpoint srcu guard::clones_are_handles guard::dropped_task
echo "-- atomic Arcs"
run stillpoint arc counts:: deferred::guard destructors:: sections:: threads::
cargo "+$rust_nightly" miri test --quiet --target-dir target/miri --package arc-swap --test reported
echo "-- the hash map"
run stillpoint-collections hash_map entry_is update_replaces compute_does view_has new_value map_works iterator_sees \
    every_key static_map taken_apart leaks_no_other removed_entry_stays
echo "-- the map of plain pairs"
run stillpoint-collections copy_map values_that_are keys_are closure_that concurrent_
