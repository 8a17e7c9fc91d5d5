#!/usr/bin/env bash
# Fast paths are inlined in a user's program without link-time optimization: counts the instructions of
# `ci/inlined.rs` with `lto = "off"`, and compares them with those under `lto = "thin"`, and a section with one of
# crossbeam-epoch in the same program. Instructions, not time: a busy machine changes nothing. Valgrind has no rseq,
# so of per-CPU data the program's machine code is looked at: the critical section is in the user's function. With the
# feature `usdt` fast paths have as many instructions. A minute, with the builds.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
source ci/pin.sh

for tool in valgrind objdump; do command -v $tool >/dev/null || fail "CANNOT CHECK: there is no $tool (ci/setup.sh)"; done

package=target/inlined/package
mkdir -p "$package"
cat >"$package/Cargo.toml" <<END
[package]
name = "inlined"
edition = "2024"
[[bin]]
name = "inlined"
path = "$PWD/ci/inlined.rs"
[dependencies]
compat = { package = "crossbeam-epoch", path = "$PWD/dropins/crossbeam-epoch" }
crossbeam-epoch = "0.9"
stillpoint = { path = "$PWD/stillpoint" }
stillpoint-collections = { path = "$PWD/collections" }
[features]
usdt = ["stillpoint/usdt"]
[workspace]
END
pin "$package"
cargo fetch --quiet --locked --manifest-path "$package/Cargo.toml"
for lto in off thin; do
    CARGO_PROFILE_RELEASE_LTO=$lto cargo build --quiet --release --offline --manifest-path "$package/Cargo.toml" \
        --target-dir "target/inlined/$lto"
done
CARGO_PROFILE_RELEASE_LTO=off cargo build --quiet --release --offline --manifest-path "$package/Cargo.toml" \
    --features usdt --target-dir target/inlined/usdt

# Hundredths of an instruction of an operation.
collected() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "target/inlined/$1/release/inlined" "$2" "$3" 2>&1 |
        sed -n 's/.*Collected : //p'
}
count() {
    local few many
    few=$(collected "$1" "$2" 1000) many=$(collected "$1" "$2" 6000)
    [[ -n $few && -n $many ]] || fail "$2 with lto = \"$1\" did not run"
    echo $(((many - few) / 50))
}
show() { printf '%d.%02d' $(($1 / 100)) $(($1 % 100)); }

echo "-- instructions"
declare -A off
printf '%-16s %8s %8s %8s\n' "" off thin usdt
for operation in section peer-section compat-section repin qsbr-load qsbr-quiescent light-fence mutex-pair retire map-get; do
    off[$operation]=$(count off "$operation")
    thin=$(count thin "$operation")
    usdt=$(count usdt "$operation")
    printf '%-16s %8s %8s %8s\n' "$operation" "$(show "${off[$operation]}")" "$(show "$thin")" "$(show "$usdt")"
    # At least a call and a return, which each has.
    ((thin > 300 && off[$operation] > 300)) || fail "$operation: nothing was counted"
    # Most of what is retired is freed in batches, where some calls once in a block remain.
    percent=$([[ $operation == retire ]] && echo 115 || echo 110)
    [[ $operation == peer-* ]] || ((100 * off[$operation] <= percent * thin + 10000)) ||
        fail "$operation: without link-time optimization something is not inlined"
    # Grace periods and batches of callbacks have probes.
    [[ $operation == retire ]] || ((usdt <= off[$operation] + 10)) || fail "$operation: probes are on its fast path"
done
((10 * off[section] <= 7 * off[peer-section])) || fail "a section takes more than 0.7 times the instructions of crossbeam-epoch's"
((10 * off[compat-section] <= 8 * off[peer-section])) || fail "the drop-in takes more than 0.8 times the instructions of crossbeam-epoch"

echo "-- critical sections"
if [[ $(uname -m) == x86_64 ]]; then
    objdump --disassemble --no-show-raw-insn --demangle target/inlined/off/release/inlined >"$scratch/code"
    # Stores the address of the section in the area that the kernel reads.
    for expected in counter_add=1 srcu_section=2; do
        found=$(awk -v name="<inlined::${expected%=*}>:" 'index($0, name) { inside = 1 } /^$/ { inside = 0 }
            inside && /mov +%r[a-z0-9]+,%fs:0x8\(/ { n++ } END { print n + 0 }' "$scratch/code")
        echo "${expected%=*}: $found"
        [[ $found == "${expected#*=}" ]] || fail "${expected%=*}: its critical section is not inlined"
    done
fi
