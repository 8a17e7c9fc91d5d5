#!/usr/bin/env bash
# The documentation builds without warnings and its links resolve, with the optional features too. The figures in the
# README's table are those of the sample report's summary; `ci/docs.sh record` copies them there after a new report.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh

# Prints the README with the summary's figures. Finds rows by name and peer; a row without a name has that of the row
# above.
with_figures() {
    awk -F ' *[|] *' '
        function key() { if ($2 != "") name = $2; return name SUBSEP $4 }
        NR == FNR { if (/^\| /) { figures[key()] = $5 " | " $6; if ($2 != "") stillpoint[name] = $3 } next }
        /^<!-- From/ { table = 1 }
        /^<!-- End/ { table = 0 }
        table && /^\| / && $4 != "peer" {
            row = key()
            if (!(row in figures)) { print "no figures for: " $0 >"/dev/stderr"; failed = 1 }
            print "| " $2 " | " ($2 == "" ? "" : stillpoint[name]) " | " $4 " | " figures[row] " |"
            next
        }
        { print }
        END { exit failed }' <(sed '/^## /,$d' docs/report/summary.md) README.md
}

readme=$(mktemp)
trap 'rm "$readme"' EXIT
with_figures >"$readme"
if [[ ${1-} == record ]]; then cat "$readme" >README.md; fi
diff README.md "$readme" || { echo "README.md differs from docs/report/summary.md: run ci/docs.sh record" >&2; exit 1; }

export RUSTDOCFLAGS="-D warnings"
cargo doc --workspace --no-deps
cargo doc --package stillpoint --no-deps --features tracing,metrics,lock-events,lock_api_04,serde,signal-fence
