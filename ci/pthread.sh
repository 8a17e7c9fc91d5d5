#!/usr/bin/env bash
# ci/pthread.sh: the library that takes the place of the C library's locks (`pthread/`). It exports nothing else; the
# tests of pthread/tests and glibc's own pass with it; a library without one of its wake-ups fails them. Without
# Debian's source package, glibc's tests are NOT CHECKED (status 77).
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

fail() {
    echo "FAILED    $*" >&2
    exit 1
}

cannot() {
    echo "== CANNOT CHECK the locks in the C library's place: $*" >&2
    exit 77
}

[[ $(uname -m) == x86_64 ]] || cannot "the machine is not x86-64"
command -v gcc >/dev/null || cannot "there is no gcc (ci/setup.sh installs it)"
target=$PWD/target/pthread-checks
mkdir -p "$target"
pthread/install.sh "$target"
library=$target/libstillpoint-pthread.so

echo "-- exports"
readelf --dyn-syms --wide "$library" | awk '$5 == "GLOBAL" && $7 != "UND" && $4 == "FUNC" { print $8 }' | sort >"$scratch/exports"
libc=$(ldconfig -p | awk '/libc\.so\.6 .*x86-64/ { print $NF; exit }')
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
gcc -std=gnu11 -O2 -Wall -Wextra -Werror pthread/tests/api.c -o "$target/api" -pthread
[[ $(env --ignore-environment MARK=1 LD_PRELOAD="$library" env | grep --count MARK) == 1 ]] || fail "the environment is lost"
for test in $("$target/api"); do
    timeout 300 "$target/api" "$test" || fail "$test fails without the library"
    ours=1 LD_PRELOAD=$library timeout 300 "$target/api" "$test" || fail "$test"
    echo "passed    $test"
done

echo "-- glibc's tests"
status=0
CARGO_TARGET_DIR=$target pthread/nptl.sh "$library" >"$scratch/nptl" 2>&1 || status=$?
grep -v '^passed' "$scratch/nptl" || true
((status != 77)) || exit 77
((status == 0)) || fail "glibc's tests"

echo "-- without a wake-up"
RUSTFLAGS="--cfg stillpoint_mutants" CARGO_PROFILE_URCU_LTO=off CARGO_PROFILE_URCU_OPT_LEVEL=1 \
    CARGO_TARGET_DIR=$PWD/target/pthread-mutants pthread/install.sh "$target/mutants"
# notices STEP TEST: the test fails without the step.
notices() {
    local step test
    read -r step test <<<"$1"
    if STILLPOINT_MUTANT=$step LD_PRELOAD=$target/mutants/libstillpoint-pthread.so TIMEOUTFACTOR=1 \
        "$target/nptl/built/tests/$test" >/dev/null 2>&1; then
        echo "FAILED    $test passes without $step" >&2
        return 1
    fi
    echo "noticed   $step, by $test"
}
each notices <<'END'
notified-not-woken tst-cond10
no-kick tst-cond10
readers-not-woken tst-rwlock8
front-writer-not-woken tst-rwlock8
front-writer-not-woken-by-writer tst-rwlock8
END
