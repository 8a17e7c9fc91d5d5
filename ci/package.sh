#!/usr/bin/env bash
# The package that crates.io would get builds with the oldest supported Rust and glibc, is refused with a clear message
# on other systems, and has the public API of docs/api.txt (`ci/package.sh record` updates that file). `ci/fallback.sh`
# tests the package.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

package
echo "-- Rust $rust_oldest"
cargo "+$rust_oldest" check --manifest-path "$packaged" --target-dir target/oldest --locked --quiet

echo "-- glibc 2.17"
printf '#!/bin/sh\nexec %s -m ziglang cc -target x86_64-linux-gnu.2.17 "$@"\n' "$PWD/target/tools/python/bin/python" \
    >"$scratch/cc"
chmod +x "$scratch/cc"
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=$scratch/cc cargo build --manifest-path "$packaged" --example unloaded \
    --target x86_64-unknown-linux-gnu --target-dir target/oldest --locked --quiet

echo "-- not Linux"
if log=$(cargo check --manifest-path "$packaged" --target x86_64-unknown-freebsd --target-dir target/oldest --quiet 2>&1) ||
    [[ $(grep --max-count 1 ^error <<<"$log") != *'64-bit Linux only'* ]]; then
    printf 'the first error on another system is not the one expected:\n%s\n' "$log" >&2
    exit 1
fi

echo "-- the public API"
PATH=$PWD/target/tools/bin:$PATH cargo "+$rust_nightly" public-api --package stillpoint --features lock_api_04,lock-events,metrics,serde,signal-fence,tracing -sss \
    --target-dir target/api >"$scratch/api.txt"
if [[ ${1-} == record ]]; then cp "$scratch/api.txt" docs/api.txt; fi
diff docs/api.txt "$scratch/api.txt" || {
    echo "The public API has changed. If that is intended, add it to CHANGELOG.md and run ci/package.sh record." >&2
    exit 1
}
