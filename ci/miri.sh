#!/usr/bin/env bash
# The library in Miri, with strict provenance: pointers, guards, values that are retired, callbacks and their worker,
# in domains of all kinds, the hash maps, and atomic `Arc`s, these with any number of seeds: each is another schedule,
# with other stale loads. Miri checks aliasing, initialization, data races, and orderings weaker than the processor's.
#
# Miri lacks `membarrier`, rseq and futexes of half a word. So fences are those of the backend `seqcst`, per-CPU data
# uses atomics, and threads that sleep poll. Not checked: other backends, rseq critical sections, signals, forks. Only
# `stillpoint/src/sys` and `sync/native.rs` depend on `cfg(miri)`. Locks, whose futexes have half a word, run on the
# portable code only; `parking_lot_core` below it makes pointers of integers.
#
# Needs Miri (`ci/setup.sh`). Takes three minutes after the build.
#
#   ci/miri.sh          all of it
#   ci/miri.sh cells N  only the schedules of atomic `Arc`s, with N seeds: some hundred take an hour
#   ci/miri.sh portable only the portable code, with the test programs of all parts of the API. Takes 40 minutes
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

cargo "+$rust_nightly" miri --version >/dev/null 2>&1 || cannot "Miri is not installed"

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
    export RUSTFLAGS="--cfg stillpoint_portable"
    # all_of PROGRAM FACTOR [SKIP...]: its tests on the portable code, with loops that are shorter by that factor.
    # Each in a process of its own: a thread that waits for a leaked guard looks again and again, and keeps Miri busy.
    all_of() {
        local skips=("${@:3}")
        miri=(cargo "+$rust_nightly" miri test --quiet --target-dir target/miri-portable --package stillpoint --test "$1")
        export MIRIFLAGS="${flags/FACTOR=100/FACTOR=$2} -Zmiri-ignore-leaks -Zmiri-env-set=STILLPOINT_TEST_CHILD=1"
        echo "-- tests/$1 on the portable code"
        "${miri[@]}" -- --list --format terse "${skips[@]/#/--skip=}" >"$scratch/list"
        each alone < <(sed -n 's/: test$//p' "$scratch/list") | sort | uniq --count
    }
    alone() {
        local log
        if ! log=$(timeout 1800 "${miri[@]}" -- --exact "$1" 2>&1) || ! grep -oE '1 (passed|ignored)' <<<"$log"; then
            printf '%s\nFAILS     %s\n' "$log" "$1" >&2
            return 1
        fi
    }
    # Not in Miri: signals, and children without threads or system calls. Threads have one CPU, and no list of them
    # can be read. Left out besides: tests that take longer than a minute, most of them because much has to wait
    # before a limit is reached, or because the library waits in real time.
    all_of contracts 100 layers::
    all_of qsbr 100 limits_hold no_cpu_time at_quiescent_states
    all_of percpu 100
    all_of arc 100
    all_of stall 100 short_grace_period
    all_of srcu 100 without_worker
    all_of rcu 100 bounded without_worker callers_outside byte_limit idle_process \
        no_thread_can_start repin_lets above_the_limit goes_on_soon local_destructor_may_wait each_wake \
        local_destructor_runs deep_stack further_activity in_a_thread_local \
        needs_no_allocation what_they_own over_local_entries are_paced
    # Without threads that choose their CPU, or that are known to sleep, and without two tests of many threads.
    all_of lock 1000 stalled_head another_cpu unlock_fair few_of_many_writes
    all_of hazard 1000
    exit
fi

echo "-- without leaks"
# Tests in which no thread of the library starts: an idle one outlives the program, and counts as a leak.
export MIRIFLAGS=$flags
run stillpoint rcu below_the_alignment gives_the_new_pointer_back shared_and_back without_size
cargo "+$rust_nightly" miri test --quiet --target-dir target/miri --package stillpoint-collections --lib free_list -- \
    --skip batch
# Not in children, which cannot be started. Threads that migrate have nothing to migrate to.
MIRIFLAGS="$flags -Zmiri-env-set=STILLPOINT_TEST_CHILD=1" run stillpoint percpu arc:: ref_count:: --skip fork_child \
    --skip while_threads_migrate --skip registered_and_unregistered
echo "-- with threads of the library"
export MIRIFLAGS="$flags -Zmiri-ignore-leaks"
run stillpoint rcu atomic:: pointer:: unchecked:: barriers::barrier_with \
    handles::destructors_may --skip raw_pointer_needs_no_allocation
cargo "+$rust_nightly" miri test --quiet --target-dir target/miri --package stillpoint-collections --lib batch
run stillpoint qsbr handle::grace_period_waits handle::late_handle_drop
run stillpoint srcu guard::owned_guard guard::guard_outliving guard::handles_of
run stillpoint hazard node_at_the_address
run stillpoint loom_structures stack list
echo "-- atomic Arcs"
run stillpoint arc counts:: deferred::guard destructors:: threads::
cargo "+$rust_nightly" miri test --quiet --target-dir target/miri --package arc-swap --test reported
echo "-- the hash map"
run stillpoint-collections hash_map entry_is value_is_updated closure_of_compute view_has static_map taken_apart \
    leaks_no_other removed_entry_stays drained_map
echo "-- the map of plain pairs"
run stillpoint-collections copy_map values_that_are keys_are closure_that domains::
run stillpoint-collections maps concurrent_
