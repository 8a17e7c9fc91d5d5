#!/usr/bin/env bash
# The documentation builds without warnings and its links resolve, with the optional features too. Its figures are those
# of docs/report/report.json, which is one run of one commit, or stand in a section that says where they are from.
#
#   ci/docs.sh          checks
#   ci/docs.sh record   writes the report's pages and fills its figures into all others, after a new report
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

pages=(README.md docs/*.md)
results=docs/report/report.json

echo "-- figures"
for page in "${pages[@]}"; do install -D -m 644 "$page" "$scratch/$page"; done
cargo run --quiet --package stillpoint-lab -- report --from $results --one-run --out-dir "$scratch/docs/report" \
    --fill "${pages[@]/#/$scratch/}"
generated=(report.html summary.md figures.md report.json)
pages+=("${generated[@]/#/docs/report/}")
if [[ ${1-} == record ]]; then for page in "${pages[@]}"; do cp "$scratch/$page" "$page"; done; fi
for page in "${pages[@]}"; do
    diff "$page" "$scratch/$page" || { echo "$page is not what $results says (>): run ci/docs.sh record" >&2; exit 1; }
done
for line in 'took 0.77x of it' '- 12.5 us' '| 3 ns |'; do # the check finds these
    if printf '## A section\n\n%s\n' "$line" | awk -f ci/figures.awk >/dev/null; then echo "ci/figures.awk misses: $line" >&2; exit 1; fi
done
awk -f ci/figures.awk README.md docs/*.md docs/report/*-grid.md ||
    { echo "figures without a source: see ci/figures.awk" >&2; exit 1; }
commit=$(jq --raw-output '.results[0].origin.commit' $results)
# Shallow clones lack the commit.
if git cat-file -e "$commit" 2>/dev/null; then echo "the report is $(git rev-list --count "$commit..HEAD") commits old"; fi

export RUSTDOCFLAGS="-D warnings"
cargo doc --workspace --no-deps
cargo doc --package stillpoint --no-deps --features tracing,metrics,lock-events,lock_api_04,section-locations,serde,signal-fence
