# Sourced by the checks that make packages of their own. Their crates are those of `Cargo.lock`, and of
# `ci/crates.txt`, which lists the others: name, version, checksum.

# pin FOLDER [CRATE]: makes the lock file of the package in the folder. Fails if the package needs a crate that is
# listed nowhere; in `ci/compat.sh record` it lists the crate. CRATE, an old release, takes the place of those with
# its name.
pin() {
    local others metadata=(cargo metadata --quiet --format-version 1 --manifest-path "$1/Cargo.toml")
    { echo version = 4 && listed "${@:2}" | entries; } >"$1/Cargo.lock"
    # Cargo prefers the versions that it finds there, and drops what the package does not need.
    # Without the network if the crates are here.
    "${metadata[@]}" --offline >/dev/null 2>&1 || "${metadata[@]}" >/dev/null || return
    others=$(comm -23 <(crates_of "$1/Cargo.lock") <(listed "${@:2}"))
    [[ -n $others ]] || return 0
    if [[ ${recording-} ]]; then
        sort --output ci/crates.txt ci/crates.txt - <<<"$others"
    else
        printf 'neither Cargo.lock nor ci/crates.txt (ci/compat.sh record) has\n%s\n' "$others" >&2
        return 1
    fi
}

# listed [CRATE]: the crates of the registry that may be used.
listed() {
    local name=${1-}
    { crates_of Cargo.lock && cat ci/crates.txt; } | awk -v name="${name%% *}" '$1 != name' | cat - <(printf '%s\n' "$@") |
        sed '/^$/d' | sort -u
}

# Reads such a list, and prints a lock file's entries: without dependencies, which would tie the crates to each other.
entries() {
    local name version checksum registry=registry+https://github.com/rust-lang/crates.io-index
    while read -r name version checksum; do
        printf '\n[[package]]\nname = "%s"\nversion = "%s"\nsource = "%s"\nchecksum = "%s"\n' \
            "$name" "$version" "$registry" "$checksum"
    done
}

# crates_of LOCK_FILE: the crates of the registry, as `ci/crates.txt` has them.
crates_of() {
    awk '/^name/ { name = $3 } /^version/ { version = $3 } /^checksum/ { print name, version, $3 }' "$1" | tr -d '"' | sort
}
