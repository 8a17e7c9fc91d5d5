#!/usr/bin/env bash
# Shows what newer tools and crates would change: the newest Rust, nightly, cargo-public-api, ziglang, crates, and
# packages of the distribution. Fails only if it cannot ask. Not a check: `ci/versions.sh` and the lists of crates say what
# the checks use. To take newer versions, change them there (`cargo update`, `ci/compat.sh record`), and run `.ci/run`.
#
# The newest toolchains are installed below target/newer, not beside those in use. Some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

newer=$PWD/target/newer
packages=(--package stillpoint --package stillpoint-collections --package stillpoint-tokio --package stillpoint-capi)
mkdir -p "$newer"
# with TOOLCHAIN COMMAND...: with the newest of a channel.
with() {
    RUSTUP_HOME=$newer/rustup RUSTUP_TOOLCHAIN=$1 "${@:2}"
}

# fail LOG: it could not ask.
fail() {
    cat "$1" >&2
    exit 1
}

echo "-- Rust: $rust_stable, $rust_nightly"
for channel in stable nightly; do
    with "$channel" rustup toolchain install "$channel" --profile minimal --component clippy --no-self-update \
        >"$scratch/log" 2>&1 || fail "$scratch/log"
    echo "newest: $(with "$channel" rustc --version)"
    echo "warnings of its clippy:"
    status=0
    with "$channel" cargo clippy "${packages[@]}" --all-targets --target-dir "$newer/$channel" --message-format short \
        >"$scratch/log" 2>&1 || status=$?
    grep -E '^[a-z0-9/_-]+\.rs.*: (warning|error)' "$scratch/log" | sort -u >"$scratch/warnings" || true
    if [[ -s $scratch/warnings ]]; then cat "$scratch/warnings"; elif ((status)); then fail "$scratch/log"; else echo none; fi
done

echo "-- the public API by the newest nightly and cargo-public-api"
cargo install --quiet --debug --locked --root "$newer/tools" cargo-public-api
echo "cargo-public-api: $cargo_public_api; newest: $("$newer/tools/bin/cargo-public-api" --version)"
# Not `ci/api/`, which may be older than the source.
if [[ ! -x target/tools/bin/cargo-public-api ]]; then
    echo "run ci/setup.sh first"
elif ! PATH=$PWD/target/tools/bin:$PATH RUSTUP_TOOLCHAIN=$rust_nightly ci/api.sh "$scratch/present" >"$scratch/log" 2>&1; then
    fail "$scratch/log"
elif ! PATH=$newer/tools/bin:$PATH with nightly ci/api.sh "$scratch/newest"; then
    echo "it cannot be listed"
elif diff -r "$scratch/present" "$scratch/newest"; then
    echo "unchanged"
fi

echo "-- ziglang: $ziglang"
if [[ -x target/tools/python/bin/pip ]]; then
    target/tools/python/bin/pip index versions ziglang 2>/dev/null | sed -n 1p || echo "the newest is not known"
else
    echo "run ci/setup.sh first"
fi

# updates OPTION...: what `cargo update` would change.
updates() {
    cargo update --dry-run "$@" >"$scratch/log" 2>&1 || fail "$scratch/log"
    grep -E '^ +(Updating|Adding|Removing|Downgrading) [a-z].* v' "$scratch/log" || echo "no newer ones"
}
echo "-- crates of Cargo.lock"
updates
for folder in target/compat/{fetch,programs}; do
    echo "-- crates of $folder, which ci/compat.sh makes"
    if [[ -e $folder/Cargo.toml ]]; then updates --manifest-path "$folder/Cargo.toml"; else echo "run ci/compat.sh first"; fi
done

echo "-- packages of the distribution that have newer versions (as of the last apt-get update)"
apt-get --simulate upgrade 2>/dev/null | sed -n 's/^Inst \([^ ]*\) \[\([^]]*\)\] (\([^ ]*\).*/\1 \2 -> \3/p'
