#!/usr/bin/env bash
# pthread/install.sh DIR: builds libstillpoint-pthread.so into DIR. Needs cargo, a C compiler, binutils; x86-64, glibc.
#
# The shared library is linked from a static one and from `cond_wait.c`, because two functions have a second version
# for old programs. It exports the functions of the C library that it replaces, and nothing else.
set -euo pipefail
(($# == 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
cd "$(dirname "$0")"
cc=${CC:-cc}
target=${CARGO_TARGET_DIR:-$PWD/../target}
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

cargo rustc --package stillpoint-pthread --lib --profile urcu --crate-type staticlib --quiet --target-dir "$target"
"$cc" -std=gnu11 -O2 -Wall -Wextra -fPIC -c src/cond_wait.c -o "$scratch/cond_wait.o"
ld -r --whole-archive "$target/urcu/libstillpoint_pthread.a" --no-whole-archive "$scratch/cond_wait.o" -o "$scratch/all.o"
# Without bitcode, which an older LLVM, as a plugin of nm, cannot read.
objcopy --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$scratch/all.o"
nm --defined-only --extern-only "$scratch/all.o" | awk '$3 ~ /^(__)?pthread_/ { print $3 }' >"$scratch/exported"
objcopy --keep-global-symbols="$scratch/exported" "$scratch/all.o"
# Only condition variables have versions. A function without one is found under any.
printf '%s\n' 'GLIBC_2.2.5 { };' \
    'GLIBC_2.3.2 { global: pthread_cond_wait; pthread_cond_timedwait; pthread_cond_signal; pthread_cond_broadcast; pthread_cond_destroy; };' \
    >"$scratch/versions"
"$cc" -shared -o "$dir/libstillpoint-pthread.so" "$scratch/all.o" -Wl,-soname,libstillpoint-pthread.so \
    -Wl,--version-script="$scratch/versions" -Wl,--gc-sections,--strip-all \
    -Wl,-z,relro,-z,now,-z,defs,-z,nodelete -Wl,--as-needed -lgcc_s -lc
