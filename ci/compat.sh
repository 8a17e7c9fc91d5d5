#!/usr/bin/env bash
# dropins/crossbeam-epoch keeps the promises of crossbeam-epoch. In place of it, crossbeam-deque and
# crossbeam-skiplist pass all of their tests and documented examples, and so do crossbeam-epoch's documented examples.
# Other crates that use it pass their own tests, unmodified: congee, and for `users` cht, crossbeam-skiplist-fd,
# lockfree-cuckoohash, and moka without its async half. One of congee's tests notices a drop-in that is broken. Cargo
# fetches the crates; none of their code is in this repository. Then the package's pointers run in Miri
# (`ci/setup.sh`).
#
#   ci/compat.sh         checks with one user, and with the crates of Cargo.lock and ci/crates.txt
#   ci/compat.sh users   checks with all users: three minutes more
#   ci/compat.sh record  writes ci/crates.txt again, with the newest crates, and checks
set -euo pipefail
cd "$(dirname "$0")/.."
dropin=crossbeam-epoch scratch=target/compat
source ci/dropin.sh

# The newest versions whose packages contain their tests.
epoch=0.9.21 deque=0.8.8 skiplist=0.1.3
# Users with tests that flush a few times, and then expect that destructors have run.
cht=0.5.0 congee=0.4.1 skiplist_fd=0.1.5 cuckoo=0.1.0 moka=0.12.16

# The tests inside crossbeam-epoch's source, which cannot run here, and their counterparts in
# dropins/crossbeam-epoch/tests. The others test parts that only crossbeam-epoch has.
counterparts=(
    atomic::valid_tag_i8=tags_have_the_bits_below_the_alignment
    atomic::valid_tag_i64=tags_have_the_bits_below_the_alignment
    atomic::const_null=null_is_a_constant
    atomic::array_init=slices_have_their_length_with_them
    atomic::format_null=pointers_are_formatted_without_being_read
    collector::pin_reentrant=guards_nest_and_end_in_any_order
    collector::buffering=functions_wait_for_all_that_are_pinned
    collector::count_drops=functions_of_all_kinds_run_once
    collector::count_destroy=values_of_all_kinds_are_destroyed_once
    collector::drop_array=values_of_all_kinds_are_destroyed_once
    collector::destroy_array=values_of_all_kinds_are_destroyed_once
    collector::stress=random_programs_run_each_function_once_in_order_after_a_grace_period
    default::pin_while_exiting=thread_local_destructors_may_pin
)
# The thread-local garbage and the epoch; how a deferred function is stored; the list of participants; the queue of
# garbage; a build with loom's atomics.
internals='collector::(flush_local_bag|garbage_buffering|pin_holds_advance|incremental)|(internal|deferred|list|queue|loom)::.*'

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

fetch "crossbeam-epoch = \"=$epoch\"
crossbeam-deque = \"=$deque\"
crossbeam-skiplist = \"=$skiplist\"
cht = \"=$cht\"
congee = \"=$congee\"
crossbeam-skiplist-fd = \"=$skiplist_fd\"
lockfree-cuckoohash = \"=$cuckoo\"
moka = { version = \"=$moka\", features = [\"sync\"] }"

echo "-- the tests inside crossbeam-epoch $epoch"
original=$PWD/$scratch/vendor/crossbeam-epoch-$epoch
diff <(printf '%s\n' "${counterparts[@]%=*}" | sort) <(tests_in "$original"/{src,tests} | grep -vxE "$internals") ||
    fail "crossbeam-epoch has other tests than this script lists"
for test in "${counterparts[@]}"; do
    grep --quiet "fn ${test#*=}\b" dropins/crossbeam-epoch/tests/*.rs || fail "dropins/crossbeam-epoch has no test ${test#*=}"
done
[[ -z $(tests_in "$scratch"/vendor/crossbeam-{deque-$deque,skiplist-$skiplist}/src) ]] ||
    fail "crossbeam-deque or crossbeam-skiplist has tests of its internals, which this script does not judge"
echo "${#counterparts[@]}, as listed"

programs=$scratch/programs
mkdir -p "$programs/epoch"
cp -r "$scratch/vendor/crossbeam-deque-$deque" "$programs/deque"
cp -r "$scratch/vendor/crossbeam-skiplist-$skiplist" "$programs/skiplist"
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

workspace "$programs" "$PWD/dropins/crossbeam-epoch" deque epoch skiplist

echo "-- the tests and documented examples of crossbeam-deque, crossbeam-skiplist and crossbeam-epoch"
cargo test --quiet "${all[@]}" --workspace --no-fail-fast
echo "-- crossbeam-epoch's example"
timeout 900 cargo run --quiet "${all[@]}" --package epoch --example sanitize

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
workspace "$folder" "$PWD/dropins/crossbeam-epoch" "${users[@]}"
# Alone: it counts on its flushes, for which another test's guard may have to go.
alone=test_reference_counting
cargo test --quiet "${all[@]}" --workspace --lib --tests --no-fail-fast -- --skip "$alone"
cargo test --quiet "${all[@]}" --package congee --lib "$alone"

echo "-- broken drop-ins"
refuting=(congee congee_arc::tests::test_reference_counting 'assertion `left == right` failed')
broken no-bag-elapses deferred.rs 's/self.cookie.is_elapsed()/false/' "${refuting[@]}"
broken functions-run-at-once guard.rs 's/Section::Thread(_) => unsafe { local::defer_in_thread(f) }/Section::Thread(_) => f()/' \
    "${refuting[@]}"

ours_again
if [[ ${1-} ]]; then
    echo "-- crossbeam-skiplist on both, briefly"
    CARGO_PROFILE_RELEASE_LTO=off dropins/bench/run.sh 1 0.01 # nothing is measured here
fi

echo "-- pointers in Miri"
needs_miri
MIRIFLAGS=-Zmiri-permissive-provenance cargo "+$rust_nightly" miri test --quiet \
    --manifest-path dropins/crossbeam-epoch/Cargo.toml --target-dir target/miri --test pointers
