#!/usr/bin/env bash
# The library's tests in release builds of the packaged files: all tests on the default fence backend, and those that
# depend on fences on each backend, requested or as the fallback (the tests of the fence select backends themselves).
# Then with every wait audited (`grace_period/audit.rs`). The signal backend needs the feature `signal-fence`.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
unset STILLPOINT_FENCE

cargo build --release --package stillpoint-lab --features liburcu
stillpoint=${CARGO_TARGET_DIR:-target}/release/stillpoint
export CARGO_PROFILE_RELEASE_LTO=off # faster builds; nothing is measured here
package
suite=(cargo test --release --manifest-path "$packaged" --locked --target-dir target/packaged --quiet)
fenced=("${suite[@]}" --test 'rcu_*' --test 'rwlock*' --test 'srcu_*' --test 'fuzz_g*' --test fuzz_rwlock)

echo "-- the default backend: $("$stillpoint" probe | sed -n 's/^fence  *//p')"
"${suite[@]}" --lib --test seccomp --test fence --test 'lock*' --test 'fuzz_*' --test 'percpu*' --test 'qsbr*' --test 'rcu_*' --test 'rwlock*' --test 'srcu_*'

echo "-- STILLPOINT_FENCE=seqcst"
STILLPOINT_FENCE=seqcst "${fenced[@]}"

echo "-- STILLPOINT_FENCE=signal"
"${suite[@]}" --features signal-fence --lib --test seccomp --test fence
STILLPOINT_FENCE=signal "${fenced[@]}" --features signal-fence

for errno in ENOSYS EPERM; do
    echo "-- membarrier fails with $errno"
    if ! probe=$("$stillpoint" seccomp-deny --errno "$errno" membarrier -- "$stillpoint" probe); then
        echo "CANNOT CHECK: a process on this host cannot deny itself a system call" >&2
        exit 1
    fi
    if ! grep --quiet '^membarrier .*os error' <<<"$probe" || ! grep --quiet '^fence  *seqcst' <<<"$probe"; then
        printf 'membarrier was not denied, or the library did not fall back:\n%s\n' "$probe" >&2
        exit 1
    fi
    # The backend `seqcst` has been tested above.
    "$stillpoint" seccomp-deny --errno "$errno" membarrier -- "${suite[@]}" --test 'rcu_g*' --test rcu_fork
done

echo "-- every wait is audited"
RUSTFLAGS="${RUSTFLAGS:-} --cfg stillpoint_audit" "${suite[@]}" --lib --test 'rcu_c*' --test rcu_grace_period
