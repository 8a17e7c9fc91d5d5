#!/bin/sh
# A wrapper of rustc for the crates of the workspace (RUSTC_WORKSPACE_WRAPPER): fault points in rseq critical sections.
exec "$@" --cfg stillpoint_faults
