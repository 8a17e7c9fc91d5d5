#!/usr/bin/env bash
# Safe code cannot break the contracts of the library through what its pages do not show. Lists everything that a safe
# program can use below `doc(hidden)`, or through types and bounds without a documented name (`ci/hidden.py`), and
# compares it with ci/hidden.txt, where each has its reason, and where each line stands for something that was found.
# Half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

# listed PACKAGE FEATURES MANIFEST: lists the package.
listed() {
    cargo "+$rust_nightly" rustdoc --quiet --lib --package "$1" --features "$2" --manifest-path "$3" \
        --target-dir target/api -- -Z unstable-options --output-format json --cap-lints allow \
        --document-hidden-items --document-private-items
    local name=${1//-/_}
    python3 ci/hidden.py "target/api/doc/$name.json"
}

sed -n 's/^\([a-z_]\+\) \(.*\) -- ..*/\1 \2/p' ci/hidden.txt >"$scratch/rows"
[[ $(wc -l <"$scratch/rows") == $(grep -vcE '^(#|$)' ci/hidden.txt) ]] || fail "a line of ci/hidden.txt has no reason"
! grep '^always value' ci/hidden.txt >&2 || fail "safe code has a value that it should not be able to make"
# compare FEATURE...: what was found is in the rows of these, and each row stands for something.
compare() {
    local when what line
    >"$scratch/covered"
    while read -r when what; do
        [[ " always $* " == *" $when "* ]] || continue
        while IFS= read -r line; do
            # The row is a pattern.
            if [[ $line == $what ]]; then echo "$line"; fi
        done <"$scratch/found" >"$scratch/by_row"
        [[ -s $scratch/by_row ]] || fail "ci/hidden.txt has a line for nothing: $what"
        cat "$scratch/by_row" >>"$scratch/covered"
    done <"$scratch/rows"
    sort -u "$scratch/covered" | comm -13 - "$scratch/found" >"$scratch/unlisted"
    [[ ! -s $scratch/unlisted ]] ||
        { cat "$scratch/unlisted" >&2; fail "safe code can use these, and ci/hidden.txt does not say why that is sound"; }
    echo "$(wc -l <"$scratch/found"), each with a reason"
}

for features in "" _capi _capi,_lab,_urcu; do
    echo "-- the library${features:+, with the features $features}"
    {
        listed stillpoint "lock_api_05,metrics,send_guard,statistics-page,tracing${features:+,$features}" \
            Cargo.toml
        listed stillpoint-collections "" Cargo.toml
        listed stillpoint-tokio "" Cargo.toml
        listed crossbeam-epoch "" dropins/crossbeam-epoch/Cargo.toml
    } | sed '/^$/d' | LC_ALL=C sort -u >"$scratch/found"
    compare ${features//,/ }
done
