#!/usr/bin/env bash
# The command works from end to end: each part runs for some seconds, with all peers. Measures nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh

# In a folder of its own: other checks replace `torture` in theirs, perhaps at the same time. Less optimization builds faster.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
target=target/lab
cargo build --release --package stillpoint-measure --package stillpoint-posts --package stillpoint-torture \
    --features stillpoint-posts/liburcu --target-dir "$target"
programs=$target/release
stillpoint=$programs/stillpoint
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

echo "-- probe"
"$stillpoint" probe

echo "-- probe, in a static program with musl"
cargo build --package stillpoint-torture --target x86_64-unknown-linux-musl --target-dir "$target"
"$target/x86_64-unknown-linux-musl/debug/torture" probe

for bench in read sync fence qsbr srcu arc hazard percpu map programs callback; do
    echo "-- bench $bench"
    json=$scratch/$bench.json
    "$stillpoint" bench "$bench" --quick --seconds 1 --json "$json" | cat
    # stillpoint and at least one peer have rows, and there are ratios.
    jq --exit-status --arg bench "$bench" '
        .bench == $bench
        and ([.rows[].system] | index("stillpoint") != null and (unique | length > 1))
        and (.ratios | length > 0)
    ' "$json" >/dev/null || { echo "the report of bench $bench is incomplete:" >&2; cat "$json" >&2; exit 1; }
    if [[ $bench != fence && $bench != srcu && $bench != arc && $bench != hazard && $bench != percpu && $bench != map && $bench != programs ]]; then
        jq --exit-status '[.rows[].system] | any(startswith("liburcu"))' "$json" >/dev/null ||
            { echo "bench $bench did not measure liburcu" >&2; exit 1; }
    fi
done

echo "-- scale"
"$programs/posts" scale --page "$scratch/scale.html" | cat
grep --quiet '</svg>' "$scratch/scale.html"

echo "-- bench lock"
"$stillpoint" bench lock --quick --seconds 1 --rounds 1 --json "$scratch/lock.json" | cat
"$stillpoint" bench lock-ablation --quick --seconds 1 --rounds 1 | cat
jq --exit-status '([.rows[].system] | unique | length) == 10 and (.ratios | length > 0)' "$scratch/lock.json" >/dev/null
"$stillpoint" report --from "$scratch/lock.json" --out-dir "$scratch/lock"
grep --quiet '</svg>' "$scratch/lock/report.html"

echo "-- reproduce"
"$programs/posts" reproduce e1 e2 e3 e4 e5 e6 --seconds 1 --json "$scratch/reproduce.json" | cat
for experiment in e1 e2 e3 e4 e5 e6; do
    json=$scratch/reproduce.$experiment.json
    # Rows of stillpoint and of a peer, and the posted figures.
    jq --exit-status --arg experiment "$experiment" '
        .bench == $experiment
        and ([.rows[].system] | index("stillpoint") != null and (unique | length > 1))
        and (.ratios | length > 0)
        and (.posted.source | type == "string")
        and (.posted.tables | all(.columns as $columns | .rows | all(.values | length == ($columns | length))))
    ' "$json" >/dev/null ||
        { echo "the report of reproduce $experiment is incomplete:" >&2; cat "$json" >&2; exit 1; }
    if [[ $experiment == e[234] ]]; then
        jq --exit-status '[.rows[].system] | any(startswith("liburcu"))' "$json" >/dev/null ||
            { echo "reproduce $experiment did not measure liburcu" >&2; exit 1; }
    fi
done

echo "-- report, compare"
# Two runs, the second into the directory of the first. The page is self-contained and has no scripts.
"$stillpoint" report --only read,e5 --seconds 1 --out-dir "$scratch/report" | cat
cp "$scratch/report/report.json" "$scratch/before.json"
"$stillpoint" report --only read --seconds 1 --out-dir "$scratch/report" | cat
# Each part has the run and the commit. Two runs are not published as one.
jq --exit-status '[.results[].origin | .run, .commit] | all(length > 0)' "$scratch/report/report.json" >/dev/null
grep --quiet 'not to be published' "$scratch/report/summary.md"
if "$stillpoint" report --from "$scratch/report/report.json" --one-run --out-dir "$scratch/two" 2>"$scratch/errors"; then
    echo "two runs pass as one" >&2
    exit 1
fi
grep --quiet 'is not to be published' "$scratch/errors"
jq --exit-status '[.results[].bench] | sort == ["e5", "read"]' "$scratch/report/report.json" >/dev/null
grep --quiet '</svg>' "$scratch/report/report.html"
if grep --extended-regexp --quiet '<script|https?://|<link|@import|url\(' "$scratch/report/report.html"; then
    echo "the page is not self-contained" >&2
    exit 1
fi
grep --quiet '^| E5 |' "$scratch/report/summary.md"
"$stillpoint" compare "$scratch/before.json" "$scratch/report/report.json" >"$scratch/compared"
# A file does not differ from itself.
"$stillpoint" compare "$scratch/before.json" "$scratch/before.json" | tail -n 2 | tee "$scratch/same"
[[ $(grep --count 'no difference seen in' "$scratch/same") == 2 ]]

echo "-- claims"
# Whether they hold is no matter here, where nothing is measured for long: each has a verdict. Results that refute all
# claims, or none, are told apart.
claims() { # claims OPTION...: their verdicts, and its exit status
    "$stillpoint" claims --only read,percpu "$@" >"$scratch/claims.txt" 2>"$scratch/errors" || return
}
claims --seconds 1 --out-dir "$scratch/claims" || true
claimed=$(grep --count -E '(holds|does not hold|cannot be checked) here' "$scratch/claims.txt" || true)
[[ $claimed -gt 3 && $claimed == $(grep --count -E '`claims --only (read|percpu)`' docs/claims.md) ]] ||
    { cat "$scratch/claims.txt" "$scratch/errors" >&2; exit 1; }
scaled() { # scaled FACTOR: our costs, times FACTOR, as if threads had got all CPUs
    jq --argjson by "$1" '.results[] |= (del(.cpus, .rows[].marked)
            | .ratios[] |= (.median *= $by | .min *= $by | .max *= $by))' \
        "$scratch/claims/report.json" >"$scratch/scaled.json"
}
scaled 1e-6
claims --from "$scratch/scaled.json" || { cat "$scratch/claims.txt" >&2; echo "true claims are refuted" >&2; exit 1; }
scaled 1e6
if claims --from "$scratch/scaled.json"; then echo "false claims hold" >&2; exit 1; fi
[[ $(grep --count 'does not hold here' "$scratch/claims.txt") == "$claimed" ]]
grep --quiet "$claimed do not hold here" "$scratch/errors"

echo "-- torture flood, with two allocators (ci/torture.sh runs the rest)"
for allocator in system mimalloc; do
    [[ $allocator == system ]] ||
        cargo build --release --package stillpoint-torture --features mimalloc --target-dir "$target"
    "$programs/torture" flood --count 5000000 --stall-seconds 0.5
    "$programs/torture" hazard-flood --count 5000000 --writers 2
done

echo "-- demo"
"$stillpoint" demo --seconds 3 | tee "$scratch/demo"
grep --quiet stillpoint "$scratch/demo"
