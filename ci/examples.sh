#!/usr/bin/env bash
# The library's examples run to their end, and check their results. The features `tracing` and `metrics` report what
# they should, as does the page of statistics with `stillpoint top`. The service on tokio and hyper answers its
# clients. Debug builds; takes some seconds after the builds of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh

programs=(hot_reload connection_table sessions metrics_endpoint job_queue sorted_list hazard_list)
cargo build --workspace --examples
for program in "${programs[@]}"; do
    echo "-- $program"
    timeout 300 "${CARGO_TARGET_DIR:-target}/debug/examples/$program"
done

# One set of features for all tests of the library here, which is built once for them. `cargo test` has run those of
# `stillpoint top`.
echo "-- the page of statistics, metrics, locks of lock_api 0.5, guards that are Send, stall reports with the places of sections"
features=(--package stillpoint --features lock_api_05,metrics,section-locations,send_guard,statistics-page,tracing)
cargo test "${features[@]}" --test statistics_page --test lock --test stall --quiet
cargo test "${features[@]}" --test fuzz --quiet lock::
cargo test "${features[@]}" --doc --quiet -- metrics statistics_page
cargo check --package stillpoint --no-default-features --features statistics-page --quiet

echo "-- tracing and metrics, and serde of the maps"
cargo test --workspace --features stillpoint-facades/tests --test metrics --test tracing --quiet
cargo run --package stillpoint-facades --features tests --example metrics_recorder --quiet >/dev/null
cargo test --package stillpoint-collections --features rayon,serde --test hash_map --quiet features::

echo "-- the service on tokio and hyper"
cargo test --package stillpoint-service --features service --quiet
timeout 300 "${CARGO_TARGET_DIR:-target}"/debug/service
