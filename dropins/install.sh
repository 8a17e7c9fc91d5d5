# What the scripts share that build the drop-in libraries: liburcu/install.sh, pthread/install.sh. Sourced by them, with
# the folder for the libraries as the argument. Need cargo, a C compiler, binutils; x86-64.

(($# == 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
cd "$(dirname "$0")"
cc=${CC:-cc}
target=${CARGO_TARGET_DIR:-$PWD/../../target}
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# object PACKAGE OUTPUT [OBJECT]...: makes one object of a package, as a static library, and of the others.
object() {
    cargo rustc --package "$1" --lib --profile urcu --crate-type staticlib --quiet --target-dir "$target"
    ld -r --whole-archive "$target/urcu/lib${1//-/_}.a" --no-whole-archive "${@:3}" -o "$2"
    # Without bitcode, which an older LLVM, as a plugin of nm, cannot read.
    objcopy --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$2"
}

# link OUTPUT VERSION_SCRIPT ARGUMENT...: links a shared library, which cannot be unloaded.
link() {
    "$cc" -shared -o "$1" "${@:3}" -Wl,-soname,"${1##*/}" -Wl,--version-script="$2" -Wl,--gc-sections,--strip-all \
        -Wl,-z,relro,-z,now,-z,defs,-z,nodelete -lgcc_s -lc
}

# usage VARIABLE=VALUE LIBRARY: prints what to type, and which C library it needs: one as new as the functions that the
# linker has found here.
usage() {
    echo "Needs glibc $(objdump -T "$2" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | sed -n '$s/GLIBC_//p') or later. To run a program:"
    echo "  $1 program"
}
