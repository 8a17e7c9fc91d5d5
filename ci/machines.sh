#!/usr/bin/env bash
# Tests and tortures of the library on other machines: guests under full emulation, with Debian's kernels. aarch64 and
# riscv64 with the test programs and faults in rseq critical sections; x86-64 with 8 CPUs in two NUMA nodes, some of
# them taken away and given back, and with 240 possible CPUs; the oldest and the newest kernel of the archive; one
# without rseq and membarrier; one without /proc and /sys on a read-only root; isolated CPUs, cpusets and quotas.
#
# Takes a quarter of an hour on two idle CPUs. Installs the emulators and compilers that are missing. What this host
# cannot run is listed at the end, and the exit status is 77.
#
# usage: ci/machines.sh [long] [GUEST...]   long: all test programs, and ten times the torture; GUEST: only these
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh
unset STILLPOINT_FENCE STILLPOINT_PERCPU STILLPOINT_MUTANT RUSTFLAGS
long=
[[ ${1:-} != long ]] || { long=1 && shift; }
chosen=("$@")
guests=target/guests
mkdir -p "$guests"

unchecked=()
not_checked() {
    echo "NOT CHECKED: $*" >&2
    unchecked+=("$*")
}

# --- What the host needs ---

packages() {
    command -v cpio || echo cpio
    [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || echo debian-archive-keyring
    command -v qemu-system-x86_64 || echo qemu-system-x86
    command -v qemu-system-aarch64 || echo qemu-system-arm
    command -v qemu-system-riscv64 || echo qemu-system-misc opensbi
    command -v aarch64-linux-gnu-gcc || echo gcc-aarch64-linux-gnu
    [[ -f /usr/aarch64-linux-gnu/lib/libc.so ]] || echo libc6-dev-arm64-cross
    command -v riscv64-linux-gnu-gcc || echo gcc-riscv64-linux-gnu
    [[ -f /usr/riscv64-linux-gnu/lib/libc.so ]] || echo libc6-dev-riscv64-cross
}
as_root() {
    if ((EUID == 0)); then "$@"; else sudo --non-interactive "$@"; fi
}
missing=$(packages | grep -v / || true)
if [[ -n $missing ]]; then
    echo "-- installs" $missing
    { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq \
        --no-install-recommends -o DPkg::Lock::Timeout=300 $missing; } >"$guests/install.log" 2>&1 ||
        { tail -n 5 "$guests/install.log" >&2; not_checked "apt-get cannot install" $missing; }
fi

# --- Programs ---

declare -A target=([x86_64]=x86_64-unknown-linux-gnu [aarch64]=aarch64-unknown-linux-gnu
    [riscv64]=riscv64gc-unknown-linux-gnu)
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER=riscv64-linux-gnu-gcc
tests=(percpu lock fence process qsbr fork rcu srcu)
# collect ARCH: builds the programs of an architecture, into $guests/ARCH. One build for tests and torture; then the
# crates of the workspace again, with fault points.
collect() {
    local arch=$1 folder=$guests/$1 names=() test
    local cargo=(cargo build --profile machines --target-dir target/machines --target "${target[$arch]}"
        --package stillpoint --message-format=json-render-diagnostics)
    rm -rf "$folder" && mkdir -p "$folder"
    for test in "${tests[@]}"; do names+=(--test "$test"); done
    # Those of the step `words`.
    [[ $arch != x86_64 ]] || names=(--package stillpoint-collections --test={percpu,lock,srcu,family})
    "${cargo[@]}" --package stillpoint-torture --bin torture \
        "${names[@]}" | copy "$folder" test-
    mv "$folder/test-torture" "$folder/torture"
    [[ $arch == x86_64 ]] || # With the features that the lab selects, so that dependencies need not be built again.
        RUSTC_WORKSPACE_WRAPPER=$PWD/ci/cfg/stillpoint_faults "${cargo[@]}" --features _lab \
            --test faults_percpu | copy "$folder" ""
}

# copy FOLDER PREFIX: copies the programs that cargo reports.
copy() {
    local path name
    grep -oE '"executable":"[^"]+"' | cut -d'"' -f4 | while IFS= read -r path; do
        name=$(basename "$path")
        cp "$path" "$1/$2${name%-*}"
    done
}

# Succeeds if programs for ARCH can be built here.
can_build() {
    [[ $1 == x86_64 ]] || command -v "$1-linux-gnu-gcc" >/dev/null || return
    [[ -d $(rustc --print sysroot)/lib/rustlib/${target[$1]}/lib ]] || rustup target add "${target[$1]}" >/dev/null 2>&1
}

# --- Guests ---

# guest NAME ARCH SUITE CPUS LIMIT STEP...: boots a guest, and checks the steps of ci/machines/guest.sh in it. LIMIT
# is in seconds.
declare -A built
failed=()
guest() {
    local name=$1 arch=$2 suite=$3 cpus=$4 limit=$5 kernel begin=$SECONDS status=0
    shift 5
    ((${#chosen[@]} == 0)) || [[ " ${chosen[*]} " == *" $name "* ]] || return 0
    printf '\n-- %s: %s, %s, %d CPUs\n' "$name" "$arch" "$suite" "$cpus"
    if ! command -v "qemu-system-$arch" >/dev/null; then
        not_checked "guest $name: there is no qemu-system-$arch" && return
    elif ! can_build "$arch"; then
        not_checked "guest $name: there is no compiler for $arch" && return
    elif ! kernel=$(ci/machines/kernel.sh "$arch" "$suite"); then
        not_checked "guest $name: the archive has no kernel of $suite for $arch" && return
    fi
    echo "        kernel: $(cat "$kernel/package")"
    if [[ -z ${built[$arch]:-} ]]; then
        collect "$arch"
        built[$arch]=1
        printf '        building: %d s\n' $((SECONDS - begin))
        begin=$SECONDS
    fi
    TIMEOUT=$limit ci/machines/boot.sh "$kernel" "$cpus" "$guests/$arch" ci/machines/guest.sh "$@" || status=$?
    case $status in
        0) ;;
        77) not_checked "guest $name: a torture did too little" ;;
        125) echo "FAILED  guest $name has not ended" >&2 && failed+=("$name") ;;
        *) failed+=("$name") ;;
    esac
    printf '        %d s\n' $((SECONDS - begin))
}

# The torture of each guest, in seconds.
all=${long:+200} all=${all:-20}
part=${long:+60} part=${part:-3}
limit=${long:+3000} limit=${limit:-500}
guest aarch64 aarch64 bookworm 2 "$limit" probe torture_all:$all "tests:${long:+all}" faults
# With two CPUs it has hung while it booted.
guest riscv64 riscv64 trixie 4 "$limit" probe torture_all:$all "tests:${long:+all}" faults
nodes="-object memory-backend-ram,id=m0,size=1G -object memory-backend-ram,id=m1,size=1G"
nodes+=" -numa node,nodeid=0,cpus=0-3,memdev=m0 -numa node,nodeid=1,cpus=4-7,memdev=m1"
QEMU=$nodes MEMORY=2048 guest hotplug x86_64 bookworm 8 "$limit" probe hotplug:$part
APPEND="possible_cpus=240" guest many x86_64 bookworm 4 "$limit" probe words
guest oldest x86_64 bullseye 4 "$limit" probe torture_all:$all
guest newest x86_64 sid 4 "$limit" probe torture_all:$all
APPEND="isolcpus=3 nohz_full=2-3" guest confined x86_64 bookworm 4 "$limit" \
    probe isolated:$part cpuset:$part quota:$part
guest denied x86_64 bookworm 4 "$limit" denied:$all
BARE=1 guest bare x86_64 bookworm 4 "$limit" probe bare:$part

if ((${#failed[@]})); then
    echo "FAILED guests: ${failed[*]}" >&2
    exit 1
fi
if ((${#unchecked[@]})); then
    printf 'NOT CHECKED: %s\n' "${unchecked[@]}" >&2
    exit 77
fi
