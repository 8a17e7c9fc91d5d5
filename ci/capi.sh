#!/usr/bin/env bash
# The C and C++ interfaces: the libraries export the symbols of the header and nothing else; examples and tests pass
# with GCC and Clang, with the shared and the static library, and under AddressSanitizer; ThreadSanitizer reports
# races and nothing else; a library in debug mode aborts on misuse; C code and Rust code in one program are readers of
# one domain; a section in C takes at most 1.1 times the instructions of one in Rust, and a lookup at most 1.25 times
# as many.
#
# `ci/capi.sh peers` prints a table of stillpoint beside other libraries, of Debian's liburcu-dev and libck-dev.
#
# Each compiler runs each program in C. What is in C++ it runs with the oldest standard, or with the newest one: that
# differs in what the headers define, not in what they do. All but the builds is two minutes of one CPU.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

for tool in gcc g++ clang clang++ cmake pkg-config valgrind; do
    command -v "$tool" >/dev/null || fail "CANNOT CHECK: $tool is not installed (ci/setup.sh)"
done

target=${CARGO_TARGET_DIR:-$PWD/target}
out=$target/capi
release=$out/release debug=$out/debug bin=$out/bin
rm -rf "$out"
mkdir -p "$bin"

# As it is installed, whatever .ci/run says: its instructions are counted.
export CARGO_PROFILE_RELEASE_LTO=thin
bindings/c/reference.sh "$out/reference"
bindings/c/install.sh "$release" >"$scratch/hint"
PROFILE=dev bindings/c/install.sh "$debug" >/dev/null

echo "-- symbols"
exported() {
    nm "$@" | awk '$2 != "A" && NF == 3 { print $3 }' | sort
}
# Functions and variables that the header declares, without its inline functions, which may call each other.
declared() {
    printf '#include <stillpoint/%s.h>\n' map lock | gcc -std=c11 -E -P "-I$release/include" - | tr '\n' ' ' | sed 's/[;{}]/&\n/g' >"$scratch/lines"
    names() { grep -oE '\bsp_[a-z0-9_]+ ?\(|\bsp_thread_v1_' | tr -d ' (' | sort -u; }
    comm -23 <(grep -v 'static inline' "$scratch/lines" | grep -E '\(|extern' | grep -v '(\*' | names) \
        <(grep 'static inline' "$scratch/lines" | names)
}
declared >"$scratch/declared"
grep -ohE '\bsp_[a-z0-9_]+' bindings/c/include/stillpoint.h bindings/c/include/stillpoint/*.h | sort -u >"$scratch/header"
for library in "$release" "$debug"; do
    exported -D --defined-only "$library/lib/libstillpoint.so" >"$scratch/shared"
    exported --defined-only --extern-only "$library/lib/libstillpoint.a" >"$scratch/static"
    diff "$scratch/shared" "$scratch/static" || fail "the static and the shared library export other symbols"
    comm -23 "$scratch/shared" "$scratch/header" >"$scratch/leaked"
    [[ ! -s $scratch/leaked ]] || fail "symbols leak: $(tr '\n' ' ' <"$scratch/leaked")"
    comm -23 "$scratch/declared" "$scratch/shared" >"$scratch/missing"
    [[ ! -s $scratch/missing ]] || fail "symbols are missing: $(tr '\n' ' ' <"$scratch/missing")"
done
readelf --symbols --wide "$release/lib/libstillpoint.so" | grep ' 24 TLS  *GLOBAL .* sp_thread_v1_$' >/dev/null ||
    fail "sp_thread_v1_ is not a thread-local variable of 24 bytes"
if readelf --dynamic "$release/lib/libstillpoint.so" | grep STATIC_TLS; then fail "the library needs static TLS"; fi
echo "$(wc -l <"$scratch/shared") exported"

# C sources are strict C11 but for what the tests use of POSIX.
c=(-std=c11 -pedantic -Wall -Wextra -Wno-unused-parameter -Werror -D_GNU_SOURCE -O2)
cxx=(-pedantic -Wall -Wextra -Werror -O2)
# What a program may ask for, which includes the headers from its own folders.
warnings=(-Wall -Wextra -Werror -Wshadow -Wundef)
flags() {
    PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs stillpoint
}
shared() {
    echo "$(flags "$1") -Wl,-rpath,$1/lib -pthread"
}
static=$(flags "$release" | sed "s|-lstillpoint|$release/lib/libstillpoint.a|"; sed -n 's/^Libs.private: //p' "$release/lib/pkgconfig/stillpoint.pc")

collected() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 | sed -n 's/.*Collected : //p'
}
# Hundredths of an instruction in a round of the loop.
round() {
    local few many program=$1
    shift
    few=$(collected "$program" 1000 "$@") many=$(collected "$program" 11000 "$@")
    echo $(((many - few) / 100))
}
# A table of stillpoint beside other libraries: instructions, and ratios of times.
if [[ ${1-} == peers ]]; then
    # The headers of ck are C.
    g++ -std=c++17 -O2 -fpermissive -w bindings/c/tests/peers.cpp -o "$bin/peers" $(shared "$release") \
        -lurcu-memb -lurcu-cds -lck
    echo "| | | instructions | time |"
    echo "|---|---|--:|--:|"
    "$bin/peers" | while IFS=';' read -r cell group name ratio; do
        # Valgrind has no rseq.
        [[ $name == sp_rwlock || $name == sp_counter ]] && count=– || count=$(($(round "$bin/peers" "$cell") / 100))
        echo "| $group | $name | $count | $ratio |"
    done
    exit
fi

# runs NAME COMMAND...: the program succeeds.
runs() {
    local name=$1 begin=$SECONDS log=$scratch/log.$BASHPID
    shift
    timeout 300 "$@" >"$log" 2>&1 || { cat "$log" >&2; fail "$name failed"; }
    printf 'passed    %-60s %3d s\n' "$name" $((SECONDS - begin))
}

# passes COMPILER SOURCE [FLAG...]: builds the program, links it with `link`, and runs it by the command `run`.
run=() link=$(shared "$release")
passes() {
    local compiler=$1 source=$2 program=$bin/program.$BASHPID language=("${c[@]}")
    shift 2
    [[ $source != *.cpp ]] || language=("${cxx[@]}")
    "$compiler" "${language[@]}" "$@" "bindings/c/$source" -o "$program" $link || fail "$source does not compile"
    runs "$source, $compiler $*" "${run[@]}" "$program"
}
# shellcheck disable=SC2086
line_passes() { (passes $1); }
# all_pass: `passes` for each line of the input, one for each processor at a time.
all_pass() { each line_passes || fail "not all passed"; }

examples=(examples/{config,list,connections,queue,tour}.c)
concurrent=(tests/{readers,parts,hazard,list,lock,map}.c)

echo "-- C"
{
    for compiler in gcc clang; do
        printf "$compiler %s\n" "${examples[@]}" "${concurrent[@]}" tests/{memory,misuse,unbalanced,process}.c
    done
    echo "gcc examples/list.c -O0 -fPIC -DSP_INITIAL_EXEC"
    echo "clang examples/list.c -O0 -std=c2x -DSP_DEBUG"
    echo "gcc tests/readers.c -fno-pie -no-pie"
} | all_pass
link="$static -pthread" passes gcc tests/readers.c
run=(env STILLPOINT_FENCE=seqcst)
printf 'gcc tests/%s.c\n' process readers | all_pass
run=()
for compiler in gcc clang; do
    ! "$compiler" -std=c11 -Werror -fsyntax-only "-I$release/include" -x c - 2>/dev/null <<<'
        #include <stillpoint.h>
        struct node *head;
        void publish(struct sp_stats *value) { sp_rcu_assign_pointer(head, value); }' ||
        fail "$compiler does not warn of a pointer of another type"
    for standard in c99 gnu99 c11 c2x; do
        for flag in -O2 -fsanitize=thread; do
            "$compiler" "-std=$standard" -pedantic "${warnings[@]}" -Wstrict-prototypes "$flag" -fsyntax-only \
                "-I$release/include" bindings/c/tests/warnings.c
        done
    done
done
gcc "${c[@]}" -DWITHOUT_GRACE_PERIODS bindings/c/tests/readers.c -o "$bin/program" \
    $(shared "$release")
# On a busy machine not in each run.
for ((tries = 0; tries < 60; tries++)); do
    (timeout 300 "$bin/program") >"$scratch/log" 2>&1 || break
done
((tries < 20)) || fail "tests/readers does not notice missing grace periods"
grep --quiet 'early == 0' "$scratch/log" || fail "tests/readers without grace periods fails for another reason"
echo "detected  tests/readers without grace periods"
gcc "${c[@]}" bindings/c/tests/misuse.c -o "$bin/program" $(shared "$debug")
runs "tests/misuse, debug library" "$bin/program" debug

echo "-- a library that is loaded and closed"
gcc "${c[@]}" -fPIC -shared dropins/liburcu/tests/hog.c -o "$bin/hog.so"
gcc "${c[@]}" -fPIC -shared bindings/c/tests/plugin.c -o "$bin/plugin.so" $(shared "$release")
gcc "${c[@]}" -fPIC -shared bindings/c/tests/plugin.c -o "$bin/plugin-static.so" $static -Wl,--exclude-libs,ALL
gcc "${c[@]}" bindings/c/tests/unload.c -o "$bin/unload" -ldl -pthread
runs "tests/unload, shared library" "$bin/unload" "$bin/hog.so" "$bin/plugin.so"
runs "tests/unload, static library" "$bin/unload" "$bin/hog.so" "$bin/plugin-static.so"

# A program that has a variable of each name in the headers, and uses it in classes with their bases.
{
    printf '#include <stillpoint/%s>\n' rcu.hpp hazard_pointer.hpp map.hpp raii.hpp lock.hpp
    grep -hvE '^ *(//|#)' bindings/c/include/stillpoint/*.hpp | grep -oE '\b[a-z][a-z_0-9]*\b' | sort -u | grep -v '^sp_' |
        grep -vxE 'retire|std|rcu_obj_base|hazard_pointer_obj_base' >"$scratch/words"
    # Without keywords: a line with one is an error.
    sed 's/.*/int &;/' "$scratch/words" | { g++ -std=c++20 -fsyntax-only -fmax-errors=0 -x c++ - 2>&1 || true; } |
        sed -nE 's/^<stdin>:([0-9]+):.* error: .*/\1d/p' | sort -u >"$scratch/keywords"
    names=$(sed -f "$scratch/keywords" "$scratch/words")
    echo 'namespace program {'
    printf 'static int %s = 1;\n' $names function_ reserved_
    for base in rcu hazard_pointer; do
        echo "struct Node_$base : stillpoint::${base}_obj_base<Node_$base> { int all_of_them() { return 0"
        printf '+ %s\n' $names function_ reserved_
        echo '; } };'
    done
    echo '}'
} >"$bin/names.cpp"

echo "-- C++"
# The oldest and the newest standard, and the one with which the headers know `std::span`.
standards=("-I$(PKG_CONFIG_PATH=$release/lib/pkgconfig pkg-config --variable=stddir stillpoint)")
{
    printf 'g++ tests/%s.cpp -std=c++17\n' rcu hazard_pointer lock map raii
    printf 'clang++ tests/%s.cpp -std=c++2b\n' rcu hazard_pointer lock map raii
    printf "%s tests/std.cpp $standards -std=%s\n" g++ c++2b g++ c++20 clang++ c++20 clang++ c++17
} | all_pass
for compiler in g++ clang++; do
    "$compiler" -std=c++17 -fsyntax-only "-I$release/include" "$bin/names.cpp"
    for standard in c++11 c++17 c++2b; do
        for flag in -O2 -fsanitize=thread; do
            "$compiler" -x c++ "-std=$standard" -pedantic "${warnings[@]}" -Wold-style-cast -Wcast-qual \
                -Wzero-as-null-pointer-constant "$flag" -fsyntax-only "-I$release/include" bindings/c/tests/warnings.c
        done
    done
    "$compiler" "${cxx[@]}" -std=c++17 -fno-exceptions -fsyntax-only "-I$release/include" -x c++ - <<<'
        #include <stillpoint/rcu.hpp>
        #include <stillpoint/hazard_pointer.hpp>
        struct Node : stillpoint::hazard_pointer_obj_base<Node> {};
        void f(int *p) { stillpoint::rcu_retire(p); }
        void f(Node *p) { p->retire(); }'
    for header in rcu.hpp hazard_pointer.hpp map.hpp; do
        ! "$compiler" -std=c++14 -fsyntax-only "-I$release/include" -x c++ - 2>"$scratch/log" \
            <<<"#include <stillpoint/$header>" || fail "$header compiles with C++14"
        [[ $(grep -c ': error: ' "$scratch/log") == 1 ]] &&
            grep --quiet 'needs C++17' "$scratch/log" || { cat "$scratch/log" >&2; fail "more than one error with C++14"; }
    done
done
# Classes that are not protectable are refused.
for base in rcu hazard_pointer; do
    ! g++ "${cxx[@]}" -std=c++17 -fsyntax-only "-I$release/include" -x c++ - 2>"$scratch/log" <<<"
        #include <stillpoint/$base.hpp>
        struct Wrong : virtual stillpoint::${base}_obj_base<Wrong> {};
        void f(Wrong *p) { p->retire(); }" || fail "a virtual base is accepted"
    grep --quiet 'exactly one base' "$scratch/log" || fail "a virtual base is refused for another reason"
done

echo "-- the first program of the page, as a user builds it"
awk '/^```c$/ { text = ""; inside = 1; next } /^```$/ { if (text ~ /int main/) printf "%s", text; inside = 0 }
    inside { text = text $0 "\n" }' "$out/reference/c-api.md" >"$bin/first.c"
export PKG_CONFIG_PATH=$release/lib/pkgconfig
first() {
    [[ $("$bin/first") == "1, then 2" ]] || fail "the first program, $1, prints something else"
    echo "passed    the first program, $1"
}
gcc "$bin/first.c" $(pkg-config --cflags --libs stillpoint) "-Wl,-rpath,$release/lib" -o "$bin/first"
first "shared library"
for compiler in gcc clang; do
    for form in -static -static-pie; do
        # The linker warns of functions of the C library that load others.
        "$compiler" $form "$bin/first.c" $(pkg-config --static --cflags --libs stillpoint) -o "$bin/first" \
            2>"$scratch/log" || { cat "$scratch/log" >&2; fail "$compiler $form"; }
        first "$compiler $form"
    done
done
# The commands that the installation prints.
grep -E '^  (export|cc|\./config)' "$scratch/hint" | (cd "$scratch" && bash -eu) >"$scratch/log" 2>&1 ||
    { cat "$scratch/hint" "$scratch/log" >&2; fail "what bindings/c/install.sh prints does not work"; }
echo "passed    the commands that the installation prints"
mkdir -p "$scratch/cmake"
cp "$bin/first.c" "$scratch/cmake/first.c"
cat >"$scratch/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.13)
project(first C)
find_package(stillpoint 0.2 REQUIRED)
find_package(stillpoint 0.2 REQUIRED)
add_executable(first first.c)
target_link_libraries(first stillpoint::stillpoint)
add_executable(first-static first.c)
target_link_libraries(first-static stillpoint::static)
END
{ cmake -S "$scratch/cmake" -B "$scratch/cmake/build" -DCMAKE_PREFIX_PATH="$release" &&
    cmake --build "$scratch/cmake/build"; } >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "CMake"; }
for name in first first-static; do
    cp "$scratch/cmake/build/$name" "$bin/first"
    first "CMake, $name"
done
sed -i 's/stillpoint 0.2 REQUIRED/stillpoint 0.1 REQUIRED/' "$scratch/cmake/CMakeLists.txt"
! cmake -S "$scratch/cmake" -B "$scratch/cmake/other" -DCMAKE_PREFIX_PATH="$release" >"$scratch/log" 2>&1 ||
    fail "CMake accepts another version"
unset PKG_CONFIG_PATH

echo "-- AddressSanitizer, with leak detection"
asan="-fsanitize=address,undefined -fno-sanitize-recover=all -g"
run=(env ASAN_OPTIONS=detect_leaks=1)
{
    printf "gcc %s $asan\n" "${examples[@]}" "${concurrent[@]}"
    printf "g++ tests/%s.cpp -std=c++17 $asan\n" rcu hazard_pointer lock map raii
} | all_pass
link="$static -pthread" passes clang examples/list.c $asan

echo "-- ThreadSanitizer, which reports races and nothing else"
# It needs the usual places in the address space.
run=(env TSAN_OPTIONS=die_after_fork=0 setarch -R)
tsan="-g -fsanitize=thread -DSP_TSAN_SUPPRESSIONS"
{
    for compiler in gcc clang; do
        printf "$compiler %s $tsan\n" "${examples[@]}" "${concurrent[@]}" tests/race.c
    done
    printf "clang++ tests/%s.cpp -std=c++17 $tsan\n" rcu hazard_pointer lock map raii
} | all_pass
for compiler in gcc clang; do
    "$compiler" "${c[@]}" $tsan bindings/c/tests/race.c -o "$bin/program" $link
    for race in 'read after the section' 'change in place' 'free without waiting' 'wait for another domain' \
        'look at what callbacks count' 'write under a lock for reading'; do
        # What runs after what is the scheduler's.
        for ((tries = 0; tries < 60; tries++)); do
            timeout 300 "${run[@]}" "$bin/program" "$race" >"$scratch/log" 2>&1 || break
        done
        grep --quiet 'ThreadSanitizer: data race' "$scratch/log" || fail "ThreadSanitizer does not find the race: $race"
        echo "reported  $race, $compiler"
    done
done

echo "-- C and Rust in one program"
gcc "${c[@]}" "-I$release/include" -c bindings/c/examples/mixed.c -o "$bin/mixed.o"
cargo rustc --quiet --package stillpoint-capi --features mixed --example mixed --target-dir "$target" -- \
    -Clink-arg="$bin/mixed.o"
runs examples/mixed "$target/debug/examples/mixed"

echo "-- instructions of a section, a lock, an add"
# In one unit, or it depends on the division into units whether the compiler inlines all of a section.
cargo rustc --quiet --release --package stillpoint-capi --example pair --target-dir "$target" -- -Ccodegen-units=1
# What it adds to a loop that loads.
instructions() {
    echo $(($(round "$@") - $(round "$1" bare)))
}
gcc "${c[@]}" bindings/c/tests/pair.c -o "$bin/pair" $(shared "$release")
clang "${c[@]}" bindings/c/tests/pair.c -o "$bin/pair-clang" $(shared "$release")
for what in section lock; do
    rust=$(instructions "$target/release/examples/pair" $what) calls=0
    # The functions of a lock are in the library, and called through its linkage table.
    [[ $what == section ]] || calls=800
    for program in pair pair-clang; do
        count=$(instructions "$bin/$program" $what)
        echo "$what, $program: $((count / 100)); Rust: $((rust / 100))"
        # At least a load and a store at both ends.
        ((count >= 400 && rust >= 400)) || fail "nothing was counted"
        ((10 * (count - calls) <= 11 * rust)) || fail "$program takes more than 1.1 times the instructions of Rust"
    done
done
# Callgrind has no rseq, so it does not execute the fast path, which ends at the first return.
add=$(objdump --disassemble=sp_counter_add --no-show-raw-insn "$release/lib/libstillpoint.so" |
    awk '/^ +[0-9a-f]+:/ { if (++count && /ret/) { print count; exit } }')
echo "add: $add; Rust: 15"
((add >= 10 && add <= 20)) || fail "an add takes $add instructions"

echo "-- instructions of a lookup in a map"
cargo rustc --quiet --release --package stillpoint-capi --example lookup --target-dir "$target" -- -Ccodegen-units=1
# In C the hash, and the comparison of structures, are called by pointer, and so is the map of pairs.
gcc "${c[@]}" bindings/c/tests/lookup.c -o "$bin/lookup" $link
for kind in pairs structures; do
    rust=$(round "$target/release/examples/lookup" $kind) count=$(round "$bin/lookup" $kind)
    echo "$kind: $((count / 100)); Rust: $((rust / 100))"
    ((count >= 1000 && rust >= 1000)) || fail "nothing was counted"
    ((100 * count <= 125 * rust)) || fail "a lookup takes more than 1.25 times the instructions of Rust"
done
