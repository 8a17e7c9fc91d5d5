#!/usr/bin/env bash
# The command works from end to end: each part runs for some seconds, with all peers. Measures nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

# Less optimization builds faster.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
target=target/lab
cargo build --release --package stillpoint-measure --package stillpoint-posts --features stillpoint-posts/liburcu \
    --target-dir "$target"
programs=$target/release
stillpoint=$programs/stillpoint

echo "-- probe"
"$stillpoint" probe

echo "-- probe, in a static program with musl"
cargo build --package stillpoint-torture --target x86_64-unknown-linux-musl --target-dir "$target"
"$target/x86_64-unknown-linux-musl/debug/torture" probe

# complete WHAT NAME: the report has rows of stillpoint and of a peer, and ratios; of liburcu too, where that is a peer.
complete() {
    local json=$scratch/$2.json
    jq --exit-status --arg bench "$2" '
        .bench == $bench
        and ([.rows[].system] | index("stillpoint") != null and (unique | length > 1))
        and any(.rows[]; .ratio)
        and ((["read", "sync", "qsbr", "callback", "e2", "e3", "e4"] | index($bench) == null)
            or any(.rows[].system; startswith("liburcu")))
    ' "$json" >/dev/null || { cat "$json" >&2; fail "the report of $1 $2 is incomplete"; }
}
for bench in read sync fence qsbr srcu arc hazard percpu map rwlock programs callback; do
    echo "-- bench $bench"
    "$stillpoint" bench "$bench" --seconds 1 --json "$scratch/$bench.json" | cat
    complete bench "$bench"
done

echo "-- scale"
"$programs/posts" scale | cat

echo "-- bench lock"
"$stillpoint" bench lock --seconds 1 --rounds 1 --json "$scratch/lock.json" | cat
"$stillpoint" bench lock-ablation --seconds 1 --rounds 1 | cat
jq --exit-status '([.rows[].system] | unique | length) == 7 and any(.rows[]; .ratio)' "$scratch/lock.json" >/dev/null

echo "-- reproduce"
for experiment in e1 e2 e3 e4 e5 e6; do
    "$programs/posts" reproduce $experiment --seconds 1 --json "$scratch/$experiment.json" | cat
    complete reproduce $experiment
    # And the posted figures.
    jq --exit-status '(.posted.source | type == "string")
        and (.posted.tables | all((.head | length) as $columns | .rows | all(length == $columns)))' "$scratch/$experiment.json" >/dev/null
done

echo "-- report"
"$stillpoint" report --only callback,e5 --seconds 1 --out-dir "$scratch/report" | cat
jq --exit-status '.origin | .run, .commit | length > 0' "$scratch/report/report.json" >/dev/null
# What was measured of changed code is not published.
jq '.origin.dirty = true' "$scratch/report/report.json" >"$scratch/changed.json"
if "$stillpoint" report --from "$scratch/changed.json" --one-run --out-dir "$scratch/changed" 2>"$scratch/errors"; then
    echo "a report of changed code is published" >&2
    exit 1
fi
grep --quiet 'is not to be published' "$scratch/errors"
jq --exit-status '[.results[].bench] | sort == ["callback", "e5"]' "$scratch/report/report.json" >/dev/null
grep --quiet '</svg>' "$scratch/report/memory.svg"
grep --quiet '^| E5 |' "$scratch/report/summary.md"

echo "-- claims"
# Whether they hold is no matter here, where nothing is measured for long: each has a verdict.
"$stillpoint" claims --only read,percpu --seconds 1 --out-dir "$scratch/claims" >"$scratch/claims.txt" 2>"$scratch/errors" || true
claimed=$(grep --count -E '(holds|does not hold|cannot be checked) here' "$scratch/claims.txt" || true)
[[ $claimed -gt 1 && $claimed == $(grep --count -E '`claims --only (read|percpu)`' docs/claims.md) ]] ||
    { cat "$scratch/claims.txt" "$scratch/errors" >&2; exit 1; }

echo "-- demo"
"$stillpoint" demo --seconds 3 | tee "$scratch/demo"
grep --quiet stillpoint "$scratch/demo"
