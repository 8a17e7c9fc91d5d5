#!/usr/bin/env bash
# Clippy reports nothing, with and without the optional features, in each combination of the parts, and with the peers
# that are built from C.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/versions.sh
cargo clippy --workspace --all-targets \
    --features stillpoint-capi/mixed,stillpoint-facades/tests,stillpoint-posts/liburcu,stillpoint-service/service \
    -- -D warnings
cargo clippy --package stillpoint-measure --package stillpoint-posts --all-targets -- -D warnings
cargo clippy --package stillpoint --all-targets -- -D warnings
cargo clippy --package stillpoint-collections --all-targets --features rayon,serde -- -D warnings
cargo clippy --package stillpoint --all-targets --features lock_api_05,tracing,metrics,section-locations,send_guard,statistics-page,usdt -- -D warnings
# Each combination of the parts.
for parts in "" lock percpu srcu lock,percpu lock,srcu percpu,srcu; do
    cargo clippy --quiet --package stillpoint --no-default-features --features "$parts" -- -D warnings
done
