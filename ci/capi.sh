#!/usr/bin/env bash
# The C and C++ interfaces: the libraries export the symbols of the header and nothing else; examples and tests pass
# with GCC and Clang, with the shared and the static library, and under AddressSanitizer; a library in debug mode aborts
# on misuse; C code and Rust code in one program are readers of one domain;
# and a section in C takes at most 1.1 times the instructions of one in Rust. A minute after the builds.
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

capi/reference.sh "$out/reference"
capi/install.sh "$release" >"$scratch/hint"
PROFILE=dev capi/install.sh "$debug" >/dev/null

echo "-- symbols"
exported() {
    nm "$@" | awk '$2 != "A" && NF == 3 { print $3 }' | sort
}
# Functions and variables that the header declares, without its inline functions, which may call each other.
declared() {
    gcc -std=c11 -E -P "$release/include/stillpoint.h" | tr '\n' ' ' | sed 's/[;{}]/&\n/g' >"$scratch/lines"
    names() { grep -oE '\bsp_[a-z0-9_]+ ?\(|\bsp_thread_v1_' | tr -d ' (' | sort -u; }
    comm -23 <(grep -v 'static inline' "$scratch/lines" | grep -E '\(|extern' | grep -v '(\*' | names) \
        <(grep 'static inline' "$scratch/lines" | names)
}
declared >"$scratch/declared"
grep -oE '\bsp_[a-z0-9_]+' capi/include/stillpoint.h | sort -u >"$scratch/header"
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
c=(-std=c11 -pedantic -Wall -Wextra -Werror -D_GNU_SOURCE -O2 -Icapi/tests)
cxx=(-pedantic -Wall -Wextra -Werror -O2 -Icapi/tests)
flags() {
    PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs stillpoint
}
shared() {
    echo "$(flags "$1") -Wl,-rpath,$1/lib -pthread"
}
static=$(flags "$release" | sed "s|-lstillpoint|$release/lib/libstillpoint.a|"; sed -n 's/^Libs.private: //p' "$release/lib/pkgconfig/stillpoint.pc")

# runs NAME COMMAND...: the program succeeds.
runs() {
    local name=$1 begin=$SECONDS
    shift
    timeout 300 "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "$name failed"; }
    printf 'passed    %-44s %3d s\n' "$name" $((SECONDS - begin))
}

examples=(examples/config examples/list examples/tour)
tests=(tests/readers tests/parts tests/hazard tests/misuse tests/unbalanced tests/process)
for compiler in gcc clang; do
    echo "-- $compiler"
    for source in "${examples[@]}" "${tests[@]}"; do
        "$compiler" "${c[@]}" "capi/$source.c" -o "$bin/program" $(shared "$release")
        runs "$source" "$bin/program"
    done
    "$compiler" "${c[@]}" capi/tests/readers.c -o "$bin/program" $static -pthread
    runs "tests/readers, static library" "$bin/program"
    for standard in c11 c17 c2x; do
        for flag in -O0 -fPIC -DSP_INITIAL_EXEC -DSP_DEBUG; do
            "$compiler" "${c[@]}" "-std=$standard" "$flag" -fsyntax-only "-I$release/include" capi/examples/list.c
        done
    done
done
"$compiler" "${c[@]}" -fno-pie -no-pie capi/tests/readers.c -o "$bin/program" $(shared "$release")
runs "tests/readers, at a fixed address" "$bin/program"
gcc "${c[@]}" -fPIE -pie capi/tests/process.c -o "$bin/program" $(shared "$release")
runs "tests/process, without membarrier" env STILLPOINT_FENCE=seqcst "$bin/program"
gcc "${c[@]}" capi/tests/readers.c -o "$bin/program" $(shared "$release")
runs "tests/readers, without membarrier" env STILLPOINT_FENCE=seqcst "$bin/program"
gcc "${c[@]}" -DWITHOUT_GRACE_PERIODS capi/tests/readers.c -o "$bin/program" \
    $(shared "$release")
# On a busy machine not in each run.
for ((tries = 0; tries < 20; tries++)); do
    (timeout 300 "$bin/program") >"$scratch/log" 2>&1 || break
done
((tries < 20)) || fail "tests/readers does not notice missing grace periods"
grep --quiet 'early == 0' "$scratch/log" || fail "tests/readers without grace periods fails for another reason"
echo "detected  tests/readers without grace periods"
gcc "${c[@]}" capi/tests/misuse.c -o "$bin/program" $(shared "$debug")
runs "tests/misuse, debug library" "$bin/program" debug

echo "-- a library that is loaded and closed"
gcc "${c[@]}" -fPIC -shared capi/tests/hog.c -o "$bin/hog.so"
gcc "${c[@]}" -fPIC -shared capi/tests/plugin.c -o "$bin/plugin.so" $(shared "$release")
gcc "${c[@]}" -fPIC -shared capi/tests/plugin.c -o "$bin/plugin-static.so" $static -Wl,--exclude-libs,ALL
gcc "${c[@]}" capi/tests/unload.c -o "$bin/unload" -ldl -pthread
runs "tests/unload, shared library" "$bin/unload" "$bin/hog.so" "$bin/plugin.so"
runs "tests/unload, static library" "$bin/unload" "$bin/hog.so" "$bin/plugin-static.so"

# A program that has a variable of each name in the headers, and uses it in classes with their bases.
{
    printf '#include <stillpoint/%s>\n' rcu.hpp hazard_pointer.hpp
    names=$(grep -hvE '^ *(//|#)' capi/include/stillpoint/*.hpp | grep -oE '\b[a-z][a-z_0-9]*\b' | sort -u | grep -v '^sp_' |
        grep -vxE 'retire|std|rcu_obj_base|hazard_pointer_obj_base' | while read -r name; do
        ! g++ -std=c++20 -fsyntax-only -x c++ - <<<"int $name;" 2>/dev/null || echo "$name"
    done)
    echo 'namespace program {'
    printf 'static int %s = 1;\n' $names function_ reserved_
    for base in rcu hazard_pointer; do
        echo "struct Node_$base : stillpoint::${base}_obj_base<Node_$base> { int sum() { return 0"
        printf '+ %s\n' $names function_ reserved_
        echo '; } };'
    done
    echo '}'
} >"$bin/names.cpp"

for compiler in g++ clang++; do
    echo "-- $compiler"
    "$compiler" -std=c++17 -fsyntax-only "-I$release/include" "$bin/names.cpp"
    for standard in c++17 c++20 c++2b; do
        for test in rcu hazard_pointer; do
            "$compiler" "${cxx[@]}" "-std=$standard" "capi/tests/$test.cpp" -o "$bin/program" $(shared "$release")
            runs "tests/$test, $standard" "$bin/program"
        done
    done
    "$compiler" "${cxx[@]}" -std=c++17 capi/tests/throw_through.cpp -o "$bin/program" $(shared "$release")
    runs "tests/throw_through" "$bin/program"
    "$compiler" "${cxx[@]}" -std=c++17 -fno-exceptions -fsyntax-only "-I$release/include" -x c++ - <<<'
        #include <stillpoint/rcu.hpp>
        void f(int *p) { stillpoint::rcu_retire(p); }'
    # A class that is not rcu-protectable is refused.
    ! "$compiler" "${cxx[@]}" -std=c++17 -fsyntax-only "-I$release/include" -x c++ - 2>"$scratch/log" <<<'
        #include <stillpoint/rcu.hpp>
        struct Wrong : virtual stillpoint::rcu_obj_base<Wrong> {};
        void f(Wrong *p) { p->retire(); }' || fail "a virtual base is accepted"
    grep --quiet 'exactly one base' "$scratch/log" || fail "a virtual base is refused for another reason"
    "$compiler" "${cxx[@]}" -std=c++17 -fno-exceptions -fsyntax-only "-I$release/include" -x c++ - <<<'
        #include <stillpoint/hazard_pointer.hpp>
        struct Node : stillpoint::hazard_pointer_obj_base<Node> {};
        void f(Node *p) { p->retire(); }'
    ! "$compiler" "${cxx[@]}" -std=c++17 -fsyntax-only "-I$release/include" -x c++ - 2>"$scratch/log" <<<'
        #include <stillpoint/hazard_pointer.hpp>
        struct Wrong : virtual stillpoint::hazard_pointer_obj_base<Wrong> {};
        void f(Wrong *p) { p->retire(); }' || fail "a virtual base is accepted"
    grep --quiet 'exactly one base' "$scratch/log" || fail "a virtual base is refused for another reason"
done

echo "-- older standards"
for compiler in gcc clang; do
    "$compiler" -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only "-I$release/include" -x c - <<<'#include <stillpoint.h>'
    for source in "${examples[@]}"; do
        "$compiler" -std=c11 -Wall -Wextra -Werror -fsyntax-only "-I$release/include" "capi/$source.c"
    done
done
for compiler in g++ clang++; do
    for standard in c++11 c++14; do
        "$compiler" "-std=$standard" -pedantic -Wall -Wextra -Werror -fsyntax-only "-I$release/include" -x c++ - \
            <<<'#include <stillpoint.h>'
        for header in rcu.hpp hazard_pointer.hpp; do
            ! "$compiler" "-std=$standard" -fsyntax-only "-I$release/include" -x c++ - 2>"$scratch/log" \
                <<<"#include <stillpoint/$header>" || fail "$header compiles with $standard"
            [[ $(grep -c ': error: ' "$scratch/log") == 1 ]] &&
                grep --quiet 'needs C++17' "$scratch/log" || { cat "$scratch/log" >&2; fail "more than one error with $standard"; }
        done
    done
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
    { cat "$scratch/hint" "$scratch/log" >&2; fail "what capi/install.sh prints does not work"; }
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
asan=(-fsanitize=address,undefined -fno-sanitize-recover=all -g)
for source in "${examples[@]}" tests/readers tests/parts tests/hazard; do
    gcc "${c[@]}" "${asan[@]}" "capi/$source.c" -o "$bin/program" $(shared "$release")
    runs "$source" env ASAN_OPTIONS=detect_leaks=1 "$bin/program"
done
clang "${c[@]}" "${asan[@]}" capi/examples/list.c -o "$bin/program" $static -pthread
runs "examples/list, clang, static library" env ASAN_OPTIONS=detect_leaks=1 "$bin/program"
for test in rcu hazard_pointer; do
    g++ "${cxx[@]}" "${asan[@]}" -std=c++17 "capi/tests/$test.cpp" -o "$bin/program" $(shared "$release")
    runs "tests/$test" env ASAN_OPTIONS=detect_leaks=1 "$bin/program"
done

echo "-- C and Rust in one program"
gcc "${c[@]}" "-I$release/include" -c capi/examples/mixed.c -o "$bin/mixed.o"
cargo rustc --quiet --package stillpoint-capi --features mixed --example mixed --target-dir "$target" -- \
    -Clink-arg="$bin/mixed.o"
runs examples/mixed "$target/debug/examples/mixed"

echo "-- instructions of the beginning and the end of a section"
# In one unit, or it depends on the division into units whether the compiler inlines all of a section.
cargo rustc --quiet --release --package stillpoint-capi --example pair --target-dir "$target" -- -Ccodegen-units=1
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
# What a section adds to a loop that loads.
instructions() {
    echo $(($(round "$1") - $(round "$1" bare)))
}
gcc "${c[@]}" capi/tests/pair.c -o "$bin/pair" $(shared "$release")
clang "${c[@]}" capi/tests/pair.c -o "$bin/pair-clang" $(shared "$release")
rust=$(instructions "$target/release/examples/pair")
for program in pair pair-clang; do
    count=$(instructions "$bin/$program")
    echo "$program: $((count / 100)); Rust: $((rust / 100))"
    # At least a load and a store at both ends.
    ((count >= 400 && rust >= 400)) || fail "nothing was counted"
    ((10 * count <= 11 * rust)) || fail "$program takes more than 1.1 times the instructions of Rust"
done
