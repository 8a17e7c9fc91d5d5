#!/usr/bin/env bash
# bindings/c/install.sh DIR: builds libstillpoint, and installs it below DIR (say /usr/local): the headers, the static
# and the shared library, stillpoint.pc, a package for CMake. Set PROFILE=dev for a library that aborts on misuse.
# Needs cargo, a C compiler, binutils. For packages: LIBDIR=lib/x86_64-linux-gnu is where libraries go below DIR, and
# with DESTDIR=ROOT, DIR lies below ROOT until the package is installed.
#
# The shared library is linked from the static one, because rustc does not export thread-local variables. Both have
# the symbols of the header only: other Rust code in the program has its own copy of Rust's runtime.
set -euo pipefail
cd "$(dirname "$0")"
(($# == 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
root=${DESTDIR-}
mkdir -p "$root$1"
prefix=$1
[[ $root ]] || prefix=$(cd "$1" && pwd)
out=$root$prefix libdir=${LIBDIR:-lib}
profile=${PROFILE:-release}
export CARGO_PROFILE_RELEASE_LTO=${CARGO_PROFILE_RELEASE_LTO:-thin}
cc=${CC:-cc}

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' ../../Cargo.toml)
soname=libstillpoint.so.${version%.*} # before 1.0, minor versions may change the interface
target=${CARGO_TARGET_DIR:-$PWD/../../target}
folder=$profile
[[ $profile != dev ]] || folder=debug
# What a static Rust library needs, beside the unwinder: compilers add that of a static or of a dynamic program.
libraries="-lpthread -ldl -lm -lrt -lc"

# In one unit: the compiler passes what it can by value between the functions of a lookup.
cargo rustc --package stillpoint-capi --lib --profile "$profile" --crate-type staticlib --quiet --target-dir "$target" -- -Ccodegen-units=1

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
mkdir -p "$out/include" "$out/$libdir/"{pkgconfig,cmake/stillpoint}

# One object. Without bitcode, which an older LLVM, as a plugin of ar and nm, cannot read.
ld -r --whole-archive "$target/$folder/libstillpoint_capi.a" -o "$scratch/all.o"
objcopy --remove-section=.llvmbc --remove-section=.llvmcmd "$scratch/all.o"

# Only the functions and the thread-local variable that the header declares are global in it.
grep -ohE '\bsp_[a-z0-9_]+' include/stillpoint.h include/stillpoint/*.h | sort -u >"$scratch/header"
nm --defined-only --extern-only "$scratch/all.o" | awk '{ print $3 }' | sort | comm -12 - "$scratch/header" >"$scratch/symbols"
objcopy --keep-global-symbols="$scratch/symbols" "$scratch/all.o" "$scratch/stillpoint.o"
[[ $folder == debug ]] || objcopy --strip-debug "$scratch/stillpoint.o"
rm -f "$out/$libdir/libstillpoint.a"
ar rcsD "$out/$libdir/libstillpoint.a" "$scratch/stillpoint.o"

{ echo '{ global:'; sed 's/$/;/' "$scratch/symbols"; echo 'local: *; };'; } >"$scratch/version"
"$cc" -shared -o "$out/$libdir/libstillpoint.so.$version" "$scratch/stillpoint.o" -Wl,-soname,"$soname" \
    -Wl,--version-script="$scratch/version" -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,defs -lgcc_s $libraries
ln -sf "libstillpoint.so.$version" "$out/$libdir/$soname"
ln -sf "$soname" "$out/$libdir/libstillpoint.so"

cp -r include/. "$out/include"
cat >"$out/$libdir/pkgconfig/stillpoint.pc" <<END
prefix=$prefix
libdir=\${prefix}/$libdir
includedir=\${prefix}/include
stddir=\${includedir}/stillpoint/std

Name: stillpoint
Description: Scalable synchronization for Linux user space: RCU, QSBR, SRCU, fences, per-CPU data
Version: $version
Libs: -L\${libdir} -lstillpoint
Libs.private: $libraries
Cflags: -I\${includedir}
END

up=$(sed 's|[^/]\+|..|g' <<<"$libdir") # from there to DIR
cat >"$out/$libdir/cmake/stillpoint/stillpoint-config.cmake" <<END
# find_package(stillpoint): the targets stillpoint::stillpoint, the shared library, and stillpoint::static.
if(TARGET stillpoint::stillpoint)
  return()
endif()
get_filename_component(_stillpoint_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../$up" ABSOLUTE)
add_library(stillpoint::stillpoint SHARED IMPORTED)
set_target_properties(stillpoint::stillpoint PROPERTIES
  IMPORTED_LOCATION "\${_stillpoint_prefix}/$libdir/libstillpoint.so.$version"
  IMPORTED_SONAME "$soname"
  INTERFACE_INCLUDE_DIRECTORIES "\${_stillpoint_prefix}/include")
add_library(stillpoint::static STATIC IMPORTED)
set_target_properties(stillpoint::static PROPERTIES
  IMPORTED_LOCATION "\${_stillpoint_prefix}/$libdir/libstillpoint.a"
  INTERFACE_INCLUDE_DIRECTORIES "\${_stillpoint_prefix}/include"
  INTERFACE_LINK_LIBRARIES "$libraries")
unset(_stillpoint_prefix)
END
# Before 1.0 minor versions may change the interface.
cat >"$out/$libdir/cmake/stillpoint/stillpoint-config-version.cmake" <<END
set(PACKAGE_VERSION $version)
if(NOT CMAKE_SIZEOF_VOID_P STREQUAL "" AND NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(PACKAGE_VERSION_UNSUITABLE TRUE)
elseif(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION
       AND PACKAGE_FIND_VERSION_MAJOR EQUAL ${version%%.*} AND PACKAGE_FIND_VERSION_MINOR EQUAL $(cut -d. -f2 <<<"$version"))
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
END

[[ ! $root ]] || exit 0
cat <<END
libstillpoint $version is below $prefix. A first program, $(pwd)/examples/config.c:

  export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
  cc $(pwd)/examples/config.c \$(pkg-config --cflags --libs stillpoint) -Wl,-rpath,$prefix/$libdir -pthread -o config
  ./config

-Wl,-rpath lets the program find the library there. Without it: LD_LIBRARY_PATH=$prefix/$libdir, or, for a folder of the
system such as /usr/local, run ldconfig once. For CMake: -DCMAKE_PREFIX_PATH=$prefix.
END
