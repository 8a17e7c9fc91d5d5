#!/usr/bin/env bash
# The documentation builds, and its links lead somewhere; with the optional features too. The README shows the figures of the sample
# report.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTDOCFLAGS="-D warnings"
cargo doc --workspace --no-deps
cargo doc --package stillpoint --no-deps --features tracing,metrics,lock-events,lock_api_04,signal-fence

sample=$(sed '1,2d; /^## /,$d' docs/report/summary.md | sed -e '$d')
shown=$(sed -n '/^<!-- From docs\/report\/summary.md. -->$/,/^<!-- End. -->$/p' README.md | sed -e '1d; $d')
diff <(echo "$sample") <(echo "$shown") || { echo "README.md differs from docs/report/summary.md" >&2; exit 1; }
