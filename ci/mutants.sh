#!/usr/bin/env bash
# Explores the models of the algorithms with loom, and checks that they detect errors: breaks one step or ordering at a
# time, and expects each test that says `/// Refutes: NAME` to fail. There are three kinds of mutants.
#
# - Orderings. One run of the unbroken models records each ordering stronger than Relaxed that they execute. Its name
#   is the function's with a number (`ci/orderings.awk`). One build has all of these mutants. Those that no model
#   refutes are in `ci/mutants/unrefuted.txt`, with the reason.
# - Steps: statements in `step!`, left out one at a time. They are in the same build. A few are refuted by tests on
#   the machine, with the patches; those of per-CPU data in `ci/percpu.sh`.
# - Patches reorder or replace steps: in one place (`ci/mutants/patches.txt`), or in several (`ci/mutants/NAME.patch`).
#   Each needs a build. This script only checks that they apply; `ci/mutants.sh patches` builds and refutes them
#   (nightly).
#
# Fails if a mutant survives, if an unbroken model fails, if a mutant in the source has no test that refutes it, if a
# test refutes a mutant that does not exist, or if a page or a model cites a function that does not exist.
#
#   ci/mutants.sh          all of it, except for the patches
#   ci/mutants.sh names    only compares names, those of ci/litmus.sh and ci/torture.sh too, and checks that the patches
#                          apply; takes a second
#   ci/mutants.sh models   only explores the unbroken models
#   ci/mutants.sh patches  refutes the patches, and the steps that tests on the machine refute
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

limit=900 # seconds; a mutant whose model takes longer survives
kind=${1:-}

# `mutant program test`: steps and patches, and orderings. The program with the unit tests is `stillpoint`.
claims=$(refutes)
steps=$(grep -v '^[^ ]*:' <<<"$claims")
orderings=$(grep '^[^ ]*:' <<<"$claims")
unrefuted=$(sed -n 's/^\([^# ]*:[^ ]*\)  .*/\1/p' ci/mutants/unrefuted.txt | sort)

patches=$(patches)

places=$(places)
diff <({ steps_in stillpoint/src collections/src dropins/liburcu/core/src; echo "$patches"; } | sort -u) <(cut -d' ' -f1 <<<"$steps" | sort -u) ||
    fail "mutants: the steps and patches in the source (<) and those that tests refute (>) differ"
cited=$(grep -ohE '\b[A-Z][A-Za-z]+::[a-z_]+\b' lab/models/*.pml lab/models/README.md docs/proof.md ci/mutants/unrefuted.txt | sort -u)
missing=$(comm -23 <(echo "$cited") <(echo "$places"))
[[ -z $missing ]] || fail "mutants: not in the source: $missing"
python3 ci/patch.py check
for patch in ci/mutants/*.patch; do git apply --check "$patch"; done
if [[ $kind == names ]]; then
    ci/litmus.sh names
    exec ci/torture.sh names
fi

export RUST_BACKTRACE=0

# refuted WHAT FILE TEST VARIABLE=VALUE...: runs a test with a mutant that the environment selects.
refuted() {
    local what=$1 file=$2 test=$3 log begin=$EPOCHREALTIME status=0 seconds found
    shift 3
    log=$scratch/${what//\//.}.$test
    # In a subshell, which writes the message about a crash to the log.
    (env "$@" timeout "$limit" "${binary[$file]}" --exact "$test"; exit $?) >"$log" 2>&1 || status=$?
    seconds=$(awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.1f", e - b }')
    if [ "$status" -eq 0 ] || [ "$status" -eq 124 ]; then
        echo "SURVIVES  $what ($file::$test, ${seconds} s)"
        return 1
    fi
    found=$(grep -aoE 'deadlock|Causality violation|read a freed value|two owners|served by a round|a bug in stillpoint|assertion' "$log" | head -1 || true)
    printf 'refuted   %-50s %-60s %5s s  %s\n' "$what" "$test" "$seconds" "${found:-ended otherwise}"
}

# The steps that tests on the machine refute, except for those of per-CPU data.
machine=$(while read -r name file rest; do
    is_patch "$name" || [[ $file == loom* || $file == *percpu* ]] || echo "$name $file $rest"
done <<<"$steps")

# on_machine FILE: builds a program of tests on the machine. Those of per-CPU data need the faults in its sections,
# with which the unit tests cannot be linked.
root=$PWD
on_machine() {
    local config=mutants program=(--test "$1")
    [[ $1 != *percpu* ]] || config=faults
    [[ $1 != stillpoint ]] || program=(--lib)
    build env CARGO_PROFILE_RELEASE_LTO=off RUSTFLAGS="--cfg stillpoint_$config" \
        cargo test --package stillpoint --release \
        --target-dir "$root/target/patches-$config" "${program[@]}"
}

# The patches, one after another, in a copy of the repository: builds and runs the test that refutes each.
if [[ $kind == patches ]]; then
    while read -r name file test; do
        on_machine "$file"
        refuted "$name" "$file" "$test" STILLPOINT_MUTANT="$name"
    done <<<"$machine"
    mkdir "$scratch/copy"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --target-directory "$scratch/copy"
    cd "$scratch/copy"
    survivors=0
    while read -r name file test; do
        is_patch "$name" || continue
        if [[ -e ci/mutants/$name.patch ]]; then
            changed=$(sed -n 's|^+++ b/||p' "ci/mutants/$name.patch")
            patch --quiet --strip=1 <"ci/mutants/$name.patch"
        else
            changed=$(python3 ci/patch.py "$name")
        fi
        if [[ $file == loom* ]]; then
            builds=(build "${loom[@]:0:${#loom[@]}-4}" --target-dir "$root/target/patches" --test "$file")
        else
            builds=(on_machine "$file")
        fi
        if "${builds[@]}" 2>"$scratch/build"; then
            # On the machine, a mutant may take several tries to show, on a busy one many.
            tries=$([[ $file == loom* ]] && echo 1 || echo 50)
            until refuted "$name" "$file" "$test"; do
                ((--tries > 0)) || { survivors=$((survivors + 1)); break; }
            done
        else
            cat "$scratch/build" >&2
            echo "SURVIVES  $name: it does not build"
            survivors=$((survivors + 1))
        fi
        for file in $changed; do cp "$root/$file" "$file"; done
    done <<<"$steps"
    ((survivors == 0))
    echo "$(wc -l <<<"$machine") steps and $(wc -w <<<"$patches") patches refuted"
    exit
fi

build "${loom[@]}"

# Unbroken models first, each in a separate process: threads of one process would wait for each other whenever loom
# maps a stack.
export STILLPOINT_RECORD=$scratch/record
models >"$scratch/models"
[[ -s $scratch/models ]]
each holds <"$scratch/models"
unset STILLPOINT_RECORD
[[ $kind != models ]] || exit 0

# The orderings that were executed: the name, and the place that selects it in the models.
find stillpoint/src collections/src dropins/liburcu/core/src -name '*.rs' -exec awk -v lines=1 -f ci/places.awk {} + | sort -k1,1 -k2,2n >"$scratch/functions"
sort -u "$scratch/record" | sort -k1,1 -k2,2n -k3,3n -k4,4 | awk -f ci/orderings.awk "$scratch/functions" - >"$scratch/sites"
listed=$({ cut -d' ' -f1 <<<"$orderings" | tr '+' '\n' | sort -u; echo "$unrefuted"; } | sort)
diff <(cut -d' ' -f1 "$scratch/sites" | sort) <(echo "$listed") ||
    fail "mutants: the orderings that the models execute (<) differ from those that tests refute or ci/mutants/unrefuted.txt lists (>, not twice)"

refute_step() {
    local name file test
    read -r name file test <<<"$1"
    refuted "$name" "$file" "$test" STILLPOINT_MUTANT="$name"
}
refute_ordering() {
    local names file test places
    read -r names file test <<<"$1"
    places=$(awk -v names="+$names+" 'index(names, "+" $1 "+") { print $2 }' "$scratch/sites" | paste -sd,)
    refuted "$names" "$file" "$test" STILLPOINT_WEAKEN="$places"
}
here=$(while read -r name rest; do is_patch "$name" || [[ $rest != loom* ]] || echo "$name $rest"; done <<<"$steps")
each refute_step <<<"$here"
each refute_ordering <<<"$orderings"
echo "$(cut -d' ' -f1 <<<"$here" | sort -u | wc -l) steps and $(($(wc -l <"$scratch/sites") - $(wc -l <<<"$unrefuted"))) orderings refuted;" \
    "$(wc -l <<<"$unrefuted") orderings have no mutant; $(wc -w <<<"$patches") patches apply"
