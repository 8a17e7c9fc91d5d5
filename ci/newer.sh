#!/usr/bin/env bash
# Shows what newer tools and crates would change: the newest Rust, nightly, cargo-public-api, ziglang, crates, and
# packages of the distribution. Fails only if it cannot ask. Not a check: `ci/versions.sh` and the lock files say what
# the checks use. To take newer versions, change them there (`cargo update`, `ci/compat.sh record`), and run `.ci/run`.
#
# The newest toolchains are installed below target/newer, not beside those in use. Some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

newer=$PWD/target/newer
packages=(--package stillpoint --package stillpoint-collections --package stillpoint-capi)
mkdir -p "$newer"
# with TOOLCHAIN COMMAND...: with the newest of a channel.
with() {
    RUSTUP_HOME=$newer/rustup RUSTUP_TOOLCHAIN=$1 "${@:2}"
}

echo "-- Rust: $rust_stable, $rust_nightly"
for channel in stable nightly; do
    with "$channel" rustup toolchain install "$channel" --profile minimal --component clippy --no-self-update \
        >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
    echo "newest: $(with "$channel" rustc --version)"
    echo "warnings of its clippy:"
    with "$channel" cargo clippy "${packages[@]}" --all-targets --target-dir "$newer/$channel" --message-format short 2>&1 |
        grep -E '^[a-z/_]+\.rs.*: (warning|error)' | sort -u || echo none
done

echo "-- the public API by the newest nightly and cargo-public-api"
cargo install --quiet --debug --locked --root "$newer/tools" cargo-public-api
echo "cargo-public-api: $cargo_public_api; newest: $("$newer/tools/bin/cargo-public-api" --version)"
PATH=$newer/tools/bin:$PATH with nightly ci/api.sh "$scratch/docs" || echo "it cannot be listed"
if diff docs/api.txt "$scratch/docs/api.txt" && diff -r docs/api "$scratch/docs/api"; then echo "unchanged"; fi

echo "-- ziglang: $ziglang"
target/tools/python/bin/pip index versions ziglang 2>/dev/null | sed -n 1p || echo "the newest is not known"

echo "-- crates of Cargo.lock"
cargo update --dry-run 2>&1 | grep -E '^ +(Updating|Adding|Removing|Downgrading) [a-z].* v' || echo "no newer ones"
for lock in ci/locks/fetch ci/locks/programs; do
    folder=target/compat/$(basename "$lock")
    echo "-- crates of $lock.lock"
    [[ -e $folder/Cargo.toml ]] || { echo "run ci/compat.sh first"; continue; }
    cargo update --dry-run --manifest-path "$folder/Cargo.toml" 2>&1 |
        grep -E '^ +(Updating|Adding|Removing|Downgrading) [a-z].* v' || echo "no newer ones"
done

echo "-- packages of the distribution that have newer versions (as of the last apt-get update)"
apt-get --simulate upgrade 2>/dev/null | sed -n 's/^Inst \([^ ]*\) \[\([^]]*\)\] (\([^ ]*\).*/\1 \2 -> \3/p'
