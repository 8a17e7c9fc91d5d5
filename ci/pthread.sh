#!/usr/bin/env bash
# Checks of the library that takes the place of the C library's locks (`dropins/pthread/`): it exports nothing else,
# and the tests of dropins/pthread/tests pass with it and fail with a library that leaves out a wake-up.
#
#   ci/pthread.sh        these
#   ci/pthread.sh glibc  and glibc's own tests (nightly; minutes); without Debian's source package NOT CHECKED (77)
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

[[ $(uname -m) == x86_64 ]] || cannot "the machine is not x86-64"
command -v gcc >/dev/null || cannot "there is no gcc (ci/setup.sh installs it)"
target=$PWD/target/pthread-checks
mkdir -p "$target"
dropins/pthread/install.sh "$target"
library=$target/libstillpoint-pthread.so

echo "-- exports"
readelf --dyn-syms --wide "$library" | awk '$5 == "GLOBAL" && $7 != "UND" && $4 == "FUNC" { print $8 }' | sort >"$scratch/exports"
libc=$(ldconfig -p | awk '/libc\.so\.6 .*x86-64/ && !found++ { print $NF }')
readelf --dyn-syms --wide "$libc" | awk '$7 != "UND" { print $8 }' | sed 's/@.*//' | sort -u >"$scratch/libc"
unknown=$(comm -23 <(sed 's/@.*//' "$scratch/exports" | sort -u) "$scratch/libc")
[[ -z $unknown ]] || fail "the C library does not have $unknown"
for name in pthread_cond_{wait,timedwait,signal,broadcast}; do
    for version in @GLIBC_2.2.5 @@GLIBC_2.3.2; do
        grep --quiet -x "$name$version" "$scratch/exports" || fail "there is no $name$version"
    done
done
# Each function of these objects, but for those that only look at attributes and initialize.
missing=$(grep -xE '(__)?pthread_(mutex|cond|rwlock|spin)_[a-z]+' "$scratch/libc" |
    grep -vE '_(mutex|cond|rwlock)_init$|_(consistent|getprioceiling|setprioceiling)$' |
    comm -23 - <(sed 's/@.*//' "$scratch/exports" | sort -u))
[[ -z $missing ]] || fail "$missing: not replaced"
echo "passed    $(wc -l <"$scratch/exports") functions"

echo "-- own tests"
compile() { gcc -std=gnu11 -O2 -Wall -Wextra -Werror -pthread "$@"; }
compile -shared -fPIC dropins/pthread/tests/worker.c -o "$target/libworker.so"
compile dropins/pthread/tests/api.c -o "$target/api" "$target/libworker.so" -Wl,-rpath,"$target"
[[ $(env --ignore-environment MARK=1 LD_PRELOAD="$library" env | grep --count MARK) == 1 ]] || fail "the environment is lost"
for test in $("$target/api"); do
    timeout 300 "$target/api" "$test" || fail "$test fails without the library"
    ours=1 LD_PRELOAD=$library timeout 300 "$target/api" "$test" || fail "$test"
    echo "passed    $test"
done

echo "-- without a wake-up"
RUSTFLAGS="--cfg stillpoint_mutants" CARGO_PROFILE_URCU_LTO=off CARGO_PROFILE_URCU_OPT_LEVEL=1 \
    CARGO_TARGET_DIR=$PWD/target/pthread-mutants dropins/pthread/install.sh "$target/mutants"
mutants=$target/mutants/libstillpoint-pthread.so
# notices STEP TEST: the test, in which a thread sleeps before it is woken, fails without the step.
notices() {
    local step test
    read -r step test <<<"$1"
    if STILLPOINT_MUTANT=$step LD_PRELOAD=$mutants timeout --signal=ALRM 10 "$target/api" "$test" 2>/dev/null; then
        echo "FAILED    $test passes without $step" >&2
        return 1
    fi
    echo "noticed   $step, by $test"
}
for test in unlock_wakes signal_wakes reader_wakes_writer; do
    LD_PRELOAD=$mutants timeout 300 "$target/api" "$test" || fail "$test fails with all steps"
done
each notices <<'END'
no-kick unlock_wakes
notified-not-woken signal_wakes
readers-not-woken writer_wakes_reader
front-writer-not-woken-by-writer writer_wakes_writer
front-writer-not-woken reader_wakes_writer
END

[[ ${1-} == glibc ]] || exit 0
echo "-- glibc's tests"
status=0
CARGO_TARGET_DIR=$target dropins/pthread/nptl.sh "$library" >"$scratch/nptl" 2>&1 || status=$?
grep -v '^passed' "$scratch/nptl" || true
((status != 77)) || exit 77
((status == 0)) || fail "glibc's tests"

# And one of glibc's: here no test can see whether the thread sleeps. At the signal of its own time limit it ends its
# child, which is in a process group of its own.
for ((try = 0; ; try++)); do
    ((try < 20)) || fail "glibc's tst-cond10 passes without wake-ups"
    STILLPOINT_MUTANT=notified-not-woken LD_PRELOAD=$mutants timeout --signal=ALRM 10 "$target/nptl/built/tests/tst-cond10" >/dev/null 2>&1 || break
done
echo "noticed   notified-not-woken, by glibc's tst-cond10"
