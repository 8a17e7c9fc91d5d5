#!/usr/bin/env bash
# The protocols of sleeping and waking hold in the Promela models, and every injected error is found. Two or three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
models/run.sh
