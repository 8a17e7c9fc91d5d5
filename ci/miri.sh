#!/usr/bin/env bash
# The library in Miri, with strict provenance: pointers, guards, values that are retired, callbacks and their worker, in
# domains of all kinds. Miri checks aliasing, initialization, data races, and orderings weaker than the processor's.
#
# Miri lacks `membarrier`, rseq and futexes of half a word. So fences are those of the backend `seqcst`, per-CPU data
# uses atomics, and threads that sleep poll. Not checked: other backends, rseq critical sections, wake-ups, signals,
# forks, locks. Only `stillpoint/src/sys` and `sync/native.rs` depend on `cfg(miri)`.
#
# Needs Miri (`ci/setup.sh`). Takes a minute after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh

if ! cargo "+$rust_nightly" miri --version >/dev/null 2>&1; then
    echo "CANNOT CHECK: Miri is not installed" >&2
    exit 77 # see .ci/run
fi

miri=(cargo "+$rust_nightly" miri test --quiet --package stillpoint --target-dir target/miri)
# Files cannot be read, which the library expects. The clock belongs to the interpreter.
flags="-Zmiri-strict-provenance -Zmiri-isolation-error=hide -Zmiri-env-set=STILLPOINT_TEST_TIME_FACTOR=100"

echo "-- without leaks"
# Tests in which no thread of the library starts: an idle one outlives the program, and counts as a leak.
single=(does_not_leak every_alignment below_the_alignment gives_the_new_pointer_back shared_and_back without_size)
MIRIFLAGS=$flags "${miri[@]}" --test rcu -- "${single[@]}"
echo "-- with threads of the library"
export MIRIFLAGS="$flags -Zmiri-ignore-leaks"
"${miri[@]}" --test rcu -- atomic:: pointer:: unchecked:: callbacks::barrier_panics callbacks::barrier_with \
    callbacks::callback_may --skip raw_pointer_needs_no_allocation
"${miri[@]}" --test qsbr -- handle::callback_waits handle::grace_period_waits handle::late_handle
"${miri[@]}" --test srcu -- guard::clones_are_handles guard::dropped_task
echo "-- the hash map"
cargo "+$rust_nightly" miri test --quiet --package stillpoint-collections --target-dir target/miri --test hash_map -- \
    entry_is update_replaces compute_does view_has new_value map_works iterator_sees every_key static_map taken_apart \
    leaks_no_other
