#!/usr/bin/env bash
# capi/install.sh DIR: builds libstillpoint, and installs it below DIR (say /usr/local): the headers, the static and the
# shared library, stillpoint.pc. Set PROFILE=dev for a library that aborts on misuse. Needs cargo, a C compiler,
# binutils.
#
# The shared library is linked from the static one, because rustc does not export thread-local variables. Both have the
# symbols of the header only: other Rust code in the program has its own copy of Rust's runtime.
set -euo pipefail
cd "$(dirname "$0")"
(($# == 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
profile=${PROFILE:-release}
cc=${CC:-cc}

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' ../Cargo.toml)
soname=libstillpoint.so.${version%.*} # as in 0.1: minor versions may change the interface before 1.0
target=${CARGO_TARGET_DIR:-$PWD/../target}
folder=$profile
[[ $profile != dev ]] || folder=debug
# What a static Rust library needs, after gcc's unwinder.
libraries="-lgcc_s -lpthread -ldl -lm -lrt -lc"

cargo rustc --package stillpoint-capi --lib --profile "$profile" --crate-type staticlib --quiet --target-dir "$target"

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
mkdir -p "$prefix"/{include/stillpoint,lib/pkgconfig}

# One object. Without bitcode, which an older LLVM, as a plugin of ar and nm, cannot read.
ld -r --whole-archive "$target/$folder/libstillpoint_capi.a" -o "$scratch/all.o"
objcopy --remove-section=.llvmbc --remove-section=.llvmcmd "$scratch/all.o"

# Only the functions and the thread-local variable that the header declares are global in it.
grep -oE '\bsp_[a-z0-9_]+' include/stillpoint.h | sort -u >"$scratch/header"
nm --defined-only --extern-only "$scratch/all.o" | awk '{ print $3 }' | sort | comm -12 - "$scratch/header" >"$scratch/symbols"
objcopy --keep-global-symbols="$scratch/symbols" "$scratch/all.o" "$scratch/stillpoint.o"
[[ $folder == debug ]] || objcopy --strip-debug "$scratch/stillpoint.o"
rm -f "$prefix/lib/libstillpoint.a"
ar rcsD "$prefix/lib/libstillpoint.a" "$scratch/stillpoint.o"

{ echo '{ global:'; sed 's/$/;/' "$scratch/symbols"; echo 'local: *; };'; } >"$scratch/version"
"$cc" -shared -o "$prefix/lib/libstillpoint.so.$version" "$scratch/stillpoint.o" -Wl,-soname,"$soname" \
    -Wl,--version-script="$scratch/version" -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,defs $libraries
ln -sf "libstillpoint.so.$version" "$prefix/lib/$soname"
ln -sf "$soname" "$prefix/lib/libstillpoint.so"

cp include/stillpoint.h "$prefix/include/"
cp include/stillpoint/rcu.hpp "$prefix/include/stillpoint/"
cat >"$prefix/lib/pkgconfig/stillpoint.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: stillpoint
Description: Scalable synchronization for Linux user space: RCU, QSBR, SRCU, fences, per-CPU data
Version: $version
Libs: -L\${libdir} -lstillpoint
Libs.private: $libraries
Cflags: -I\${includedir}
END
