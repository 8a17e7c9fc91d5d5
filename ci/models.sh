#!/usr/bin/env bash
# The Promela models of sleeping and waking hold, and every injected error is found. Takes two or three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
lab/models/run.sh
