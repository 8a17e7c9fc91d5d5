#!/usr/bin/env bash
# Shows that the models see: breaks the algorithms, one step or ordering at a time, and expects the model that docs/proof.md
# names to fail. There are three kinds of mutants.
#
# - Orderings. The models are run once as they are, and record each ordering stronger than Relaxed that they execute. Its name is
#   that of the function and a number (`ci/orderings.awk`); one build has all of these mutants.
# - Steps: statements in `step!`, left out one at a time. The same build has them.
# - Patches, `ci/mutants/NAME.patch`: steps in another order, or others in their place. Each needs a build, so here they must apply, no
#   more; `ci/mutants.sh patches` builds and refutes them, at night.
#
# Fails if a mutant survives, if the unbroken models fail, if the tables and the source differ (an ordering that is in no list or does
# not exist, a step that is not in the function named), or if a page or a model cites a function that is gone.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

table=docs/proof.md
limit=300 # seconds a model may take to find its mutant; it is not refuted by running out of time
kind=${1:-}

# Rows of the tables: | `mutant` | place | why | `test_file::test` |
steps=$(sed -nE 's/^\| `([a-z-]+)` \|.*\| `([a-z_]+)::([a-z_]+)` \|$/\1 \2 \3/p' "$table" | grep -E ' (loom|faults|percpu)_')
# | `file:function:half`, ... | why | `test_file::test` | for those that are refuted (together), and | ... | why | for the others.
site='`[a-z_0-9/]+:[A-Za-z_0-9:]+:(Acquire|Release|FailureAcquire)(#[0-9]+)?`'
orderings=$(sed -nE "s/^\| ($site(, $site)*) \|.*\| \`(loom_[a-z_]+)::([a-z_]+)\` \|\$/\1 \7 \8/p" "$table" | sed 's/, /,/g' | tr -d '`')
unrefuted=$(grep -E "^\| $site(, $site)* \|" "$table" | grep -vE '`loom_[a-z_]+::[a-z_]+` \|$' | cut -d'|' -f2 | tr -d '` ' | tr ',' '\n' | sort)

patches=$(find ci/mutants -name '*.patch' -printf '%f\n' | sed 's/\.patch$//' | sort)
is_patch() { [[ -e ci/mutants/$1.patch ]]; }

# Where steps and functions are. Steps of critical sections are known by number: first the file with their names.
faults=stillpoint/src/percpu/rseq/faults.rs
places=$(find stillpoint/src -name '*.rs' -not -path "$faults" -exec awk -f ci/places.awk "$faults" {} + | sort -u)
if ! diff <({ grep ' ' <<<"$places" | cut -d' ' -f1; echo "$patches"; } | sort -u) <(cut -d' ' -f1 <<<"$steps" | sort -u); then
    echo "mutants: the steps and patches in the source (<) and in $table (>) differ" >&2
    exit 1
fi
claimed=$(sed -nE 's/^\| `([a-z-]+)` \| (`[A-Za-z_:]+`(, `[A-Za-z_:]+`)*) \|.*::[a-z_]+` \|$/\1 \2/p' "$table" | tr -d '`,' |
    while read -r name functions; do
        for function in $functions; do if is_patch "$name"; then echo "$function"; else echo "$name $function"; fi; done
    done | sort -u)
cited=$(grep -ohE '\b[A-Z][A-Za-z]+::[a-z_]+\b' models/*.pml models/README.md "$table" | sort -u)
missing=$(comm -23 <(sort -u <<<"$claimed"$'\n'"$cited") <(echo "$places"))
if [[ -n $missing ]]; then
    printf 'mutants: not in the source, or not there:\n%s\n' "$missing" >&2
    exit 1
fi
for name in $patches; do git apply --check "ci/mutants/$name.patch"; done

export RUST_BACKTRACE=0

# refuted WHAT FILE TEST VARIABLE=VALUE...: runs a test with a mutant, by its environment.
refuted() {
    local what=$1 file=$2 test=$3 log begin=$EPOCHREALTIME status=0 seconds found
    shift 3
    log=$scratch/${what//\//.}.$test
    # In a shell of its own, which keeps the news of a crash in the log.
    (env "$@" timeout "$limit" "${binary[$file]}" --exact "$test"; exit $?) >"$log" 2>&1 || status=$?
    seconds=$(awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.1f", e - b }')
    if [ "$status" -eq 0 ] || [ "$status" -eq 124 ]; then
        echo "SURVIVES  $what ($file::$test, ${seconds} s)"
        return 1
    fi
    found=$(grep -aoE 'deadlock|Causality violation|read a freed value|two owners|served by a round|began after its call|assertion' "$log" | head -1 || true)
    printf 'refuted   %-50s %-60s %5s s  %s\n' "$what" "$test" "$seconds" "${found:-ended otherwise}"
}

# The patches, one after another, in a copy of the repository: builds and runs what refutes each.
if [[ $kind == patches ]]; then
    root=$PWD
    mkdir "$scratch/copy"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --target-directory "$scratch/copy"
    cd "$scratch/copy"
    survivors=0
    while read -r name file test; do
        [[ -e $root/ci/mutants/$name.patch ]] || continue
        patch --quiet --strip=1 <"$root/ci/mutants/$name.patch"
        if [[ $file == loom_* ]]; then
            command=("${loom[@]:0:${#loom[@]}-4}" --target-dir "$root/target/patches" --test "$file")
        else
            command=(env CARGO_PROFILE_RELEASE_LTO=off RUSTFLAGS="--cfg stillpoint_faults"
                cargo test --package stillpoint --release --target-dir "$root/target/patches-faults" --test "$file")
        fi
        if build "${command[@]}" 2>"$scratch/build"; then
            # On the machine the bad moment may not come at once.
            tries=$([[ $file == loom_* ]] && echo 1 || echo 5)
            until refuted "$name" "$file" "$test"; do
                ((--tries > 0)) || { survivors=$((survivors + 1)); break; }
            done
        else
            cat "$scratch/build" >&2
            echo "SURVIVES  $name: it does not build"
            survivors=$((survivors + 1))
        fi
        patch --quiet --strip=1 --reverse <"$root/ci/mutants/$name.patch"
    done <<<"$steps"
    ((survivors == 0))
    echo "$(wc -w <<<"$patches") patches refuted"
    exit
fi

build "${loom[@]}"

# Unbroken first: a model that always fails would refute everything. What no row names is explored without preemptions, for the record.
export STILLPOINT_RECORD=$scratch/record
named=$({ echo "$steps"; echo "$orderings"; } | cut -d' ' -f2- | grep '^loom_' | sort -u)
each holds <<<"$named"
models | sort -u | comm -23 - <(echo "$named") >"$scratch/others"
BOUND=0 each holds <"$scratch/others" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
unset STILLPOINT_RECORD

# The orderings that were executed: name, and place for the models.
find stillpoint/src -name '*.rs' -exec awk -v lines=1 -f ci/places.awk {} + | sort -k1,1 -k2,2n >"$scratch/functions"
sort -u "$scratch/record" | sort -k1,1 -k2,2n -k3,3n -k4,4 | awk -f ci/orderings.awk "$scratch/functions" - >"$scratch/sites"
listed=$({ cut -d' ' -f1 <<<"$orderings" | tr ',' '\n' | sort -u; echo "$unrefuted"; } | sort)
if ! diff <(cut -d' ' -f1 "$scratch/sites" | sort) <(echo "$listed"); then
    echo "mutants: the orderings that the models execute (<) and those in $table (>, not twice) differ" >&2
    exit 1
fi

refute_step() {
    local name file test
    read -r name file test <<<"$1"
    refuted "$name" "$file" "$test" STILLPOINT_MUTANT="$name"
}
refute_ordering() {
    local names file test places
    read -r names file test <<<"$1"
    places=$(awk -v names=",$names," 'index(names, "," $1 ",") { print $2 }' "$scratch/sites" | paste -sd,)
    refuted "$names" "$file" "$test" STILLPOINT_WEAKEN="$places"
}
here=$(while read -r name rest; do is_patch "$name" || [[ $rest != loom_* ]] || echo "$name $rest"; done <<<"$steps")
each refute_step <<<"$here"
each refute_ordering <<<"$orderings"
echo "$(cut -d' ' -f1 <<<"$here" | sort -u | wc -l) steps and $(($(wc -l <"$scratch/sites") - $(wc -l <<<"$unrefuted"))) orderings refuted;" \
    "$(wc -l <<<"$unrefuted") orderings have no mutant; $(wc -w <<<"$patches") patches apply"
