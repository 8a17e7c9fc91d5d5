#!/usr/bin/env bash
# dropins/pthread/nptl.sh LIBRARY [TEST]...: runs glibc's own tests of mutexes, condition variables, reader-writer
# locks and spin locks, unmodified, with the library preloaded: all, or these. `dropins/pthread/nptl.txt` lists those
# that do not apply or are too slow, with the reason. Status 77 if Debian's source package cannot be had.
#
# The tests are those of the package `glibc-source`, in the version of the C library that is installed. They are not
# part of this repository: target/nptl has them, and what is built from them.
#
# A test fails if it fails three times in a row, and passes without the library. TRIES sets another number.
set -euo pipefail
(($# >= 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
library=$(realpath "$1")
chosen=("${@:2}")
cd "$(dirname "$0")"
list=$PWD/nptl.txt
folder=$(realpath -m "${CARGO_TARGET_DIR:-../../target}/nptl")
mkdir -p "$folder"
cd "$folder"

cannot() {
    echo "== NOT CHECKED: glibc's tests: $*" >&2
    exit 77
}

# Unpacks the tests and what they are built with into `source`.
fetch() {
    local version
    command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || cannot "this is not Debian"
    version=$(dpkg-query --show --showformat '${Version}' libc6) || cannot "there is no libc6"
    [[ -f source/.$version ]] && return
    rm -rf source package ./*.deb
    apt-get download --quiet "glibc-source=$version" || { apt-get update --quiet && apt-get download --quiet "glibc-source=$version"; } ||
        cannot "apt-get cannot download glibc-source $version"
    dpkg-deb --fsys-tarfile glibc-source_*.deb | tar --extract --wildcards './usr/src/glibc/glibc-*.tar.xz' --transform 's,.*/,,' ||
        cannot "glibc-source $version has no sources"
    mkdir source
    tar --extract --file glibc-*.tar.xz --directory source --strip-components 1 --wildcards '*/nptl/*' '*/support/*' \
        '*/sysdeps/pthread/*' '*/include/*' '*/test-skeleton.c'
    rm -rf glibc-*.tar.xz ./*.deb built
    touch "source/.$version"
}
fetch

flags=(-std=gnu11 -O1 -w -D_GNU_SOURCE -DTIMEOUTFACTOR=1
    -include limits.h -I"$PWD/built/headers" -I"$PWD/source" -I"$PWD/source/support"
    -I"$PWD/source/nptl" -I"$PWD/source/sysdeps/pthread")

# The tests' own library, without the parts that need the C library's build.
build_support() {
    local file header
    mkdir -p built/headers built/support
    for header in libc-diag.h array_length.h libc-pointer-arith.h intprops.h; do
        cp "source/include/$header" built/headers/
    done
    # What the tests use of the C library's internal headers.
    mkdir -p built/headers/elf
    echo '#define TUNABLE_GET_FULL(...) 0' >built/headers/elf/dl-tunables.h
    echo '#include <pthread.h>' >built/headers/pthreadP.h
    printf '#define atomic_%s\n' 'load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)' \
        'store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)' \
        'fetch_add_relaxed(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)' >built/headers/atomic.h
    touch built/headers/config.h
    echo 'const char support_objdir_root[] = "/";' >built/paths.c
    gcc -c built/paths.c -o built/support/paths.o
    for file in source/support/*.c; do
        case $file in */tst-* | *-container.c | *_main_*.c) continue ;; esac
        echo "$file"
    done | xargs -P "$(nproc)" -I{} sh -c 'gcc "$@" -c {} -o built/support/$(basename {} .c).o 2>/dev/null || true' _ "${flags[@]}"
    ar rcs built/support.a built/support/*.o
}
[[ -f built/support.a ]] || build_support

if ((${#chosen[@]})); then
    tests=("${chosen[@]}")
else
    mapfile -t tests < <(cd source && {
        ls nptl/tst-*.c sysdeps/pthread/tst-*.c | grep -E '/tst-(cond|mutex|rwlock|spin|robust|mtx|cnd)'
        grep -lE 'pthread_(mutex|cond|rwlock|spin)_|PTHREAD_(MUTEX|COND|RWLOCK)_INITIALIZER' nptl/tst-*.c sysdeps/pthread/tst-*.c
    } | xargs -n1 basename | sed 's/\.c$//' | sort -u)
fi
inapplicable=()
applicable=()
for test in "${tests[@]}"; do
    if ((${#chosen[@]} == 0)) && grep --quiet "^$test " "$list"; then inapplicable+=("$test"); else applicable+=("$test"); fi
done

mkdir -p built/tests built/logs
build() { # build TEST
    local file
    [[ -x built/tests/$1 ]] && return
    file=$(ls source/{nptl,sysdeps/pthread}/"$1.c" 2>/dev/null)
    gcc "${@:2}" "$file" -o "built/tests/$1" built/support.a -pthread -lrt -lm -ldl 2>"built/logs/$1" ||
        { echo "does not build  $1: $(grep -m1 -E 'error|undefined' "built/logs/$1")"; return 1; }
}

# run TEST LIBRARY: prints the result of the test.
run() {
    local test=$1 library=$2 try status arguments
    # Half a minute of barriers otherwise.
    [[ $test != tst-mutex10 ]] || arguments=--iterations=20000
    for ((try = 0; try < ${TRIES:-3}; try++)); do
        status=0
        LD_PRELOAD=$library TIMEOUTFACTOR=${TIMEOUTFACTOR:-3} "built/tests/$test" ${arguments-} >"built/logs/$test" 2>&1 || status=$?
        case $status in
            0) echo "passed          $test"; return ;;
            77) echo "unsupported     $test: $(head -1 "built/logs/$test")"; return ;;
        esac
    done
    printf 'FAILED          %s (status %d): %s\n' "$test" "$status" "$(tail -2 "built/logs/$test" | tr '\n' ' ')"
    if [[ ! ${TRIES-} ]] && ! TIMEOUTFACTOR=3 "built/tests/$test" >/dev/null 2>&1; then
        echo "                $test fails without the library too"
    fi
}
export -f build run
printf '%s\n' "${applicable[@]}" | xargs -P "$(nproc)" -I{} bash -c 'build "$@"' _ {} "${flags[@]}" >built/failed || true
if [[ -s built/failed ]]; then
    cat built/failed >&2
    echo "FAILED: tests that do not build, and are not in dropins/pthread/nptl.txt" >&2
    exit 1
fi
# Most tests sleep most of the time.
printf '%s\n' "${applicable[@]}" | xargs -P 16 -I{} bash -c 'run "$@"' _ {} "$library" | tee built/results
count() { grep --count "^$1" built/results || true; }
failed=$(count FAILED)
excused=$(grep --count 'fails without the library too' built/results || true)
printf '%d passed, %d failed (%d of them without the library too), %d unsupported here, %d left out\n' \
    "$(count passed)" "$failed" "$excused" "$(count unsupported)" "${#inapplicable[@]}"
((failed == excused))
