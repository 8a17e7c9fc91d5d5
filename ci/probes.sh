#!/usr/bin/env bash
# The probes of the feature `usdt` are those of the tables in docs/probes.md, each once, with as many arguments.
# Without the feature there are none. (`ci/inlined.sh` compares the fast paths.) The scripts in lab/bpftrace use
# nothing else, and find out why `examples/traced.rs` is slow.
#
# Where bpftrace cannot run (it needs root, and a kernel with BPF and uprobes) the exit status is 77, after the other
# checks. Half a minute after the builds.
#
#   ci/probes.sh      these
#   ci/probes.sh all  also on aarch64 and riscv64, before a release
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
unset STILLPOINT_FENCE RUSTFLAGS
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=false
# For the stacks.
export RUSTFLAGS="-C force-frame-pointers=yes"

# documented: prints each probe of the page with the number of its arguments.
documented() {
    awk -F'|' '/^\| `(grace|reader|callback|throttle|lock)_/ { gsub(/[` ]/, "", $2); print $2, gsub(/`[a-z]+`/, "", $4) }' docs/probes.md | sort
}

# probes FILE...: prints those of object files or a program: the name, the number of arguments, and the place.
probes() {
    readelf --notes "$@" | awk '/Provider:/ { ours = $2 == "stillpoint" } /Name:/ { name = $2 } /Location:/ { place = $2 }
        /Arguments:/ && ours { print name, NF - 1, place }' | sort
}

echo "-- the programs"
build() { cargo build --quiet --release --package stillpoint --target-dir "target/probes/$1" "${@:2}"; }
build with --features usdt --example traced
with=target/probes/with/release/examples
# As `cargo test` has built it.
RUSTFLAGS='' cargo build --quiet --workspace --example traced
[[ -z $(probes "${CARGO_TARGET_DIR:-target}/debug/examples/traced") ]] || fail "there are probes without the feature"
probes $with/traced >"$scratch/probes"
diff <(documented) <(cut -d' ' -f1,2 "$scratch/probes") || fail "docs/probes.md (<) does not list the probes of the program (>)"
grep -q ' 0x0*$' "$scratch/probes" && fail "a probe has no place in the program"
echo "$(wc -l <"$scratch/probes") probes"

[[ ${1-} != all ]] || echo "-- other processors"
for target in $([[ ${1-} != all ]] || echo aarch64-unknown-linux-gnu riscv64gc-unknown-linux-gnu); do
    # An archive of object files.
    build with --lib --features usdt --target $target
    diff <(documented) <(probes target/probes/with/$target/release/libstillpoint.rlib 2>/dev/null | cut -d' ' -f1,2) ||
        fail "$target: other probes (>) than in docs/probes.md (<)"
done

echo "-- scripts"
for script in lab/bpftrace/*.bt; do
    # Each clause, with the largest argN in it.
    awk '/^usdt:/ { sub(/.*stillpoint:/, ""); name = $1; most[name] += 0 }
        { line = $0; while (match(line, /arg[0-9]/)) { n = substr(line, RSTART + 3, 1) + 1; if (n > most[name]) most[name] = n; line = substr(line, RSTART + 4) } }
        END { for (name in most) print name, most[name] }' "$script" | while read -r name most; do
        has=$(documented | awk -v name="$name" '$1 == name { print $2 }')
        [[ -n $has ]] || fail "$script: there is no probe $name"
        ((most <= has)) || fail "$script: $name has no argument $most"
    done
done

# With a file system for the kernel's probes, in a namespace of its own, if it is not mounted.
trace() {
    local as_root=()
    ((EUID == 0)) || as_root=(sudo --non-interactive)
    "${as_root[@]}" unshare --mount sh -c '
        [ -e /sys/kernel/tracing/uprobe_events ] || mount -t tracefs none /sys/kernel/tracing
        exec timeout --signal INT "$@"' trace "$@"
}
program=$PWD/$with/traced
unchecked() {
    echo "NOT CHECKED: bpftrace cannot run here: $(tail -n 1 "$scratch/log")" >&2
    exit 77
}
command -v bpftrace >/dev/null || { echo "it is not installed" >"$scratch/log"; unchecked; }
trace 20 bpftrace -c "$program 0" -e "usdt:$program:stillpoint:callback_batch_end { @ = count(); }" >"$scratch/log" 2>&1 ||
    unchecked
grep -q '^@: [0-9]' "$scratch/log" || unchecked

# finds SCRIPT PATTERN...: the last result that the script prints, the largest, has each pattern. A busy machine may
# need more time.
finds() {
    local script=$1 seconds pid pattern found
    for seconds in 3 6 12 24 48; do
        "$program" 600 >/dev/null &
        pid=$!
        trace $seconds bpftrace -p $pid "lab/bpftrace/$script.bt" "$program" >"$scratch/log" 2>&1 || true
        kill $pid
        wait $pid || true
        # Each result, with its stack, is a line here; the largest of a map comes last.
        awk '/^@.*\[/ && !/]: / { result = $0; next } result { result = result " " $0; if (/^\]: /) { print result; result = "" }; next } { print }' \
            "$scratch/log" >"$scratch/results"
        found=1
        for pattern in "${@:2}"; do
            grep -E "^@${pattern%%\[*}\[" "$scratch/results" | tail -n 1 | grep -qE "^@${pattern/\[/\\[}" || found=
        done
        [[ -z $found ]] || { echo "$script: $(printf '%s; ' "${@:2}")" && return; }
    done
    cat "$scratch/log" >&2
    fail "lab/bpftrace/$script.bt does not find: ${*:2}"
}
finds grace_periods 'longest_us[stillpoint::rcu::Global, reporter, .*traced::render_report'
finds locks 'made_wait_us[.*, saver, .*traced::save_under_lock' 'waited_us[.*, request-[12]\]'
finds callbacks 'sum_us[traced::SlowToDrop, ' 'longest_us[traced::SlowToDrop, '
