#!/usr/bin/env bash
# The package that crates.io would get builds with the oldest supported Rust and glibc, and is refused with a clear
# message on targets without atomics of 64 bits (`ci/portable.sh` checks other systems). The public API of each
# package is that of ci/api (`ci/package.sh record` updates these files). `ci/fallback.sh` tests the package.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

package
echo "-- Rust $rust_oldest"
cargo "+$rust_oldest" check --manifest-path "$packaged" --target-dir target/oldest --locked --quiet
cargo "+$rust_oldest" check --package stillpoint-collections --package stillpoint-tokio --package stillpoint-capi \
    --package crossbeam-epoch --package stillpoint-pthread --package stillpoint-urcu-memb --package stillpoint-urcu-bp --target-dir target/oldest \
    --locked --quiet
cargo "+$rust_oldest" check --manifest-path dropins/arc-swap/Cargo.toml --target-dir target/oldest --locked --quiet

echo "-- glibc 2.17"
printf '#!/bin/sh\nexec %s -m ziglang cc -target x86_64-linux-gnu.2.17 "$@"\n' "$PWD/target/tools/python/bin/python" \
    >"$scratch/cc"
chmod +x "$scratch/cc"
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=$scratch/cc cargo build --manifest-path "$packaged" --example unloaded \
    --target x86_64-unknown-linux-gnu --target-dir target/oldest --locked --quiet

echo "-- no atomics of 64 bits"
other=powerpc-unknown-linux-gnu
if log=$(cargo check --manifest-path "$packaged" --target $other --target-dir target/oldest --quiet 2>&1) ||
    [[ $(grep ^error <<<"$log" | grep -v 'could not compile') != 'error: stillpoint needs atomics of 64 bits, which this target lacks' ]]; then
    fail "the only error on $other is not the one expected: $log"
fi
echo "$other: refused"

echo "-- the public API"
PATH=$PWD/target/tools/bin:$PATH RUSTUP_TOOLCHAIN=$rust_nightly ci/api.sh "$scratch/api"
if [[ ${1-} == record ]]; then cp "$scratch"/api/* ci/api/; fi
diff -r ci/api "$scratch/api" ||
    fail "the public API has changed; if that is intended, add it to CHANGELOG.md and run ci/package.sh record"
