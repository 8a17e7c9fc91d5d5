#!/usr/bin/env bash
# Mutants by tool: cargo-mutants changes one operator, or the result of one function, in the named source files of one
# part, and runs the tests of that part. Prints the mutants that no test refutes. Some ten seconds for each on an idle
# machine. Needs cargo-mutants (`ci/setup.sh release`); no part of .ci/run.
#
#   ci/cargo-mutants.sh FILE... [-- OPTION...]   an option of cargo-mutants is, for example, `--re REGEX`
#
# The tool does not look into macros. So it changes no steps, and no functions in `const_unless_loom!`; nor orderings,
# which are no operators. `ci/mutants.sh` has these. Code for models is left out. A mutant that hangs the tests counts
# as refuted.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh

files=() package=stillpoint
while (($# > 0)) && [[ $1 != -- ]]; do files+=(--file "$1") && part=$1 && shift; done
((${#files[@]} > 0)) || { sed -n 2,6p "$0" >&2; exit 2; }
case $part in
stillpoint/src/arc/*) tests=(--lib --test arc) ;;
stillpoint/src/slots/*) tests=(--lib --test arc --test hazard) ;;
stillpoint/src/percpu/*) tests=(--lib --test percpu --test memory) ;;
stillpoint/src/hazard/*) tests=(--test hazard) ;;
stillpoint/src/lock/*) tests=(--lib --test lock) ;;
stillpoint/src/qsbr/* | stillpoint/src/srcu/*) tests=(--test "$(cut -d/ -f3 <<<"$part")") ;;
collections/src/*) package=stillpoint-collections tests=(--tests) ;;
*) tests=(--lib --test rcu --test qsbr --test srcu --test hazard) ;;
esac
[[ -x target/tools/bin/cargo-mutants ]] || { echo "CANNOT CHECK: there is no cargo-mutants" >&2; exit 77; }

mutants=(target/tools/bin/cargo-mutants mutants --package "$package" "${files[@]}" --exclude '**/loom*.rs'
    --exclude '**/portable/**' --exclude-re 'Box::leak|impl fmt::|tests::' "${@:2}")
# The list has a file once for each `mod` that names it, under whatever `cfg`. The first part of it has each mutant.
times=$("${mutants[@]}" --list 2>/dev/null | sort | uniq --count | sort --numeric-sort | awk 'NR == 1 { print $1 }')
# A folder for all builds, because the tool copies the source to a new place each time. `rcu::tests` run longest.
export CARGO_TARGET_DIR=$PWD/target/cargo-mutants CARGO_PROFILE_DEV_DEBUG=none STILLPOINT_TEST_TIME_FACTOR=10
"${mutants[@]}" --shard "0/$times" --output target --jobs 1 -- "${tests[@]}" -- --skip rcu::tests
