#!/usr/bin/env bash
# Installs what the other checks need and this machine lacks (Debian, Ubuntu; as root or with sudo; with rustup), in
# the versions of `ci/versions.sh`. Prints all versions, because packages of Debian differ between releases.
#
#   ci/setup.sh          for `.ci/run`
#   ci/setup.sh release  also for `ci/packages.sh`, `ci/fuzz.sh` and `ci/cargo-mutants.sh`, before a release
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh

release=$([[ ${1-} != release ]] || echo release)

# Prints the missing packages. liburcu is a peer of the benches, objcopy prepares libraries for C, and jq reads reports.
# spin explores models. gdb, valgrind and qemu test per-CPU data without rseq; valgrind is also one of the sanitizers,
# and counts instructions. wine and mingw are for Windows. The compilers, cmake and pkg-config are for the C and C++
# interfaces. strace counts system calls, bpftrace runs the scripts for probes, and python3 loads the libraries that
# take liburcu's place, and has a linker for old C libraries.
missing() {
    local row
    # `COMMAND=PACKAGE`, or one name for both.
    for row in cc=gcc g++ clang++=clang cmake make pkg-config objcopy=binutils git patch jq spin gdb strace bpftrace python3 \
        valgrind qemu-aarch64=qemu-user aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu \
        x86_64-w64-mingw32-gcc=gcc-mingw-w64-x86-64 ${release:+dh=debhelper help2man lintian mmdebstrap}; do
        command -v "${row%=*}" >/dev/null || echo "${row#*=}"
    done
    python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
    [[ -f /usr/aarch64-linux-gnu/lib/libc.so.6 ]] || echo libc6-dev-arm64-cross
    command -v wine >/dev/null || printf "%s\n" wine wine64
    [[ -f $(cc -print-file-name=liburcu-memb.a 2>/dev/null) ]] || echo liburcu-dev
}

# retry COMMAND...: the network may fail for a while.
retry() {
    local pause
    for pause in 10 30; do
        "$@" && return
        sleep $pause
    done
    "$@"
}

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

mapfile -t packages < <(missing)
if ((${#packages[@]} > 0)); then
    echo "installing ${packages[*]}"
    retry as_root apt-get update --quiet || echo "the package lists could not be updated" >&2
    retry as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
        "${packages[@]}" || echo "apt-get could not install everything" >&2
fi

failed=0
for package in $(missing); do echo "NOT INSTALLED: $package" >&2 && failed=1; done

# ensure WHAT CHECK COMMAND...: runs the command unless the check succeeds, which it must then. What is there is left
# alone: rustup would replace even a toolchain of the same version.
ensure() {
    local what=$1 check=$2
    shift 2
    $check && return
    retry "$@" && $check && return
    echo "NOT INSTALLED: $what" >&2
    failed=1
}
has_toolchain() { rustc "+$1" --version >/dev/null 2>&1; }
for toolchain in "$rust_stable" "$rust_oldest" "$rust_nightly"; do
    ensure "Rust $toolchain" "has_toolchain $toolchain" rustup toolchain install "$toolchain" --profile minimal --no-self-update
done
# The sanitizers need the source of the standard library, which is instrumented too; Miri as well.
has_source() { [[ -d $(rustc "+$rust_nightly" --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library ]]; }
ensure "rust-src of $rust_nightly" has_source rustup component add rust-src --toolchain "$rust_nightly"
has_miri() { cargo "+$rust_nightly" miri --version >/dev/null 2>&1; }
ensure "Miri of $rust_nightly" has_miri rustup component add miri --toolchain "$rust_nightly"
# The runtime of clang's sanitizers, of its version.
has_clang_runtime() { [[ -f $(clang -print-resource-dir)/lib/linux/libclang_rt.asan-x86_64.a ]]; }
ensure "clang's runtime" has_clang_runtime as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet \
    --no-install-recommends "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
has_component() { cargo "$1" --version >/dev/null 2>&1; }
for component in fmt clippy; do
    ensure "cargo $component" "has_component $component" rustup component add "${component/fmt/rustfmt}"
done
has_target() { [[ -d $(rustc --print sysroot)/lib/rustlib/$1/lib ]]; }
for target in x86_64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-gnu riscv64gc-unknown-linux-gnu \
    x86_64-unknown-freebsd x86_64-apple-darwin aarch64-apple-darwin aarch64-linux-android i686-unknown-linux-gnu \
    x86_64-pc-windows-gnu powerpc-unknown-linux-gnu; do
    ensure "the standard library for $target" "has_target $target" rustup target add "$target"
done

# Beside what the user may have installed.
tools=("cargo-public-api $cargo_public_api")
[[ ! $release ]] || tools+=("cargo-fuzz $cargo_fuzz" "cargo-mutants $cargo_mutants")
has_tool() { [[ $("target/tools/bin/$1" --version 2>/dev/null) == *" $2" ]]; }
for tool in "${tools[@]}"; do
    ensure "$tool" "has_tool $tool" cargo install --quiet --debug --locked --root target/tools "${tool/ /@}"
done
has_ziglang() { [[ $(target/tools/python/bin/pip show ziglang 2>/dev/null) == *"Version: $ziglang"$'\n'* ]]; }
has_python() { [[ -x target/tools/python/bin/pip ]]; }
ensure "a Python environment" has_python python3 -m venv target/tools/python
ensure "ziglang $ziglang" has_ziglang target/tools/python/bin/pip install --quiet "ziglang==$ziglang"

echo "-- versions"
rustc --version
rustc "+$rust_nightly" --version
printf '%s\n' "${tools[@]}" "ziglang $ziglang"
sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release
uname -r
ldd --version | sed -n 1p
dpkg-query --show gcc g++ clang cmake binutils jq spin gdb strace bpftrace python3 valgrind qemu-user gcc-aarch64-linux-gnu wine64 gcc-mingw-w64-x86-64 \
    libc6-dev-arm64-cross liburcu-dev 2>/dev/null || true
exit "$failed"
