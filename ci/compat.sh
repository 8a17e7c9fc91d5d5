#!/usr/bin/env bash
# compat/crossbeam-epoch keeps the promises of crossbeam-epoch. In place of it, crossbeam-deque and crossbeam-skiplist
# pass all of their tests and documented examples, and so do crossbeam-epoch's documented examples. Other crates that use
# it pass their own tests, unmodified: congee, and for `users` cht, crossbeam-skiplist-fd, lockfree-cuckoohash, and moka without
# its async half. One of congee's tests notices a drop-in that is broken. A program with a stalled thread keeps within the limits.
# Cargo fetches the crates; none of their code is in this repository. Then the package's pointers run in Miri
# (`ci/setup.sh`), with strict provenance.
#
#   ci/compat.sh         checks with one user, and with the crates of Cargo.lock and ci/crates.txt
#   ci/compat.sh users   checks with all users: three minutes more
#   ci/compat.sh record  writes ci/crates.txt again, with the newest crates, and checks
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh
source ci/pin.sh

# The newest versions whose packages contain their tests.
epoch=0.9.21 deque=0.8.8 skiplist=0.1.3
# Users with tests that flush a few times, and then expect that destructors have run.
cht=0.5.0 congee=0.4.1 skiplist_fd=0.1.5 cuckoo=0.1.0 moka=0.12.16

# The tests inside crossbeam-epoch's source, which cannot run here. Those of its public API have counterparts in
# compat/crossbeam-epoch/tests. The others, with a dash, test parts that only crossbeam-epoch has:
#   bag     the thread-local garbage, its capacity and its sizes
#   advance the global epoch, advanced and collected by hand
#   queue   the queue of garbage
#   list    the list of participants
#   store   how a deferred function is stored
#   loom    a build with loom's atomics
inside=(
    atomic::valid_tag_i8=tags_have_the_bits_below_the_alignment
    atomic::valid_tag_i64=tags_have_the_bits_below_the_alignment
    atomic::const_null=null_is_a_constant
    atomic::array_init=slices_have_their_length_with_them
    atomic::format_null=pointers_are_formatted_without_being_read
    collector::pin_reentrant=guards_nest_and_end_in_any_order
    collector::flush_local_bag=-bag
    collector::garbage_buffering=-bag
    collector::pin_holds_advance=-advance
    collector::incremental=-advance
    collector::buffering=functions_wait_for_all_that_are_pinned
    collector::count_drops=functions_of_all_kinds_run_once
    collector::count_destroy=values_of_all_kinds_are_destroyed_once
    collector::drop_array=values_of_all_kinds_are_destroyed_once
    collector::destroy_array=values_of_all_kinds_are_destroyed_once
    collector::stress=readers_see_whole_values
    default::pin_while_exiting=thread_local_destructors_may_pin
    deferred::on_stack=-store
    deferred::on_heap=-store
    deferred::string=-store
    deferred::boxed_slice_i32=-store
    deferred::long_slice_usize=-store
    internal::local_size=-bag
    internal::check_defer=-store
    internal::check_bag=-bag
    list::insert=-list
    list::delete=-list
    list::insert_delete_multi=-list
    list::iter_multi=-list
    loom::it_works=-loom
    loom::treiber_stack=-loom
    queue::push_try_pop_1=-queue
    queue::push_try_pop_2=-queue
    queue::push_try_pop_many_seq=-queue
    queue::push_pop_1=-queue
    queue::push_pop_2=-queue
    queue::push_pop_many_seq=-queue
    queue::push_try_pop_many_spsc=-queue
    queue::push_try_pop_many_spmc=-queue
    queue::push_try_pop_many_mpmc=-queue
    queue::push_pop_many_spsc=-queue
    queue::is_empty_dont_pop=-queue
)

users=(congee)
case ${1-} in
    '') ;;
    users) users+=(cht cuckoo moka skiplist-fd) ;;
    record)
        users+=(cht cuckoo moka skiplist-fd)
        export recording=1
        : >ci/crates.txt
        ;;
    *)
        sed -n '9,11s/^#   //p' "$0" >&2
        exit 2
        ;;
esac

scratch=target/compat
fail() {
    echo "$*" >&2
    exit 1
}

rm -rf "$scratch"/{fetch,vendor,programs,users,broken}
mkdir -p "$scratch"/{fetch/src,programs/{epoch,strings},users}
touch "$scratch/fetch/src/lib.rs"
cat >"$scratch/fetch/Cargo.toml" <<END
[package]
name = "fetch"
edition = "2024"
[dependencies]
crossbeam-epoch = "=$epoch"
crossbeam-deque = "=$deque"
crossbeam-skiplist = "=$skiplist"
cht = "=$cht"
congee = "=$congee"
crossbeam-skiplist-fd = "=$skiplist_fd"
lockfree-cuckoohash = "=$cuckoo"
moka = { version = "=$moka", features = ["sync"] }
[workspace]
END
pin "$scratch/fetch"
cargo vendor --locked --quiet --versioned-dirs --manifest-path "$scratch/fetch/Cargo.toml" "$scratch/vendor" >/dev/null

echo "-- the tests inside crossbeam-epoch $epoch"
tests() {
    awk '/#\[test\]/ { found = 1 }
        found && match($0, /fn [a-z0-9_]+/) {
            file = FILENAME; sub(".*/", "", file); sub("[.]rs$", "", file)
            print file "::" substr($0, RSTART + 3, RLENGTH - 3); found = 0
        }' $(find "$@" -name '*.rs') | sort
}
original=$PWD/$scratch/vendor/crossbeam-epoch-$epoch
diff <(printf '%s\n' "${inside[@]%=*}" | sort) <(tests "$original"/{src,tests}) ||
    fail "crossbeam-epoch has other tests than this script lists"
for test in "${inside[@]}"; do
    counterpart=${test#*=}
    [[ $counterpart == -* ]] || grep --quiet "fn $counterpart\b" compat/crossbeam-epoch/tests/*.rs ||
        fail "compat/crossbeam-epoch has no test $counterpart"
done
[[ -z $(tests "$scratch"/vendor/crossbeam-{deque-$deque,skiplist-$skiplist}/src) ]] ||
    fail "crossbeam-deque or crossbeam-skiplist has tests of its internals, which this script does not judge"
echo "${#inside[@]}, as listed"

programs=$scratch/programs
cp -r "$scratch/vendor/crossbeam-deque-$deque" "$programs/deque"
cp -r "$scratch/vendor/crossbeam-skiplist-$skiplist" "$programs/skiplist"
cat >"$programs/Cargo.toml" <<END
[workspace]
members = ["deque", "epoch", "skiplist", "strings"]
resolver = "2"
[patch.crates-io]
crossbeam-epoch = { path = "$PWD/compat/crossbeam-epoch" }
END
cat >"$programs/strings/Cargo.toml" <<END
[package]
name = "strings"
edition = "2024"
[[bin]]
name = "strings"
path = "$PWD/compat/users/strings.rs"
[dependencies]
crossbeam-epoch = "0.9"
crossbeam-skiplist = { path = "../skiplist" }
END
# A library of crossbeam-epoch's source under another name: its documented examples use the dependency.
cat >"$programs/epoch/Cargo.toml" <<END
[package]
name = "epoch"
edition = "2021"
[lib]
path = "$original/src/lib.rs"
test = false
[features]
default = ["alloc", "std"]
alloc = []
std = []
[[example]]
name = "sanitize"
path = "$original/examples/sanitize.rs"
[dependencies]
crossbeam-epoch = "0.9"
crossbeam-utils = "0.8"
[dev-dependencies]
rand = "0.8"
END

# Lints on that code are not ours to judge. Optimized, as some tests flush a million times. Assertions stay.
export CARGO_TARGET_DIR=$scratch/build CARGO_PROFILE_DEV_OPT_LEVEL=1 RUSTFLAGS=--cap-lints=allow RUSTDOCFLAGS=--cap-lints=allow
pin "$programs"
all=(--locked --manifest-path "$programs/Cargo.toml")
tree=$(cargo tree --quiet "${all[@]}" --workspace --invert crossbeam-epoch --depth 1 --edges normal)
echo "$tree"
grep --quiet --fixed-strings "$PWD/compat/crossbeam-epoch" <<<"$tree" || fail "the patch is not in use"

echo "-- the tests and documented examples of crossbeam-deque, crossbeam-skiplist and crossbeam-epoch"
cargo test --quiet "${all[@]}" --workspace --no-fail-fast
echo "-- crossbeam-epoch's example"
timeout 900 cargo run --quiet "${all[@]}" --package epoch --example sanitize

echo "-- a program with strings in a skip list, and a stalled thread"
timeout 900 cargo run --quiet "${all[@]}" --package strings

echo "-- the tests of ${users[*]}"
folder=$scratch/users
cp -r "$scratch/vendor/cht-$cht" "$folder/cht"
cp -r "$scratch/vendor/congee-$congee" "$folder/congee"
cp -r "$scratch/vendor/crossbeam-skiplist-fd-$skiplist_fd" "$folder/skiplist-fd"
cp -r "$scratch/vendor/lockfree-cuckoohash-$cuckoo" "$folder/cuckoo"
cp -r "$scratch/vendor/moka-$moka" "$folder/moka"
# Those of congee and moka also name what only their benchmarks and async tests need: a hundred crates.
cat >"$folder/congee/Cargo.toml" <<END
[package]
name = "congee"
version = "$congee"
edition = "2024"
autobenches = false
[features]
shuttle = []
stats = []
[dependencies]
crossbeam-epoch = "0.9"
[dev-dependencies]
rand = "0.8"
END
cat >"$folder/moka/Cargo.toml" <<END
[package]
name = "moka"
version = "$moka"
edition = "2021"
autotests = false
[features]
default = ["sync"]
sync = []
future = []
logging = []
quanta = []
[dependencies]
crossbeam-channel = "0.5"
crossbeam-epoch = "0.9"
crossbeam-utils = "0.8"
equivalent = "1"
parking_lot = "0.12"
portable-atomic = "1"
smallvec = "1"
tagptr = "0.2"
uuid = { version = "1", features = ["v4"] }
[dev-dependencies]
anyhow = "1"
env_logger = "0.10"
getrandom = "0.2"
once_cell = "1"
rand = "0.8"
[[test]]
name = "entry_api_sync"
[[test]]
name = "eviction_stall_sync"
END
cat >"$folder/Cargo.toml" <<END
[workspace]
members = [$(printf '"%s", ' "${users[@]}")]
resolver = "2"
[patch.crates-io]
crossbeam-epoch = { path = "$PWD/compat/crossbeam-epoch" }
END
pin "$folder"
all=(--locked --manifest-path "$folder/Cargo.toml")
# Alone: it counts on its flushes, for which another test's guard may have to go.
alone=test_reference_counting
cargo test --quiet "${all[@]}" --workspace --lib --tests --no-fail-fast -- --skip "$alone"
cargo test --quiet "${all[@]}" --package congee --lib "$alone"

# broken NAME FILE SED: a drop-in of which a file is changed does not pass a test of congee. (A few tries, as the library's
# thread may do in time what the caller does not.)
broken() {
    local name=$1 file=crossbeam-epoch/src/$2 copy=$scratch/broken/$1 test=congee_arc::tests::test_reference_counting log=$scratch/broken/$1.log tries
    mkdir -p "$copy"
    cp -r compat/crossbeam-epoch "$folder/congee" "$copy"
    sed -i -E "s|^(edition).workspace.*|\1 = \"2024\"|; /\.workspace = true/d; /^\[dev-dependencies\]/,\$d
        s|\.\./\.\./stillpoint|$PWD/stillpoint|; /^workspace = true/d" "$copy/crossbeam-epoch/Cargo.toml"
    printf '[workspace]\nmembers = ["congee", "crossbeam-epoch"]\nresolver = "2"\n' >"$copy/Cargo.toml"
    printf '[patch.crates-io]\ncrossbeam-epoch = { path = "crossbeam-epoch" }\n' >>"$copy/Cargo.toml"
    sed -i "$3" "$copy/$file"
    ! diff --brief "$copy/$file" "compat/$file" >/dev/null ||
        fail "$name: nothing is broken"
    pin "$copy"
    all=(--locked --manifest-path "$copy/Cargo.toml" --package congee --lib)
    cargo test --quiet "${all[@]}" --no-run
    for ((tries = 0; tries < 100; tries++)); do
        if ! cargo test --quiet "${all[@]}" "$test" >"$log" 2>&1; then
            grep --quiet 'assertion `left == right` failed' "$log" || { cat "$log" >&2; fail "$name: another failure"; }
            echo "refuted: $name"
            return
        fi
    done
    fail "$test passes although $name"
}
echo "-- broken drop-ins"
broken no-bag-elapses deferred.rs 's/self.cookie.is_elapsed()/false/'
broken functions-run-at-once guard.rs 's/Section::Thread(_) => unsafe { local::defer_in_thread(f, 0) }/Section::Thread(_) => f()/'

unset CARGO_TARGET_DIR CARGO_PROFILE_DEV_OPT_LEVEL RUSTFLAGS RUSTDOCFLAGS
echo "-- crossbeam-skiplist on both, briefly"
CARGO_PROFILE_RELEASE_LTO=off compat/bench/run.sh 1 0.01 # nothing is measured here

echo "-- pointers in Miri"
if ! cargo "+$rust_nightly" miri --version >/dev/null 2>&1; then
    echo "CANNOT CHECK: Miri is not installed" >&2
    exit 77 # see .ci/run
fi
miri=(cargo "+$rust_nightly" miri test --quiet --manifest-path compat/crossbeam-epoch/Cargo.toml --target-dir target/miri
    --test pointers --)
MIRIFLAGS=-Zmiri-strict-provenance "${miri[@]}" --skip address
MIRIFLAGS=-Zmiri-permissive-provenance "${miri[@]}" address
