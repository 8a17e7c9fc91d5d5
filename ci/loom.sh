#!/usr/bin/env bash
# Explores the models of the algorithms with loom, each in a separate process (threads of one process would wait for
# each other whenever loom maps a stack), one per processor at a time. Takes less than a minute after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

build "${loom[@]}"
models >"$scratch/models"
[[ -s $scratch/models ]]
each holds <"$scratch/models"
