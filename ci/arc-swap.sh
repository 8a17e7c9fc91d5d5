#!/usr/bin/env bash
# compat/arc-swap keeps the promises of arc-swap. In place of it, arc-swap's own tests pass, unmodified: `random`, `stress`,
# those of its bugs 198 and 210, the documented examples, and the tests inside its source, which check counts. Programs for
# bugs that were reported (tests/reported.rs) fail on releases of arc-swap that have them. Two crates that use it pass their
# own tests, unmodified: concread and vm-memory; they notice drop-ins that are broken. Cargo fetches all of these crates; none
# of their code is in this repository. The programs for races need Miri (`ci/setup.sh`).
#
#   ci/arc-swap.sh          checks without users and races, with the crates of Cargo.lock and ci/crates.txt
#   ci/arc-swap.sh users    checks all: five minutes
#   ci/arc-swap.sh record   adds to ci/crates.txt what is missing there (after `ci/compat.sh record`), and checks all
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh
source ci/pin.sh

# The newest version.
version=1.9.5
# Releases with bugs, and their checksums.
declare -A old_releases=(
    [1.8.2]=f9f3647c145568cec02c42054e07bdf9a5a698e15b466fb2341bfc393cd24aa5
    [1.9.3]=380962b3d93b99642e50b9febf72c071e97e8b32d86eae9cf4ef582bb960ae6e
    [1.9.4]=db4c94f57a570fce5d381be3289b3f79aef6332d72948fe82ab5772e423ccf92
)
# Users with tests of their own.
concread=0.5.5 vm_memory=0.18.0

# The tests inside arc-swap's source. Those that run here are unmodified: cut out, and compiled with this package's items
# in place of the source's. `counts` says that a test checks exact counts.
inside=(
    lib::publish=counts
    lib::swap_load=counts
    lib::multi_writers=
    lib::load_null=
    lib::from_into=counts
    lib::guard_drop_in_thread=counts
    lib::guard_drop_in_another_thread=counts
    lib::load_option=
    lib::debug_impl=
    lib::display_impl=
    lib::recursive=counts
    lib::rcu_panic=counts
    lib::nulls=counts
    lib::rcu=
    lib::cas_ref_cnt=counts
    lib::load_cnt=counts
    lib::lease_overflow=counts
    lib::moved_storage_box=counts
    lib::moved_storage_into_inner=counts
    access::static_dispatch=
    access::dyn_dispatch=
    access::transition=
    access::indirect=
    access::map=
    access::map_reload=
    access::map_option_some=
    access::map_option_none=
    access::constant=
    access::double_dyn_access_complex=
    cache::cached_through_arc=
    cache::cache_option=
    cache::map_cache=
    ref_cnt::ref_cnt_arc=
    ref_cnt::ref_cnt_pin_arc=
    ref_cnt::ref_cnt_pin_rc=
    ref_cnt::misaligned_tag=
    serde::test_serialize_deserialize=
    serde::test_serialize_deserialize_option=
    serde::test_serialize_deserialize_option_none=
    weak::there_and_back=counts
    weak::reset=counts
    weak::destroy=
    weak::strong_guard_dropped=counts
    weak::strong_guard_into_inner=counts
    weak::weak_guard=counts
)
# Not here: it calls a private method. The rest of what it tests is in `tests/interface.rs`.
private=(cache::cached_value)

recording= everything=
case ${1-} in
    users) everything=1 ;;
    record) export recording=1 everything=1 ;;
esac

scratch=target/arc-swap
fail() {
    echo "$*" >&2
    exit 1
}

rm -rf "$scratch"/{fetch,vendor,own,users,broken,old}
mkdir -p "$scratch"/{fetch/src,own/inside/src,own/docs,own/tests,users}
touch "$scratch/fetch/src/lib.rs"
cat >"$scratch/fetch/Cargo.toml" <<END
[package]
name = "fetch"
edition = "2024"
[dependencies]
arc-swap = "=$version"
concread = "=$concread"
vm-memory = { version = "=$vm_memory", features = ["backend-atomic"] }
[workspace]
END
pin "$scratch/fetch"
cargo vendor --locked --quiet --versioned-dirs --manifest-path "$scratch/fetch/Cargo.toml" "$scratch/vendor" >/dev/null
original=$PWD/$scratch/vendor/arc-swap-$version

# cut FILE: prints the tests of a file of arc-swap's source, without those that are private.
cut_tests() {
    awk -v file="$1" -v private="${private[*]}" '
        /^macro_rules! (t|collision_tests) / || /^#\[cfg\(test\)\]/ || /^\/\/ Strong and weak/ { on = 1 }
        !on { next }
        { lines[++n] = $0 }
        END {
            for (i = 1; i <= n; i++) {
                if (lines[i] ~ /#\[test\]/) {
                    match(lines[i + 1], /fn [a-z0-9_]+/)
                    name = file "::" substr(lines[i + 1], RSTART + 3, RLENGTH - 3)
                    if (RSTART && index(" " private " ", " " name " ")) {
                        while (lines[i] !~ /^    }$/) i++
                        continue
                    }
                }
                print lines[i]
            }
        }' "$original/src/$1.rs"
}
inside_of=$scratch/own/inside
for file in lib access cache ref_cnt serde weak; do
    cut_tests "$file" >"$inside_of/src/tests_of_$file.rs"
done
cat >"$inside_of/src/lib.rs" <<'END'
#![cfg(test)]
#![allow(unused_imports, deprecated, dead_code, unexpected_cfgs)]
extern crate alloc;
pub use arc_swap::{ArcSwap, ArcSwapAny, ArcSwapOption, AsRaw, Cache, DefaultStrategy, Guard, RefCnt, strategy};
pub use arc_swap::strategy::{CaS, Strategy};
pub use std::rc::Rc;
pub use std::sync::Arc;
pub use core::{mem, ptr};
pub use core::ops::Deref;
pub use core::pin::Pin;
pub use core::sync::atomic::{AtomicPtr, Ordering};

fn ptr_eq<Base, A: AsRaw<Base>, B: AsRaw<Base>>(a: A, b: B) -> bool {
    a.as_raw() == b.as_raw()
}

mod access {
    pub use arc_swap::access::*;
    use super::*;
    include!("tests_of_access.rs");
}
mod cache {
    use super::*;
    pub use arc_swap::cache::*;
    include!("tests_of_cache.rs");
}
mod ref_cnt {
    use super::*;
    include!("tests_of_ref_cnt.rs");
}
mod serde_impl {
    include!("tests_of_serde.rs");
}
mod weak {
    use super::*;
    include!("tests_of_weak.rs");
}
include!("tests_of_lib.rs");
END
dev='adaptive-barrier = "1"
crossbeam-utils = "0.8"
itertools = "0.14"
num_cpus = "1"
once_cell = "1"
parking_lot = "0.12"
proptest = { version = "1", default-features = false, features = ["std"] }
rustversion = "1"
serde = { version = "1", features = ["rc"] }
serde_derive = "1"
serde_test = "1"'
cat >"$inside_of/Cargo.toml" <<END
[package]
name = "inside"
edition = "2018"
[features]
internal-test-strategies = []
experimental-thread-local = []
[dependencies]
arc-swap = { version = "1.9", features = ["serde", "weak"] }
[dev-dependencies]
$dev
END
cat >"$scratch/own/tests/Cargo.toml" <<END
[package]
name = "tests"
edition = "2021"
autotests = false
[features]
internal-test-strategies = []
[lib]
path = "lib.rs"
[dependencies]
arc-swap = "1.9"
[dev-dependencies]
$dev
$(for test in bug-198 bug-210 random stress; do printf '[[test]]\nname = "%s"\npath = "%s/tests/%s.rs"\n' "$test" "$original" "$test"; done)
END
touch "$scratch/own/tests/lib.rs"
# A library of arc-swap's source under another name: its documented examples use the dependency.
cat >"$scratch/own/docs/Cargo.toml" <<END
[package]
name = "docs"
edition = "2018"
[features]
rwlock-strategy = []
[lib]
path = "$original/src/lib.rs"
test = false
[dependencies]
arc-swap = "1.9"
rustversion = "1"
[dev-dependencies]
$dev
END
cat >"$scratch/own/Cargo.toml" <<END
[workspace]
members = ["docs", "inside", "tests"]
resolver = "2"
[patch.crates-io]
arc-swap = { path = "$PWD/compat/arc-swap" }
END

# Lints on that code are not ours to judge. Assertions stay.
export CARGO_TARGET_DIR=$scratch/build CARGO_PROFILE_DEV_OPT_LEVEL=1 RUSTFLAGS=--cap-lints=allow RUSTDOCFLAGS=--cap-lints=allow
pin "$scratch/own"
own=(--locked --manifest-path "$scratch/own/Cargo.toml")
tree=$(cargo tree --quiet "${own[@]}" --workspace --invert arc-swap --depth 1 --edges normal)
grep --quiet --fixed-strings "$PWD/compat/arc-swap" <<<"$tree" || fail "the patch is not in use"

echo "-- the tests inside arc-swap $version"
cargo test --quiet "${own[@]}" --package inside --no-run
run=$(cargo test --quiet "${own[@]}" --package inside)
names() { sed -n 's/^\(.*\): test$/\1/p' | sed 's/serde_impl/serde/; s/^tests[a-z_]*::/lib::/; s/::tests[a-z_]*::/::/; s/::\(pin\|arc_weak\|arc_option_weak\|rc_weak\|rc_option_weak\)::/::/' | sort -u; }
diff <(printf '%s\n' "${inside[@]%=*}" | sort) <(cargo test --quiet "${own[@]}" --package inside -- --list --format terse | names) ||
    fail "arc-swap has other tests than this script lists (<)"
grep 'test result' <<<"$run" | head -1
echo "${#inside[@]} as listed, $(printf '%s\n' "${inside[@]}" | grep -c =counts) of which check exact counts"

echo "-- random, stress, bug-198, bug-210, and the documented examples"
cargo test --quiet "${own[@]}" --package tests --tests --no-fail-fast
cargo test --quiet "${own[@]}" --package docs --doc

# reported NUMBER VERSION MESSAGE TRIES [FLAG]: the program for a bug that was reported to arc-swap fails on the release in one
# of the tries: on the machine, or in Miri, with one of the seeds FIRST..END.
reported() {
    local number=$1 old=$scratch/old/$2 log=$scratch/old/$1.log try cargo
    mkdir -p "$old/src"
    touch "$old/src/lib.rs"
    cat >"$old/Cargo.toml" <<END
[package]
name = "old"
edition = "2024"
[dependencies]
arc-swap = { version = "=$2", features = ["weak"] }
[[test]]
name = "reported"
path = "$PWD/compat/arc-swap/tests/reported.rs"
harness = false
[workspace]
END
    pin "$old" "arc-swap $2 ${old_releases[$2]}"
    for try in $4; do
        cargo=(cargo)
        if [[ $try == *..* ]]; then
            cargo=(env MIRIFLAGS="-Zmiri-many-seeds=$try $5" CARGO_TARGET_DIR=target/miri cargo "+$rust_nightly" miri)
        fi
        if ! "${cargo[@]}" test --quiet --locked --manifest-path "$old/Cargo.toml" --test reported -- "$number" >"$log" 2>&1; then
            grep --quiet "$3" "$log" || { cat "$log" >&2; fail "bug $number: another failure"; }
            echo "bug $number: found in arc-swap $2"
            return
        fi
    done
    fail "bug $number was not found in arc-swap $2"
}
echo "-- bugs that were reported, on this package and on releases of arc-swap"
cargo test --quiet --package arc-swap --test reported
reported 210 1.9.4 'the value of another cell' "$(seq 60)"
reported 214 1.9.3 'wrong counts' 1

[[ $everything ]] || exit 0

echo "-- the tests of concread and vm-memory"
users=$scratch/users
cp -r "$scratch/vendor/concread-$concread" "$users/concread"
cp -r "$scratch/vendor/vm-memory-$vm_memory" "$users/vm-memory"
# Their packages also name what only their benchmarks, integration tests and other features need.
cat >"$users/concread/Cargo.toml" <<END
[package]
name = "concread"
version = "$concread"
edition = "2021"
autobenches = false
autotests = false
[features]
default = ["ahash", "arcache", "arcache-is-hashtrie", "asynch", "ebr", "maps"]
ahash = []
arcache = []
arcache-is-hashmap = []
arcache-is-hashtrie = []
asynch = []
dhat-heap = []
ebr = []
hashtrie_skinny = []
maps = []
serde = []
simd_support = []
skinny = []
tcache = []
[dependencies]
ahash = "0.8"
arc-swap = "1.0"
crossbeam-epoch = "0.9.11"
crossbeam-queue = "0.3.12"
crossbeam-utils = "0.8.21"
lru = "0.13"
smallvec = "1.14"
sptr = "0.3"
tokio = { version = "1", features = ["sync"] }
tracing = "0.1"
[dev-dependencies]
rand = "0.9"
tokio = { version = "1", features = ["rt", "macros"] }
tracing-subscriber = { version = "0.3", default-features = false, features = ["std", "fmt"] }
END
cat >"$users/vm-memory/Cargo.toml" <<END
[package]
name = "vm-memory"
version = "$vm_memory"
edition = "2021"
autobenches = false
[features]
default = ["backend-atomic", "rawfd"]
backend-atomic = []
backend-bitmap = []
backend-mmap = []
iommu = []
rawfd = []
xen = []
[dependencies]
arc-swap = "1.0.0"
libc = "0.2.39"
thiserror = "2.0.16"
[dev-dependencies]
matches = "0.1.0"
vmm-sys-util = "0.15.0"
END
cat >"$users/Cargo.toml" <<END
[workspace]
members = ["concread", "vm-memory"]
resolver = "2"
[patch.crates-io]
arc-swap = { path = "$PWD/compat/arc-swap" }
END
pin "$users"
all=(--locked --manifest-path "$users/Cargo.toml")
tree=$(cargo tree --quiet "${all[@]}" --workspace --invert arc-swap --depth 1 --edges normal)
echo "$tree"
[[ $tree == *"$PWD/compat/arc-swap"*concread*vm-memory* ]] || fail "the patch is not in use"
cargo test --quiet "${all[@]}" --workspace --lib --no-fail-fast

# broken NAME SED PACKAGE TEST MESSAGE: a drop-in whose src/swap.rs is changed does not pass a test of a user.
broken() {
    local name=$1 package=$3 test=$4 copy=$scratch/broken/$1 log=$scratch/broken/$1.log all
    mkdir -p "$copy"
    cp -r compat/arc-swap "$users/$package" "$copy"
    sed -i -E "s|^(edition).workspace.*|\1 = \"2024\"|; /\.workspace = true/d; /^\[\[test\]\]/,\$d
        s|\.\./\.\./stillpoint|$PWD/stillpoint|" "$copy/arc-swap/Cargo.toml"
    rm -r "$copy/arc-swap/tests"
    printf '[workspace]\nmembers = ["arc-swap", "%s"]\nresolver = "2"\n' "$package" >"$copy/Cargo.toml"
    printf '[patch.crates-io]\narc-swap = { path = "arc-swap" }\n' >>"$copy/Cargo.toml"
    sed -i "$2" "$copy/arc-swap/src/swap.rs"
    ! diff --brief "$copy/arc-swap/src/swap.rs" compat/arc-swap/src/swap.rs >/dev/null || fail "$name: nothing is broken"
    pin "$copy"
    all=(--locked --manifest-path "$copy/Cargo.toml" --package "$package" --lib)
    cargo test --quiet "${all[@]}" --no-run
    ! timeout 600 cargo test --quiet "${all[@]}" "$test" >"$log" 2>&1 || fail "$test of $package passes although $name"
    grep --quiet "$5" "$log" || { cat "$log" >&2; fail "$name: another failure"; }
    echo "refuted: $name"
}
echo "-- broken drop-ins"
broken stores-are-lost 's/self.cell.store(val)/drop(val)/' \
    vm-memory atomic::tests::test_atomic_hotplug 'assertion `left == right` failed'
broken replaced-values-leak 's/self.cell.store(val)/std::mem::forget(self.cell.swap(val))/' \
    concread internals::lincowcell::tests_linear::test_gc_operation_linear 'assertion'

echo "-- bugs that Miri finds"
unset CARGO_TARGET_DIR CARGO_PROFILE_DEV_OPT_LEVEL RUSTFLAGS RUSTDOCFLAGS
if ! cargo "+$rust_nightly" miri --version >/dev/null 2>&1; then
    echo "CANNOT CHECK: Miri is not installed" >&2
    exit 77 # see .ci/run
fi
# First the seeds with which they failed; a change of the program, or of Miri, may ask for others: some minutes.
reported 198 1.8.2 'Undefined Behavior' '16..18 0..256' -Zmiri-preemption-rate=0.01
reported 203 1.8.2 'Undefined Behavior' '254..256 0..256' -Zmiri-preemption-rate=0.3
