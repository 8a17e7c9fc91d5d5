#!/usr/bin/env bash
# The documentation builds without warnings and its links resolve, with the optional features too. Its figures are
# those of docs/report/summary.json, which is of one run of one commit, or stand in a section that says where they are
# from.
#
#   ci/docs.sh                       checks
#   ci/docs.sh record [report.json]  writes the summary, its plots and its tables in all pages: of a new report, unless
#                                    threads lacked CPUs in more than half of its parts
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

pages=(README.md docs/*.md)
summary=docs/report/summary.json

echo "-- figures"
mkdir -p "$scratch/docs"
# The command as `cargo test --workspace` builds it.
cargo test --quiet --workspace --test command --no-run
"${CARGO_TARGET_DIR:-target}/debug/stillpoint" report --from "${2:-$summary}" --one-run --out-dir "$scratch/docs/report"
# What stands between the mark `block: NAME` and the mark `end` is the report's block of that name.
for page in "${pages[@]}"; do
    awk -v blocks="$scratch/docs/report/blocks" '
        /^<!-- end -->/ { if (!inside) exit 1; inside = 0 }
        !inside
        /^<!-- block: / { if (inside) exit 1; inside = 1; if ((getline line < (blocks "/" $3 ".md")) <= 0) exit 1
            do print line; while ((getline line < (blocks "/" $3 ".md")) > 0); close(blocks "/" $3 ".md") }
        END { if (inside) exit 1 }' "$page" >"$scratch/$page" || { echo "$page has a wrong mark" >&2; exit 1; }
done
pages+=("$summary" docs/report/{summary.md,lock.svg,memory.svg,programs.svg})
if [[ ${1-} == record ]]; then for page in "${pages[@]}"; do cp "$scratch/$page" "$page"; done; fi
for page in "${pages[@]}"; do
    diff "$page" "$scratch/$page" || { echo "$page is not what $summary says (>): run ci/docs.sh record" >&2; exit 1; }
done
for line in 'took 0.77x of it' '- 12.5 us' '| 3 ns |'; do # the check finds these
    if printf '## A section\n\n%s\n' "$line" | awk -f ci/figures.awk >/dev/null; then echo "ci/figures.awk misses: $line" >&2; exit 1; fi
done
awk -f ci/figures.awk README.md docs/*.md || { echo "figures without a source: see ci/figures.awk" >&2; exit 1; }
commit=$(jq --raw-output '.origin.commit' $summary)
# Shallow clones lack the commit.
if git cat-file -e "$commit" 2>/dev/null; then echo "the report is $(git rev-list --count "$commit..HEAD") commits old"; fi

echo "-- links between pages"
links() { # prints PAGE and each of its relative links to files
    grep -oE '\]\([^)#: ]+[)#]' "$1" | sed 's/^](//; s/[)#]$//' | while read -r link; do echo "$1 $link"; done || true
}
git ls-files '*.md' | grep -v '^lab/models/\|^dropins/arc-swap/\|^dropins/crossbeam-epoch/' | while read -r page; do links "$page"; done >"$scratch/links"
while read -r page link; do
    [[ -e $(dirname "$page")/$link ]] || { echo "$page has a link to nowhere: $link" >&2; exit 1; }
done <"$scratch/links"

echo "-- paths in backticks, in pages and comments"
while read -r path; do
    grep --quiet -E "(^|/)${path//./\\.}" "$scratch/files" || { echo "there is no $path: $(git grep -lF "\`$path" | tr '\n' ' ')" >&2; exit 1; }
done < <(git ls-files >"$scratch/files"; git grep -ohE '`([A-Za-z0-9_.-]+/)*[A-Za-z0-9_.-]+(\.(rs|sh|md|pml|patch|litmus|awk|py)|/)`' |
    tr -d '`' | sed 's|^[./]*||' | grep -vE '^(ci/run|ci/mutants/NAME\.patch|tests/PROGRAM|cargo/|target/|vendor/|report/|$)' | sort -u)
# And what a page calls module::item is in the module: a file, or a folder.
while read -r name; do
    module=${name%::*} module=${module##*::}
    grep -E "/$module(/.*)?\.rs\$" "$scratch/files" | xargs grep --quiet -wF "${name##*::}" /dev/null ||
        { echo "there is no $name: $(git grep -lF "\`$name\`" '*.md' | tr '\n' ' ')" >&2; exit 1; }
done < <(grep -ohE '`([a-z_]+::)+[A-Za-z_0-9]+`' docs/*.md lab/models/README.md | tr -d '`' | grep -vE '^(std|core|tokio|mem|libc|loom)::' | sort -u)

export RUSTDOCFLAGS="-D warnings"
cargo doc --workspace --no-deps
cargo doc --package stillpoint --no-deps --features tracing,metrics,lock_api_05,section-locations,statistics-page
cargo doc --package stillpoint-collections --no-deps --features rayon,serde
