#!/usr/bin/env bash
# Explores the models of the algorithms with loom: each in a process of its own, as threads of one would wait for each other
# whenever loom maps a stack, and as many at a time as there are processors. Under a minute, after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

build "${loom[@]}"
models >"$scratch/models"
[[ -s $scratch/models ]]
each holds <"$scratch/models"
