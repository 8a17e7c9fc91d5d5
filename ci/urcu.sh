#!/usr/bin/env bash
# ci/urcu.sh: the libraries that take liburcu's place. They export what the installed ones export; programs that were
# compiled with liburcu's headers run on them, in each way in which a program can be linked, and their readers see no
# grace period that ends too early; programs of the distribution run on them unmodified. A library without grace
# periods is noticed by each oracle. Of these programs only Knot, unless the argument is
# `programs`. LIB=DIR checks libraries that are built already; the installed ones too, but for what only ours promise
# (LIB=stock).
set -euo pipefail
cd "$(dirname "$0")/.."
# Daemons of root get folders of their own.
if ((EUID == 0)) && [[ ! ${IN_NAMESPACE-} ]] && unshare --mount true 2>/dev/null; then
    IN_NAMESPACE=1 exec unshare --mount --propagation private ci/urcu.sh "$@"
fi
source ci/lib.sh

# unchecked WHY: a part is left out. The others are checked, and the status is 77 at the end.
is_incomplete=
unchecked() {
    echo "== NOT CHECKED: $*" >&2
    is_incomplete=yes
}

[[ $(uname -m) == x86_64 ]] || cannot "the machine is not x86-64"
for tool in gcc python3 strace apt-get; do
    command -v $tool >/dev/null || cannot "there is no $tool (ci/setup.sh installs what is needed)"
done
[[ -f $(gcc -print-file-name=liburcu-memb.so) ]] || cannot "liburcu-dev is not installed (ci/setup.sh installs it)"
stock=$(dirname "$(realpath "$(gcc -print-file-name=liburcu-memb.so)")")

target=$PWD/target/urcu-checks
bin=$target/tests
rm -rf "$bin"
mkdir -p "$bin"
case ${LIB-} in
    stock)
        # A folder without the other libraries of the system.
        lib=$target/stock
        mkdir -p "$lib"
        ln -sf "$stock"/liburcu*.so.8 "$lib/"
        ;;
    '') lib=$target/lib && dropins/liburcu/install.sh "$lib" ;;
    *) lib=$LIB ;;
esac
ours=$([[ ${LIB-} == stock ]] || echo yes)

# runs NAME COMMAND...: the program succeeds on the libraries.
runs() {
    local name=$1 begin=$SECONDS
    shift
    LD_LIBRARY_PATH=$lib timeout --kill-after=1 300 "$@" >"$scratch/log" 2>&1 ||
        { status=$?; cat "$scratch/log" >&2; fail "$name (status $status)"; }
    printf 'passed    %-44s %3d s\n' "$name" $((SECONDS - begin))
}

# detects NAME TIMES COMMAND...: the program finds a bad read in more than 9 of 10 runs.
detects() {
    local name=$1 times=$2 found=0 i status
    shift 2
    for ((i = 0; i < times; i++)); do
        status=0
        LD_LIBRARY_PATH=$lib timeout --kill-after=1 300 "$@" >"$scratch/log" 2>&1 || status=$?
        if ((status == 1)) && grep --quiet -E '\<[1-9][0-9]* bad$' "$scratch/log"; then found=$((found + 1)); fi
    done
    ((10 * found > 9 * times)) || fail "$name: without grace periods, found in $found of $times runs"
    printf 'detected  %-44s %d of %d runs\n' "$name" "$found" "$times"
}

echo "-- exports"
# `NAME TYPE SIZE` of what a library defines for others; sizes of data only.
exports() {
    readelf --dyn-syms --wide "$1" | awk '$5 ~ /GLOBAL|WEAK/ && $7 != "UND" && $8 !~ /^_(init|fini|edata|end)$/ &&
        $8 != "__bss_start" { print $8, $4, $4 == "FUNC" ? "-" : $3 }' | sort
}
for flavor in "" -memb -mb -qsbr -bp; do
    exports "$stock/liburcu$flavor.so.8" >"$scratch/theirs"
    exports "$lib/liburcu$flavor.so.8" >"$scratch/ours"
    # From 0.14 on, flavor structs have two more entries.
    sed -i 's/^\(urcu_[a-z]*_flavor OBJECT\) \(112\|128\)$/\1 -/' "$scratch"/{theirs,ours}
    comm -23 "$scratch/theirs" "$scratch/ours" >"$scratch/missing"
    [[ ! -s $scratch/missing ]] || { cat "$scratch/missing" >&2; fail "exports of liburcu$flavor.so.8"; }
    soname=$(readelf --dynamic "$lib/liburcu$flavor.so.8" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
    [[ $soname == liburcu$flavor.so.8 || -z $flavor ]] || fail "liburcu$flavor.so.8 has the name $soname"
    if readelf --dynamic "$lib/liburcu$flavor.so.8" | grep -w SYMBOLIC; then
        fail "liburcu$flavor.so.8 binds its own symbols"
    fi
    echo "passed    liburcu$flavor.so.8: $(wc -l <"$scratch/theirs") symbols"
    for symbol in urcu_[a-z]*_{start_poll,poll_state}_synchronize_rcu rcu_dereference_sym2; do
        [[ ! $ours ]] || grep --quiet "^$symbol " "$scratch/ours" ||
            fail "liburcu$flavor.so.8 does not export $symbol"
    done
done

echo "-- the test programs"
flags=(-std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror)
flavors=(memb mb qsbr bp)
compile() {
    local source=$1 output=$2
    shift 2
    gcc "${flags[@]}" "dropins/liburcu/tests/$source.c" -o "$bin/$output" "$@" -pthread -ldl
}
build_flavor() {
    local flavor=$1 kind program define=() libraries=()
    for kind in inline functions; do
        define=("-D${flavor^^}")
        [[ $kind == functions ]] || define+=(-D_LGPL_SOURCE)
        libraries=("-lurcu-$flavor" -lurcu-common)
        compile torture "torture-$flavor-$kind-pie" "${define[@]}" -fPIE -pie "${libraries[@]}" || return
        compile torture "torture-$flavor-$kind-fixed" "${define[@]}" -fno-pie -no-pie "${libraries[@]}" || return
        compile torture "torture-$flavor-$kind.so" "${define[@]}" -DMODULE -fPIC -shared "${libraries[@]}" || return
        compile api "api-$flavor-$kind" "${define[@]}" "${libraries[@]}" || return
        compile fork "fork-$flavor-$kind" "${define[@]}" "${libraries[@]}" || return
        compile fork "table-$flavor-$kind" "${define[@]}" -DLFHT -lurcu-cds "${libraries[@]}" || return
        compile syscalls "syscalls-$flavor-$kind" "${define[@]}" "${libraries[@]}" || return
        if [[ $kind == inline ]]; then
            for program in edges workers flood beside; do
                compile $program "$program-$flavor" "${define[@]}" "${libraries[@]}" || return
            done
        fi
        [[ $flavor != bp ]] || compile bulletproof "bulletproof-$kind" "${define[@]}" "${libraries[@]}" || return
    done
    compile broken "broken-$flavor.so" "-D${flavor^^}" -fPIC -shared || return
    # Programs of the distribution link liburcu under its first name. A plugin loads bp.
    case $flavor in
        memb) libraries=(-lurcu) ;;
        qsbr) libraries=(-lurcu-qsbr) ;;
        bp) libraries=() ;;
        mb) return 0 ;;
    esac
    compile audit "audit-$flavor.so" "-D${flavor^^}" -fPIC -shared -Wl,--no-as-needed "${libraries[@]}"
}
printf '%s\n' "${flavors[@]}" | each build_flavor || fail "the test programs do not compile"
compile torture torture-delayed -DMEMB -D_LGPL_SOURCE -DDELAYED -lurcu-memb -lurcu-common
compile mixed mixed -Wl,--no-as-needed -lurcu -lurcu-memb -lurcu-mb -lurcu-qsbr -lurcu-bp
compile hog hog.so -fPIC -shared
compile host host
compile deny deny
readelf --relocs --wide "$bin/torture-memb-inline-fixed" | grep 'R_X86_64_COPY.*urcu_memb_gp' >/dev/null ||
    fail "the program at a fixed address has no copy of the library's data"
readelf --relocs --wide "$bin/torture-bp-inline.so" | grep -E 'DTPMOD64|TLSDESC' >/dev/null ||
    fail "the module does not find the library's thread-local variable at run time"

echo "-- the oracle"
rounds=1500 # grace periods of each run, of broken libraries too
for flavor in "${flavors[@]}"; do
    for kind in inline functions; do
        for form in pie fixed; do
            runs "torture, $flavor, $kind, $form" "$bin/torture-$flavor-$kind-$form" all "$rounds"
        done
        runs "torture, $flavor, $kind, dlopen" \
            "$bin/host" "$bin/hog.so" "$bin/torture-$flavor-$kind.so" all "$rounds"
        detects "torture, $flavor, $kind" 11 env LD_PRELOAD="$bin/broken-$flavor.so" \
            "$bin/torture-$flavor-$kind-pie" all "$rounds"
    done
    for mode in sync call defer; do
        runs "torture, $flavor, inline, $mode" "$bin/torture-$flavor-inline-pie" "$mode" "$rounds"
        detects "torture, $flavor, inline, $mode" 11 env LD_PRELOAD="$bin/broken-$flavor.so" \
            "$bin/torture-$flavor-inline-pie" "$mode" "$rounds"
    done
    [[ ! $ours ]] || runs "torture, $flavor, inline, poll" "$bin/torture-$flavor-inline-pie" poll "$rounds"
    detects "torture, $flavor, inline, poll" 11 env LD_PRELOAD="$bin/broken-$flavor.so" \
        "$bin/torture-$flavor-inline-pie" poll "$rounds"
    runs "torture, $flavor, Python" python3 -c '
import ctypes, sys
ctypes.CDLL(sys.argv[1]).hog_touch()
sys.exit(ctypes.CDLL(sys.argv[2]).run(b"all", int(sys.argv[3])))' "$bin/hog.so" "$bin/torture-$flavor-inline.so" "$rounds"
done
runs "torture, late stores" "$bin/torture-delayed" all "$rounds"
runs "torture, preload" env -u LD_LIBRARY_PATH LD_PRELOAD="$lib/liburcu-memb.so.8" \
    "$bin/torture-memb-inline-fixed" all "$rounds"
runs mixed "$bin/mixed" ${ours:+one}
detects mixed 11 env LD_PRELOAD="$bin/broken-memb.so" "$bin/mixed"

if [[ $ours ]]; then
    echo "-- the number wraps"
    for number in 4294967200 4294967295; do
        for program in torture-delayed torture-memb-inline-pie torture-memb-functions-fixed; do
            runs "$program from $number" env STILLPOINT_URCU_FIRST_NUMBER="$number" "$bin/$program" sync "$rounds"
            [[ $program == *functions* ]] || grep --quiet -E "^number ($number|$((number - 1)))$" "$scratch/log" ||
                fail "the number does not begin at $number"
        done
    done
fi

echo "-- membarrier is denied"
"$bin/deny" 38 true || cannot "there is no seccomp"
for error in 38 1; do
    for flavor in memb bp; do
        for kind in inline functions; do
            runs "torture, $flavor, $kind, error $error" \
                "$bin/deny" "$error" "$bin/torture-$flavor-$kind-pie" all "$rounds"
        done
        runs "api, $flavor, error $error" "$bin/deny" "$error" "$bin/api-$flavor-inline"
    done
done
# These have no use for it, so nothing is lost where it ends the process.
for flavor in mb qsbr; do
    runs "torture, $flavor, killed for it" "$bin/deny" kill "$bin/torture-$flavor-inline-pie" all "$rounds"
    runs "api, $flavor, killed for it" "$bin/deny" kill "$bin/api-$flavor-inline"
done

echo "-- functions, forks, registration"
for flavor in "${flavors[@]}"; do
    for kind in inline functions; do
        runs "api, $flavor, $kind" "$bin/api-$flavor-$kind"
        for way in fork _Fork syscall clone; do
            runs "$way, $flavor, $kind" "$bin/fork-$flavor-$kind" $way
            # A qsbr child waits for the resizing thread of its parent, with liburcu as well.
            [[ $flavor == qsbr ]] || runs "$way with a hash table, $flavor, $kind" "$bin/table-$flavor-$kind" $way
        done
    done
done
for kind in inline functions; do runs "bulletproof, $kind" "$bin/bulletproof-$kind"; done
if [[ $ours ]]; then
    for flavor in "${flavors[@]}"; do
        for program in edges workers; do
            for name in $("$bin/$program-$flavor"); do runs "$name, $flavor" "$bin/$program-$flavor" "$name"; done
        done
    done
fi

if [[ $ours ]]; then
    echo "-- registrations beside a writer in a loop"
    for flavor in "${flavors[@]}"; do
        for i in {1..9}; do
            for folder in "$stock" "$lib"; do LD_LIBRARY_PATH=$folder "$bin/beside-$flavor" 100 1e6 registered; done
        done | awk 'NR % 2 { theirs = $1; next } { print $1 / theirs }' | sort -g | sed -n 5p >"$scratch/ratio"
        printf 'measured  %-44s %.2fx of liburcu\n' "registrations, $flavor" "$(<"$scratch/ratio")"
        awk '{ exit !($1 >= 0.6) }' "$scratch/ratio" || fail "to register takes too long"
    done

    echo "-- memory in a flood"
    # peak FOLDER: the largest resident memory of a program with two threads that queue callbacks without a pause.
    peak() { LD_LIBRARY_PATH=$1 "$bin/flood-$flavor" 2 500 | cut --delimiter=' ' --fields=1; }
    for flavor in memb qsbr; do
        for i in 1 2 3 4 5; do
            peak "$stock"
            peak "$lib" >&3
        done >"$scratch/theirs" 3>"$scratch/ours"
        theirs=$(sort -n "$scratch/theirs" | sed -n 3p) mine=$(sort -n "$scratch/ours" | sed -n 3p)
        printf 'measured  %-44s %s MB, liburcu %s MB\n' "two producers, $flavor" "$mine" "$theirs"
        ((mine <= 2 * theirs)) || fail "a flood takes too much memory"
    done
fi

echo "-- system calls a grace period"
calls() {
    LD_LIBRARY_PATH=$lib strace -f -c -o "$scratch/strace" -e "trace=$3" "$1" "$2" >/dev/null 2>&1 || return
    awk -v name="$3" '$NF == name { print $4; found = 1 } END { if (!found) print 0 }' "$scratch/strace"
}
if calls "$bin/syscalls-memb-functions" 1 membarrier >/dev/null; then
    for kind in functions inline; do
        for call in membarrier futex; do
            few=$(calls "$bin/syscalls-memb-$kind" 100 "$call") many=$(calls "$bin/syscalls-memb-$kind" 400 "$call")
            hundredths=$(((many - few) / 3))
            printf 'counted   %-44s %d.%02d\n' "$call, $kind" $((hundredths / 100)) $((hundredths % 100))
            [[ ! $ours || $kind-$call != functions-membarrier ]] || ((hundredths <= 210)) ||
                fail "a grace period takes too many barriers"
        done
    done
    for flavor in mb qsbr; do
        count=$(calls "$bin/syscalls-$flavor-inline" 100 membarrier)
        printf 'counted   %-44s %d\n' "membarrier, $flavor" "$count"
        ((count == 0)) || fail "$flavor calls membarrier"
    done
else
    unchecked "strace cannot trace on this machine"
fi

echo "-- programs of the distribution"
source dropins/liburcu/tests/clients.sh
# The lists of packages may be missing, or too old.
update_packages() {
    if ((EUID == 0)); then apt-get update --quiet; else sudo apt-get update --quiet; fi >"$scratch/apt" 2>&1
}
get_clients || { update_packages && get_clients; } ||
    { cat "$scratch/apt" >&2; cannot "the packages of the clients cannot be downloaded"; }
printf '%s\n' "$client"/debs/{knot,xfsprogs,lttng-tools,gdnsd,glusterfs-server,multipath-tools,nfs-ganesha}_*.deb | sed 's|.*/||'
check_client knot
if [[ ${1-} != programs ]]; then
    echo "passed, $SECONDS s"
    [[ ! $is_incomplete ]] || exit 77
    exit
fi
for name in xfs gdnsd; do check_client "$name"; done
if get_next; then check_client bind; else unchecked "BIND 9.20 cannot be downloaded"; fi
if [[ ${IN_NAMESPACE-} ]] && private_folders; then
    for name in lttng gluster multipath ganesha; do check_client "$name"; done
else
    unchecked "lttng, glusterd, multipathd and ganesha need root, and mount namespaces"
fi
echo "passed, $SECONDS s"
[[ ! $is_incomplete ]] || exit 77
