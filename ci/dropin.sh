# Functions of ci/compat.sh and ci/arc-swap.sh. These set `dropin`, the name of a package in dropins/ and of the crate
# whose place it takes, and `scratch`, a folder. Sourced by scripts that run in the root of the repository.

source ci/versions.sh
source ci/pin.sh

fail() {
    echo "$*" >&2
    exit 1
}

# fetch DEPENDENCIES: downloads these crates, and unpacks their sources into $scratch/vendor.
fetch() {
    mkdir -p "$scratch/fetch/src"
    touch "$scratch/fetch/src/lib.rs"
    printf '[package]\nname = "fetch"\nedition = "2024"\n[dependencies]\n%s\n[workspace]\n' "$1" >"$scratch/fetch/Cargo.toml"
    pin "$scratch/fetch"
    cargo vendor --locked --quiet --versioned-dirs --manifest-path "$scratch/fetch/Cargo.toml" "$scratch/vendor" >/dev/null
}

# tests_in FILE-OR-FOLDER...: prints the tests of a crate's source, as `file::test`.
tests_in() {
    awk '/#\[test\]/ { found = 1 }
        found && match($0, /fn [a-z0-9_]+/) {
            file = FILENAME; sub(".*/", "", file); sub("[.]rs$", "", file)
            print file "::" substr($0, RSTART + 3, RLENGTH - 3); found = 0
        }' $(find "$@" -name '*.rs') | sort
}

# workspace FOLDER DROPIN MEMBER...: makes a workspace in which that drop-in takes the crate's place, and checks that
# it does. `all` are cargo's options for it.
workspace() {
    local folder=$1 path=$2 tree
    {
        printf '[workspace]\nresolver = "2"\nmembers = ['
        printf '"%s", ' "${@:3}"
        printf ']\n[patch.crates-io]\n%s = { path = "%s" }\n' "$dropin" "$path"
    } >"$folder/Cargo.toml"
    pin "$folder"
    all=(--locked --manifest-path "$folder/Cargo.toml")
    # With two versions of the crate, the name would be ambiguous.
    tree=$(cargo tree --quiet "${all[@]}" --workspace --invert "$dropin" --depth 1 --edges normal)
    grep --quiet --fixed-strings "$path" <<<"$tree" || fail "the patch is not in use"
}

# broken NAME FILE SED USER TEST MESSAGE: a drop-in of which a file is changed does not pass a test of a user. (A few
# tries, as the library's thread may do in time what the caller does not.)
broken() {
    local name=$1 file=$dropin/src/$2 user=$4 copy=$scratch/broken/$1 log=$scratch/broken/$1.log all tries
    mkdir -p "$copy"
    cp -r "dropins/$dropin" "$scratch/users/$user" "$copy"
    rm -r "$copy/$dropin/tests"
    sed -i -E "s|^(edition).workspace.*|\1 = \"2024\"|; /\.workspace = true/d; /^\[(dev-dependencies|\[test)\]/,\$d
        s|\.\./\.\./stillpoint|$PWD/stillpoint|" "$copy/$dropin/Cargo.toml"
    sed -i "$3" "$copy/$file"
    ! diff --brief "$copy/$file" "dropins/$file" >/dev/null || fail "$name: nothing is broken"
    workspace "$copy" "$PWD/$copy/$dropin" "$dropin" "$user"
    all+=(--package "$user" --lib)
    cargo test --quiet "${all[@]}" --no-run
    for ((tries = 0; tries < 100; tries++)); do
        if ! timeout 600 cargo test --quiet "${all[@]}" "$5" >"$log" 2>&1; then
            grep --quiet "$6" "$log" || { cat "$log" >&2; fail "$name: another failure"; }
            echo "refuted: $name"
            return
        fi
    done
    fail "$5 of $user passes although $name"
}

# ours_again: what follows is compiled as elsewhere.
ours_again() { unset CARGO_TARGET_DIR CARGO_PROFILE_DEV_OPT_LEVEL RUSTFLAGS RUSTDOCFLAGS; }

# needs_miri: ends the check if Miri is not installed.
needs_miri() {
    cargo "+$rust_nightly" miri --version >/dev/null 2>&1 && return
    echo "CANNOT CHECK: Miri is not installed" >&2
    exit 77 # see .ci/run
}

rm -rf "$scratch"/{fetch,vendor,own,programs,users,broken,old}
mkdir -p "$scratch/users"
# For code that is not ours: its lints are not ours to judge. Optimized, as some tests flush a million times.
# Assertions stay.
export CARGO_TARGET_DIR=$scratch/build CARGO_PROFILE_DEV_OPT_LEVEL=1 RUSTFLAGS=--cap-lints=allow RUSTDOCFLAGS=--cap-lints=allow
