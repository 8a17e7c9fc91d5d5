#!/usr/bin/env bash
# Systems other than 64-bit Linux. Their code passes the tests on Linux, by `--cfg stillpoint_portable`; the packages
# are checked for other systems; and tests pass on Windows, as far as Wine is one (x86-64 only).
#
#   ci/portable.sh          runs what depends on the system in Wine: unit tests, fences, and threads that exit
#   ci/portable.sh windows  runs all tests there that can run: two minutes more
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
unset STILLPOINT_FENCE STILLPOINT_PERCPU
packages=(--package stillpoint --package stillpoint-collections --package crossbeam-epoch)

# counted COMMAND...: runs tests, and prints how many have passed.
counted() {
    local log=$scratch/tests
    if ! timeout 1800 "$@" >"$log" 2>&1; then
        cat "$log"
        return 1
    fi
    awk '/^test result: ok.* 0 filtered out/ { passed += $4; ignored += $8 } END { print passed " tests passed, " ignored " ignored" }' "$log"
}

echo "-- the portable code on Linux"
portable=(env RUSTFLAGS="--cfg stillpoint_portable" RUSTDOCFLAGS="--cfg stillpoint_portable"
    cargo test --locked --target-dir target/portable "${packages[@]}")
counted "${portable[@]}" --lib --test '*'
counted "${portable[@]}" --doc
"${portable[@]/test/clippy}" --all-targets --quiet -- --deny warnings

counted "${portable[@]}" --features stillpoint/statistics-page --test statistics_page

echo "-- other systems"
for target in x86_64-pc-windows-gnu x86_64-apple-darwin aarch64-apple-darwin x86_64-unknown-freebsd aarch64-linux-android \
    i686-unknown-linux-gnu; do
    RUSTFLAGS="--deny warnings" cargo check --locked --quiet --target-dir target/portable "${packages[@]}" --features stillpoint/statistics-page \
        --target "$target"
    echo "$target: builds"
done

echo "-- Windows"
# The standard library takes random numbers from a library that Wine 8.0 lacks.
wine=$PWD/target/portable/wine
mkdir -p "$wine"
cat >"$scratch/random.c" <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {
    return SystemFunction036(buffer, (ULONG)length);
}
END
x86_64-w64-mingw32-gcc -shared -o "$wine/bcryptprimitives.dll" "$scratch/random.c" -ladvapi32
export WINEPREFIX=$wine/prefix WINEPATH=Z:$wine WINEDEBUG=-all CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
wine --version
# Not the tests of locks: many need to see that a thread sleeps, which on a busy machine takes longer than they wait.
windows=(cargo test --locked --target-dir target/portable --target x86_64-pc-windows-gnu)
if [[ ${1-} == windows ]]; then
    counted "${windows[@]}" --package stillpoint --lib --test arc --test fence --test fuzz --test hazard --test percpu \
        --test qsbr --test rcu --test srcu --test stall
    counted "${windows[@]}" --package stillpoint-collections --lib --test '*'
else
    counted "${windows[@]}" --package stillpoint --lib --test fence --test hazard --test qsbr
    # Thread-local variables are keys there, which are destroyed in any order, and made again when they are used.
    "${windows[@]}" --quiet --package stillpoint --test rcu --test lock -- in_a_thread_local thread_local_destructor
fi

echo "-- torture of the portable code"
# Without signals and forks, which it does not allow. `ci/torture.sh` shows that the same program detects broken
# steps.
env RUSTFLAGS="--cfg stillpoint_portable" cargo run --locked --quiet --package stillpoint-torture --target-dir target/portable \
    -- all --seconds 16 >"$scratch/torture" 2>&1 || { status=$?; cat "$scratch/torture"; exit $status; } # 77: see .ci/run
grep -E '^torture [a-z]+: passed' "$scratch/torture"
