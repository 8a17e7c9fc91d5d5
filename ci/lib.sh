# What several checks share; to be sourced by scripts that run in the root of the repository, or in a folder of it.

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# build COMMAND...: has `cargo test` build programs, and leaves their paths by name in `binary`.
declare -A binary
build() {
    local path name
    "$@" --no-run || return
    while IFS= read -r path; do
        name=$(basename "$path")
        binary[${name%-*}]=$path
    done < <("$@" --no-run --message-format=json 2>/dev/null | grep -oE '"executable":"[^"]+"' | cut -d'"' -f4)
}

# each FUNCTION: calls it with each line read, as often at a time as there are processors; whether all of that succeeded.
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

# What the models of loom are built by. Quickly, as nothing is measured there.
loom=(env CARGO_PROFILE_RELEASE_LTO=off RUSTFLAGS="--cfg loom"
    cargo test --package stillpoint --release --target-dir target/loom --test 'loom_*')

# models: prints each model as `FILE TEST`, after the build.
models() {
    local file
    for file in "${!binary[@]}"; do
        "${binary[$file]}" --list --format terse | sed -n "s/^\(.*\): test$/$file \1/p"
    done
}

# holds "FILE TEST": explores the model, in a process of its own.
holds() {
    local file test log
    read -r file test <<<"$1"
    if log=$("${binary[$file]}" --exact "$test" 2>&1) && grep --quiet '1 passed' <<<"$log"; then
        echo "holds     $file::$test"
    else
        printf '%s\nFAILS     %s\n' "$log" "$file::$test"
        return 1
    fi
}

# package: leaves the path of the manifest in `packaged` of the files that crates.io would get, and nothing else.
package() {
    rm -rf target/package
    cargo package --package stillpoint --no-verify --allow-dirty --quiet --target-dir target
    # Touched: cargo goes by the times of files, and those in a package are all alike.
    tar --extract --touch --gzip --file target/package/stillpoint-*.crate --directory target/package
    packaged=$(echo target/package/stillpoint-*/Cargo.toml)
}
