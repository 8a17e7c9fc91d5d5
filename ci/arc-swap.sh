#!/usr/bin/env bash
# dropins/arc-swap keeps the promises of arc-swap. In place of it, arc-swap's own tests pass, unmodified: `random`,
# `stress`, those of its bugs 198 and 210, the documented examples, and the tests inside its source, which check
# counts exactly. Programs for bugs that were reported (tests/reported.rs) fail on releases of arc-swap that have
# them. Two crates that use it pass their own tests, unmodified: concread and vm-memory; they notice drop-ins that are
# broken. Cargo fetches all of these crates; none of their code is in this repository. The programs for races need
# Miri (`ci/setup.sh`).
#
#   ci/arc-swap.sh          checks without users and races, with the crates of Cargo.lock and ci/crates.txt
#   ci/arc-swap.sh users    checks all: five minutes
#   ci/arc-swap.sh record   adds to ci/crates.txt what is missing there (after `ci/compat.sh record`), and checks all
set -euo pipefail
cd "$(dirname "$0")/.."
dropin=arc-swap scratch=target/arc-swap
source ci/dropin.sh

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

# Of the tests inside arc-swap's source those of its API run here, unmodified: cut out, and compiled with this
# package's items in place of the source's.
with_tests=(lib access cache ref_cnt serde weak)
# Not here. The first calls a private method; the rest of what it tests is in `tests/interface.rs`. The second expects
# that the guards of other threads do not change how many of a thousand count.
without=(cache::cached_value lib::lease_overflow)

recording= everything=
case ${1-} in
    users) everything=1 ;;
    record) export recording=1 everything=1 ;;
esac

mkdir -p "$scratch"/own/{inside/src,docs,tests}
fetch "arc-swap = \"=$version\"
concread = \"=$concread\"
vm-memory = { version = \"=$vm_memory\", features = [\"backend-atomic\"] }"
original=$PWD/$scratch/vendor/arc-swap-$version

# cut_tests FILE: prints the tests of a file of arc-swap's source, but for those above.
cut_tests() {
    awk -v file="$1" -v without="${without[*]}" '
        /^macro_rules! (t|collision_tests) / || /^#\[cfg\(test\)\]/ || /^\/\/ Strong and weak/ { on = 1 }
        !on { next }
        { lines[++n] = $0 }
        END {
            for (i = 1; i <= n; i++) {
                if (lines[i] ~ /#\[test\]/) {
                    match(lines[i + 1], /fn [a-z0-9_]+/)
                    name = file "::" substr(lines[i + 1], RSTART + 3, RLENGTH - 3)
                    if (RSTART && index(" " without " ", " " name " ")) {
                        while (lines[i] !~ /^    }$/) i++
                        continue
                    }
                }
                print lines[i]
            }
        }' "$original/src/$1.rs"
}
inside_of=$scratch/own/inside
for file in "${with_tests[@]}"; do
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
workspace "$scratch/own" "$PWD/dropins/arc-swap" docs inside tests

echo "-- the tests inside arc-swap $version"
cargo test --quiet "${all[@]}" --package inside --no-run
cargo test --quiet "${all[@]}" --package inside
names() { sed -n 's/^\(.*\): test$/\1/p' | sed 's/serde_impl/serde/; s/^tests[a-z_]*::/lib::/; s/::tests[a-z_]*::/::/; s/::\(pin\|arc_weak\|arc_option_weak\|rc_weak\|rc_option_weak\)::/::/' | sort -u; }
diff <(tests_in $(printf "$original/src/%s.rs " "${with_tests[@]}") | grep -vxF "${without[@]/#/-e}") \
    <(cargo test --quiet "${all[@]}" --package inside -- --list --format terse | names) ||
    fail "not all tests inside arc-swap (<) have run (>)"

echo "-- random, stress, bug-198, bug-210, and the documented examples"
cargo test --quiet "${all[@]}" --package tests --tests --no-fail-fast
cargo test --quiet "${all[@]}" --package docs --doc

# reported NUMBER VERSION MESSAGE TRIES [FLAG]: the program for a bug that was reported to arc-swap fails on the
# release in one of the tries: on the machine, or in Miri, with one of the seeds FIRST..END.
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
libc = "0.2"
[[test]]
name = "reported"
path = "$PWD/dropins/arc-swap/tests/reported.rs"
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
reported 210 1.9.4 'the value of another cell' '1 2 3'
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
workspace "$users" "$PWD/dropins/arc-swap" concread vm-memory
cargo test --quiet "${all[@]}" --workspace --lib --no-fail-fast

echo "-- broken drop-ins"
broken stores-are-lost swap.rs 's/self.cell.store(val)/drop(val)/' \
    vm-memory atomic::tests::test_atomic_hotplug 'assertion `left == right` failed'
broken replaced-values-leak swap.rs 's/self.cell.store(val)/std::mem::forget(self.cell.swap(val))/' \
    concread internals::lincowcell::tests_linear::test_gc_operation_linear 'assertion'

echo "-- bugs that Miri finds"
ours_again
needs_miri
# First the seeds with which they failed; a change of the program, or of Miri, may ask for others: some minutes.
reported 198 1.8.2 'Undefined Behavior' '16..18 0..256' -Zmiri-preemption-rate=0.01
reported 203 1.8.2 'Undefined Behavior' '254..256 0..256' -Zmiri-preemption-rate=0.3
