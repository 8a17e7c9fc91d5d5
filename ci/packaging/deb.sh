#!/usr/bin/env bash
# ci/packaging/deb.sh DIR: builds Debian packages of the files that git knows, and puts them into DIR. Needs cargo,
# debhelper, help2man, liburcu-dev; x86-64. Takes ten minutes on two CPUs, most of it for the lab.
#
# Cargo puts all crates beside the files first, and then builds without the network. What dpkg cannot check is the
# Rust toolchain, which comes from rustup here: so it is told not to check any (`--no-check-builddeps`).
set -euo pipefail
(($# == 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
target=${CARGO_TARGET_DIR:-$PWD/target}/deb
files=$target/stillpoint-$version # where dpkg-buildpackage leaves the packages beside

rm -rf "$files" "$target"/*.deb
mkdir -p "$files"/.cargo
git ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$files"
cargo vendor --quiet --locked "$files/vendor" >"$files/.cargo/config.toml"
sed -i "s|$files/||" "$files/.cargo/config.toml"

cp --recursive ci/packaging/debian "$files/debian"
cat >"$files/debian/changelog" <<END
stillpoint ($version) unstable; urgency=medium

  * See CHANGELOG.md.

 -- $(sed -n 's/^Maintainer: //p' ci/packaging/debian/control)  $(git log -1 --format=%cD)
END
(
    cd "$files"
    CARGO_TARGET_DIR=$target/target dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
) >"$target/log" 2>&1 || { tail -50 "$target/log" >&2; exit 1; }
mv "$target"/*.deb "$dir/"
