#!/usr/bin/env bash
# urcu/install.sh DIR: builds the drop-in replacements of liburcu, and puts them with all their names into DIR. Needs
# cargo, a C compiler, binutils; x86-64.
#
# The shared libraries are linked from static ones, because rustc does not export data that is defined in assembly. Each
# exports liburcu's names only, and needs the C library and libstillpoint-urcu-self.so.0, which lies beside it.
set -euo pipefail
(($# == 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
cd "$(dirname "$0")"
cc=${CC:-cc}
target=${CARGO_TARGET_DIR:-$PWD/../target}
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# library PACKAGE SONAME PATTERN [LIBRARY]...: links a package, with the symbols that match the pattern.
library() {
    local package=$1 soname=$2 pattern=$3 all=$scratch/$1.o archive
    shift 3
    archive=$target/urcu/libstillpoint_urcu_$package.a
    cargo rustc --package "stillpoint-urcu-$package" --lib --profile urcu --crate-type staticlib --quiet \
        --target-dir "$target"
    ld -r --whole-archive "$archive" -o "$all"
    # Without bitcode, which an older LLVM, as a plugin of nm, cannot read.
    objcopy --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$all"
    {
        echo '{ global:'
        nm --defined-only --extern-only "$all" | awk -v p="$pattern" '$3 ~ p { print $3 ";" }'
        echo 'local: *; };'
    } >"$scratch/$package.map"
    "$cc" -shared -o "$dir/$soname" "$all" -Wl,--as-needed "$@" -Wl,-soname,"$soname" \
        -Wl,--version-script="$scratch/$package.map" -Wl,--gc-sections,--strip-all \
        -Wl,-z,relro,-z,now,-z,defs,-z,nodelete '-Wl,-rpath,$ORIGIN' -lgcc_s -lc
}

common='|^rcu_[a-z]+(_pointer)?_sym2?$|^compat_futex_(no)?async$|^__urcu_compat_futex_(lock|cond)$'
self=libstillpoint-urcu-self.so.0
library self $self '^stillpoint_urcu_[a-z]+_self$'
for flavor in memb qsbr bp mb; do
    library $flavor liburcu-$flavor.so.8 "^urcu_${flavor}_$common" "$dir/$self"
    # The names of a package and of its development files.
    ln -sf liburcu-$flavor.so.8 "$dir/liburcu-$flavor.so"
done
ln -sf liburcu-memb.so.8 "$dir/liburcu.so.8"
ln -sf liburcu-memb.so.8 "$dir/liburcu.so"
