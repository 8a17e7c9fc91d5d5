# Functions that several checks share. Sourced by scripts that run in the root of the repository.

source ci/versions.sh

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# fail WHAT: ends the check.
fail() { echo "FAILED    $*" >&2; exit 1; }

# cannot WHY: ends a check that this machine cannot run (see .ci/run).
cannot() { echo "CANNOT CHECK: $*" >&2; exit 77; }

# build COMMAND...: builds the test programs of a `cargo test` command, and stores their paths by name in `binary`.
declare -A binary
build() {
    local path name
    "$@" --no-run || return
    while IFS= read -r path; do
        name=$(basename "$path")
        binary[${name%-*}]=$path
    done < <("$@" --no-run --message-format=json 2>/dev/null | grep -oE '"executable":"[^"]+"' | cut -d'"' -f4)
}

# each FUNCTION: calls it with each line of the input, one call per processor at a time. Succeeds if all calls do.
each() {
    local line processors
    processors=$(nproc)
    while IFS= read -r line; do
        while (($(jobs -rp | wc -l) >= processors)); do wait -n || true; done
        { "$1" "$line" || touch "$scratch/failed"; } &
    done
    wait
    [[ ! -e $scratch/failed ]]
}

# patches: prints the names of the mutants that are patches; those of several places, or of one in ci/mutants/patches.txt.
patches() { { ls ci/mutants/*.patch | sed 's|.*/\(.*\)\.patch$|\1|' && python3 ci/patch.py names; } | sort; }

# is_patch NAME: the mutant is one of these, which the caller has stored in `patches`.
is_patch() { grep --quiet --line-regexp --fixed-strings -- "$1" <<<"$patches"; }

# refutes: prints the mutants that tests refute, as `mutant program test`.
refutes() {
    grep -rl --include='*.rs' '/// Refutes: ' stillpoint collections dropins/liburcu | sort | xargs awk -f ci/refutes.awk
}

# places: prints the functions of the source, and each step that has a mutant as `name function`. Steps of rseq
# critical sections have numbers, so the file with their names comes first.
places() {
    find stillpoint/src collections/src dropins/liburcu/core/src -name '*.rs' -not -path "$faults" -exec awk -f ci/places.awk "$faults" {} + | sort -u
}
faults=stillpoint/src/percpu/rseq/faults.rs

# steps_in FOLDER...: prints the names of the steps that have mutants.
steps_in() {
    find "$@" -name '*.rs' -not -path "$faults" -exec awk -f ci/places.awk "$faults" {} + | sed -n 's/ .*//p' | sort -u
}

# Builds the loom models. Fast builds; nothing is measured there.
loom=(env CARGO_PROFILE_RELEASE_LTO=off RUSTFLAGS="--cfg loom"
    cargo test --package stillpoint --package stillpoint-collections --package stillpoint-urcu-core --release
    --target-dir target/loom --test 'loom*')

# models: prints each model as `FILE TEST`. Call after the build.
models() {
    local file
    for file in "${!binary[@]}"; do
        "${binary[$file]}" --list --format terse | sed -n "s/^\(.*\): test$/$file \1/p"
    done
}

# holds "FILE TEST": explores the model, in a separate process.
holds() {
    local file test log
    read -r file test <<<"$1"
    if log=$(timeout 1800 "${binary[$file]}" --exact "$test" 2>&1) && grep --quiet '1 passed' <<<"$log"; then
        echo "holds     $file::$test"
    else
        printf '%s\nFAILS     %s\n' "$log" "$file::$test"
        return 1
    fi
}

# package: unpacks the files that crates.io would get, and stores the path of their manifest in `packaged`.
package() {
    rm -rf target/package
    cargo package --package stillpoint --no-verify --allow-dirty --quiet --target-dir target
    # Touched, because cargo compares file times, and those in a package are all equal.
    tar --extract --touch --gzip --file target/package/stillpoint-*.crate --directory target/package
    packaged=$(echo target/package/stillpoint-*/Cargo.toml)
}
