#!/usr/bin/env bash
# Tests of per-CPU data beyond `cargo test`: with faults at every point of every rseq critical section, with each step
# broken (the tests must fail), by an old compiler, without the C library's registration, with
# rseq denied, under valgrind, single-stepped by a debugger, and in a library that is closed; the assembly of other
# architectures. Takes two minutes after the builds.
#
#   ci/percpu.sh      these
#   ci/percpu.sh all  and with link-time optimization, with musl, and in an emulator of aarch64: minutes more
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
unset STILLPOINT_PERCPU STILLPOINT_FENCE

cargo build --release --package stillpoint-torture
export CARGO_PROFILE_RELEASE_LTO=off # faster builds; nothing is measured here

limit=900 # seconds after which a test counts as hanging
log=$scratch/log

echo "-- faults at every point of every section"
export RUST_BACKTRACE=0
# In the folder of `ci/fallback.sh`, with its other crates.
cfg_faults=$PWD/ci/cfg/stillpoint_faults
with_faults=(--release --target-dir target/fallback --test faults_percpu --test percpu)
RUSTC_WORKSPACE_WRAPPER=$cfg_faults build cargo test --package stillpoint "${with_faults[@]}"
"${binary[faults_percpu]}"
for environment in UNUSED=1 GLIBC_TUNABLES=glibc.pthread.rseq=0 STILLPOINT_PERCPU=atomic; do
    env "$environment" STILLPOINT_TEST_CHILD=1 "${binary[faults_percpu]}" --nocapture \
        --exact faults_at_every_point_preserve_results 2>&1 | grep 'combinations'
done

echo "-- broken sections and steps"
# Patches need a build each: see `ci/mutants.sh`.
patches=$(patches)
rows=$(refutes | grep -E ' (faults_percpu|percpu[a-z_]*) ' | while read -r mutant program test; do
    is_patch "$mutant" || echo "$mutant $program::$test"
done)
diff <(steps_in stillpoint/src/percpu) <(cut -d' ' -f1 <<<"$rows" | sort -u) ||
    fail "the mutants in src/percpu (<) and those that tests refute (>) differ"
refuted=0
while read -r mutant test; do
    start=$EPOCHREALTIME
    # Some mutants have an effect only at rare moments, and on a busy machine in few runs.
    for ((try = 0; try < 50; try++)); do
        status=0
        (STILLPOINT_MUTANT=$mutant timeout "$limit" "${binary[${test%%::*}]}" --exact "${test#*::}") >"$log" 2>&1 || status=$?
        ((status != 0)) && break
    done
    ((status != 0 && status != 124)) || fail "SURVIVES  $mutant ($test)"
    seconds=$(awk -v s="$start" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.1f", e - s }')
    printf 'refuted   %-26s %-60s %5s s\n' "$mutant" "$test" "$seconds"
    refuted=$((refuted + 1))
done <<<"$rows"
echo "$refuted mutants refuted"

echo "-- the sections of compilers without labels: Rust $rust_oldest"
RUSTC_WORKSPACE_WRAPPER=$cfg_faults cargo "+$rust_oldest" test --package stillpoint --release --target-dir target/oldest \
    --quiet --test faults_percpu --test percpu

echo "-- rseq is denied, and the C library does not register threads"
torture=${CARGO_TARGET_DIR:-target}/release/torture
build cargo test --workspace --test percpu
for errno in ENOSYS EPERM; do
    denied=("$torture" seccomp-deny --errno "$errno" rseq --)
    report=$("${denied[@]}" env GLIBC_TUNABLES=glibc.pthread.rseq=0 "$torture" probe | sed -n 's/^percpu *//p')
    echo "$errno: $report"
    grep --quiet '^atomic: .*the kernel refuses' <<<"$report"
    "${denied[@]}" "${binary[percpu]}" --quiet pool:: ref_count:: arc::
done
# Stopping an area, and killing a count, need membarrier.
"$torture" seccomp-deny membarrier -- "${binary[percpu]}" --quiet pool:: ref_count:: arc::

echo "-- valgrind: threads cannot be registered"
valgrind --error-exitcode=9 --quiet --fair-sched=yes "${binary[percpu]}" --exact pool::pop_returns_the_last_pushed
valgrind --error-exitcode=9 --quiet --fair-sched=yes "${binary[percpu]}" --exact counters::signed_counter_counts_down

echo "-- a debugger single-steps an add"
cargo build --release --package stillpoint --example assembly --target-dir target/fallback
example=target/fallback/release/examples/assembly
# Every step interrupts the section. The function returns within the steps that all attempts take.
gdb --batch --nx --eval-command 'break count' --eval-command 'ignore 1 1' --eval-command run \
    --eval-command 'stepi 2000' --eval-command 'info symbol $pc' --eval-command delete --eval-command continue \
    "$example" >"$log" 2>&1 || true
if ! grep --quiet 'exited normally' "$log" || grep --quiet -E '^(count|.*add_slow.*) .*in section' "$log"; then
    cat "$log"
    fail "the single-stepped add did not return, or the program failed"
fi

echo "-- a static program: no symbols to look up"
RUSTFLAGS="-C target-feature=+crt-static" cargo build --package stillpoint --target x86_64-unknown-linux-gnu \
    --target-dir target/static --release --example assembly
target/static/x86_64-unknown-linux-gnu/release/examples/assembly

echo "-- aarch64 and riscv64: assembly"
for target in aarch64-unknown-linux-gnu riscv64gc-unknown-linux-gnu; do
    cargo rustc --package stillpoint --release --lib --target "$target" -- -D warnings
done

echo "-- a shared library is closed while threads use it"
cargo build --workspace --example unloaded
cargo test --package stillpoint --quiet --test percpu unload:: -- --include-ignored

[[ ${1-} == all ]] || exit 0
echo "-- across all crates"
CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
    cargo test --package stillpoint --release --target-dir target/lto --quiet --test percpu -- pool::

echo "-- musl: the C library does not register threads"
RUSTC_WORKSPACE_WRAPPER=$cfg_faults cargo test --package stillpoint --target x86_64-unknown-linux-musl \
    --target-dir target/faults --quiet --test percpu --test memory --test allocator --test faults_percpu

echo "-- aarch64: uninterrupted sections, and the fallback"
# The emulator has no rseq and cannot start programs, so each test runs in its own process, not in a child. Now and
# then the child of a fork hangs there, if other threads run: tests that fork run one after the other.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
cargo test --package stillpoint --release --target aarch64-unknown-linux-gnu --quiet --lib percpu::rseq
export STILLPOINT_TEST_CHILD=1
emulated=(cargo test --package stillpoint --release --target aarch64-unknown-linux-gnu --quiet --test percpu --)
"${emulated[@]}" pool:: ref_count:: arc:: --skip fork_child
"${emulated[@]}" fork_child --test-threads=1
