#!/usr/bin/env bash
# The package that crates.io would get builds with the oldest supported Rust and glibc, is refused with a clear message
# on other systems, and has the public API of docs/api.txt (`ci/package.sh record` updates that file). `ci/fallback.sh`
# tests the package.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

package
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
echo "-- Rust $oldest"
rustup toolchain install "$oldest" --profile minimal --no-self-update >/dev/null
cargo "+$oldest" check --manifest-path "$packaged" --target-dir target/oldest --locked --quiet

echo "-- glibc 2.17"
zig=$scratch/zig
python3 -m venv "$zig"
"$zig/bin/pip" install --quiet ziglang==0.17.1
printf '#!/bin/sh\nexec %s -m ziglang cc -target x86_64-linux-gnu.2.17 "$@"\n' "$zig/bin/python" >"$scratch/cc"
chmod +x "$scratch/cc"
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=$scratch/cc cargo build --manifest-path "$packaged" --example unloaded \
    --target x86_64-unknown-linux-gnu --target-dir target/oldest --locked --quiet

echo "-- not Linux"
rustup target add x86_64-unknown-freebsd 2>/dev/null
if log=$(cargo check --manifest-path "$packaged" --target x86_64-unknown-freebsd --target-dir target/oldest --quiet 2>&1) ||
    [[ $(grep --max-count 1 ^error <<<"$log") != *'64-bit Linux only'* ]]; then
    printf 'the first error on another system is not the one expected:\n%s\n' "$log" >&2
    exit 1
fi

echo "-- the public API"
version=0.52.0
cargo public-api --version 2>/dev/null | grep --quiet "$version" ||
    cargo install --quiet --debug --locked "cargo-public-api@$version"
cargo +nightly public-api --package stillpoint --features lock_api_04,lock-events,metrics,serde,signal-fence,tracing -sss \
    --target-dir target/api >"$scratch/api.txt"
if [[ ${1-} == record ]]; then cp "$scratch/api.txt" docs/api.txt; fi
diff docs/api.txt "$scratch/api.txt" || {
    echo "The public API has changed. If that is intended, add it to CHANGELOG.md and run ci/package.sh record." >&2
    exit 1
}
