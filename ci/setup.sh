#!/usr/bin/env bash
# Installs what the other checks need and this machine lacks (Debian, Ubuntu; as root or with sudo).
set -euo pipefail

# Prints the missing packages. liburcu is a peer of the benches, objcopy prepares it, and jq reads their reports. spin
# explores models. gdb, valgrind and qemu test per-CPU data without rseq; valgrind is also one of the sanitizers. The
# compilers and pkg-config are for the C and C++ interfaces. strace counts system calls, and python3 loads the libraries
# that take liburcu's place.
missing() {
    command -v cc >/dev/null || echo gcc
    command -v g++ >/dev/null || echo g++
    command -v clang++ >/dev/null || echo clang
    command -v pkg-config >/dev/null || echo pkg-config
    command -v objcopy >/dev/null || echo binutils
    command -v jq >/dev/null || echo jq
    command -v spin >/dev/null || echo spin
    command -v gdb >/dev/null || echo gdb
    command -v strace >/dev/null || echo strace
    command -v python3 >/dev/null || echo python3
    command -v valgrind >/dev/null || echo valgrind
    command -v qemu-aarch64 >/dev/null || echo qemu-user
    command -v aarch64-linux-gnu-gcc >/dev/null || echo gcc-aarch64-linux-gnu
    [[ -f /usr/aarch64-linux-gnu/lib/libc.so.6 ]] || echo libc6-dev-arm64-cross
    [[ -f $(cc -print-file-name=liburcu-memb.a 2>/dev/null) ]] || echo liburcu-dev
}

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

mapfile -t packages < <(missing)
if ((${#packages[@]} > 0)); then
    echo "installing ${packages[*]}"
    as_root apt-get update --quiet || echo "the package lists could not be updated" >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
        "${packages[@]}" || echo "apt-get could not install everything" >&2
fi
for component in fmt clippy; do
    cargo "$component" --version >/dev/null 2>&1 || rustup component add "${component/fmt/rustfmt}" ||
        echo "rustup could not add $component" >&2
done

# The sanitizers need a nightly toolchain, and the source of the standard library, which is instrumented too.
has_nightly() { [[ -d $(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library ]]; }
has_nightly || rustup toolchain install nightly --profile minimal --component rust-src --no-self-update ||
    echo "rustup could not install nightly with rust-src" >&2
# Not every nightly has it; `ci/compat.sh` says so then.
cargo +nightly miri --version >/dev/null 2>&1 || rustup component add miri --toolchain nightly ||
    echo "rustup could not add miri" >&2

targets=(x86_64-unknown-linux-musl aarch64-unknown-linux-gnu riscv64gc-unknown-linux-gnu)
has_target() { [[ -d $(rustc --print sysroot)/lib/rustlib/$1/lib ]]; }
for target in "${targets[@]}"; do
    has_target "$target" || rustup target add "$target" || echo "rustup could not add $target" >&2
done

failed=0
for target in "${targets[@]}"; do
    if ! has_target "$target"; then
        echo "NOT INSTALLED: the standard library for $target" >&2
        failed=1
    fi
done
if ! has_nightly; then
    echo "NOT INSTALLED: a nightly toolchain with rust-src" >&2
    failed=1
fi
for package in $(missing); do
    echo "NOT INSTALLED: $package" >&2
    failed=1
done
for component in fmt clippy; do
    if ! cargo "$component" --version; then
        echo "NOT INSTALLED: cargo $component" >&2
        failed=1
    fi
done
exit "$failed"
