#!/usr/bin/env bash
# The library's examples run, and check their own results; the integrations behind features report what they should. In debug
# builds, after those of the tests: some seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(hot_reload connection_table metrics_endpoint job_queue)
cargo build --workspace --examples
for program in "${programs[@]}"; do
    echo "-- $program"
    timeout 60 "${CARGO_TARGET_DIR:-target}/debug/examples/$program"
done

echo "-- tracing and metrics"
cargo test --package stillpoint-integrations --features tests --quiet
cargo test --package stillpoint --features lock-events,metrics,tracing --doc --quiet metrics
