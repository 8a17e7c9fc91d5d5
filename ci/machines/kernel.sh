#!/usr/bin/env bash
# Fetches a Debian kernel and busybox for a guest, from the archive that apt uses here. apt verifies signatures and
# checksums; neither its state nor this system is changed. What has been fetched is kept.
#
# usage: ci/machines/kernel.sh ARCH SUITE   ARCH x86_64, aarch64, riscv64; SUITE as bookworm or sid
# Prints the folder with `vmlinuz`, `busybox` and `package`.
set -euo pipefail
cd "$(dirname "$0")/../.."
arch=$1 suite=$2
case $arch in
    x86_64) debian=amd64 flavour=cloud-amd64 ;;
    aarch64) debian=arm64 flavour=cloud-arm64 ;;
    riscv64) debian=riscv64 flavour=riscv64 ;;
    *) echo "no guests of $arch" >&2 && exit 2 ;;
esac
out=$PWD/target/guests/$arch-$suite
# Of sid for a week: it has new kernels all the time, but each check of a change need not wait for them.
if [[ -e $out/package && ($suite != sid || -n $(find "$out/package" -mtime -7)) ]]; then
    echo "$out"
    exit
fi

site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep /debian | grep -v security | head -n 1)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[[ -n $site && -e $keys ]] || { echo "apt has no Debian archive here" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{lists,cache/archives}/partial "$scratch/deb" "$out"
: >"$scratch/status"
echo "deb [arch=$debian check-valid-until=no signed-by=$keys] $site $suite main" >"$scratch/list"
options=(-q -o Dir::Etc::SourceList="$scratch/list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$scratch/lists"
    -o Dir::State::Status="$scratch/status" -o Dir::Cache="$scratch/cache" -o APT::Architecture="$debian"
    -o APT::Architectures::="$debian" -o APT::Sandbox::User=root -o Acquire::Languages=none
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Update::Error-Mode=any)
apt-get "${options[@]}" update >/dev/null
# The kernel of the meta package; newer ones consist of several packages, and the image is in `linux-binary-`.
release=$(apt-cache "${options[@]}" depends "linux-image-$flavour" |
    sed -nE 's/.*Depends: linux-image-([0-9][^ ]*)/\1/p' | head -n 1)
package=$(apt-cache "${options[@]}" pkgnames "linux-" |
    grep -xE "linux-(binary|image)-${release//[+.]/.}" | sort | head -n 1)
[[ -n $package ]] || { echo "$suite has no kernel for $debian" >&2; exit 1; }
(cd "$scratch/deb" && apt-get "${options[@]}" download "$package" busybox-static &&
    for deb in *.deb; do dpkg-deb --extract "$deb" .; done) >/dev/null
zcat -f "$(find "$scratch/deb" -path '*/vmlinu*' -type f | head -n 1)" >"$out/vmlinuz" # on arm64 it is compressed
install -m 755 "$(find "$scratch/deb" -path '*bin/busybox' -type f | head -n 1)" "$out/busybox"
echo "$package" >"$out/package"
echo "$out"
