#!/usr/bin/env bash
# dropins/liburcu/install.sh DIR: builds the drop-in replacements of liburcu, and puts them with all their names into DIR.
#
# The shared libraries are linked from static ones, because rustc does not export data that is defined in assembly.
# Each exports liburcu's names only, and needs the C library and libstillpoint-urcu-self.so.0, which lies beside it.
set -euo pipefail
source "$(dirname "$0")/../install.sh"

# library PACKAGE SONAME PATTERN [LIBRARY]...: links a package, with the symbols that match the pattern.
library() {
    local all=$scratch/$1.o map=$scratch/$1.map
    object "stillpoint-urcu-$1" "$all"
    {
        echo '{ global:'
        nm --defined-only --extern-only "$all" | awk -v p="$3" '$3 ~ p { print $3 ";" }'
        echo 'local: *; };'
    } >"$map"
    link "$dir/$2" "$map" "$all" -Wl,--as-needed "${@:4}" '-Wl,-rpath,$ORIGIN'
}

common='|^rcu_[a-z]+(_pointer)?_sym2?$|^compat_futex_(no)?async$|^__urcu_compat_futex_(lock|cond)$'
self=libstillpoint-urcu-self.so.0
"$cc" -shared -nostdlib -fPIC -O2 self.c -o "$dir/$self" -Wl,-soname,$self,--strip-all,-z,relro,-z,now,-z,nodelete
for flavor in memb qsbr bp mb; do
    library $flavor liburcu-$flavor.so.8 "^urcu_${flavor}_$common" "$dir/$self"
    # The names of a package and of its development files.
    ln -sf liburcu-$flavor.so.8 "$dir/liburcu-$flavor.so"
done
ln -sf liburcu-memb.so.8 "$dir/liburcu.so.8"
ln -sf liburcu-memb.so.8 "$dir/liburcu.so"
usage "LD_LIBRARY_PATH=$dir" "$dir/liburcu.so.8"
