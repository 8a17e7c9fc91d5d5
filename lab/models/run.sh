#!/usr/bin/env bash
# Explores the models completely. Then breaks one step at a time, and expects spin to find the error that the table in
# README.md names. Fails if an error is not found, or found as another one, if a search is cut short, or if the names
# in the table and in the models differ.
set -euo pipefail
cd "$(dirname "$0")/../.."
source ci/lib.sh
cd lab/models

for tool in spin cc; do
    command -v "$tool" >/dev/null || { echo "CANNOT CHECK: there is no $tool" >&2; exit 1; }
done

# Rows of the table: | `ERROR` | `model PARAMETER=VALUE...` | ... | found as |
rows=$(sed -nE 's/^\| `([A-Z_]+)` \| `([a-z_]+)([A-Z0-9_= ]*)` \|.*\| (stuck|invariant [0-9]+) \|$/\1;\2;\3;\4/p' README.md)

# The names that a model tests for and does not define.
in_models=$(for model in *.pml; do
    comm -23 \
        <(grep -oE '^#(ifdef|ifndef|if|elif) .*' "$model" | grep -oE '\b[A-Z][A-Z_]+\b' | sort -u) \
        <(grep -oE '^#define [A-Z_]+' "$model" | cut -d' ' -f2 | sort -u) | sed "s/^/${model%.pml} /"
done | sort -u)
in_table=$(awk -F';' '{ print $2, $1 }' <<<"$rows" | sort -u)
if ! diff <(echo "$in_models") <(echo "$in_table"); then
    echo "the errors in the models (<) and in README.md (>) differ" >&2
    exit 1
fi

models=$PWD

# search DIRECTORY OPTIMIZATION MODEL DEFINITIONS...: writes spin's output to `log` there, prints states and seconds.
search() {
    local directory=$1 optimization=$2 model=$3 begin=$EPOCHREALTIME definitions=()
    shift 3
    for definition; do definitions+=("-D$definition"); done
    mkdir "$directory"
    cd "$directory"
    # To a file, because spin writes errors to standard output.
    spin -a "${definitions[@]}" "$models/$model.pml" >log || { cat log >&2; return 1; }
    cc -w "$optimization" -DSAFETY -DCOLLAPSE -DVECTORSZ=1024 -DMEMLIM=4096 -o pan pan.c
    ./pan -m100000 -w24 >log 2>&1 || true
    local states
    states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' log)
    awk -v states="$states" -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%10d states %6.1f s", states, e - b }'
}

report() {
    printf '%-10s %-52s %s  %s\n' "$1" "$2" "$3" "$4"
    [[ $1 != WRONG ]] || touch "$scratch/failed"
}

unbroken() {
    local model parameters cost directory
    IFS=';' read -r model parameters <<<"$1"
    directory=$scratch/$model${parameters// /.}
    # shellcheck disable=SC2086
    cost=$(search "$directory" -O2 "$model" $parameters)
    if grep -q 'errors: 0$' "$directory/log" &&
        ! grep -qE 'max search depth too small|Search not completed|out of memory|aborting' "$directory/log"; then
        report holds "$model$parameters" "$cost" ''
    else
        grep -E '^(error|pan|Warning)' "$directory/log" || true
        report WRONG "$model$parameters" "$cost" 'an error in the unbroken model, or the search was cut short'
    fi
    rm -r "$directory"
}

broken() {
    local error model parameters found cost expected directory
    IFS=';' read -r error model parameters found <<<"$1"
    directory=$scratch/$model${parameters// /.}.$error
    # shellcheck disable=SC2086
    # Not optimized: finding the error takes less time than an optimized build.
    cost=$(search "$directory" -O0 "$model" $parameters "$error")
    case $found in
        stuck) expected='invalid end state' ;;
        *) expected="assertion violated .*\|\|\(${found#invariant }==0\)" ;;
    esac
    if grep -qE "^pan:1: $expected" "$directory/log"; then
        report found "$model$parameters $error" "$cost" "$found"
    else
        grep -E '^(error|pan)' "$directory/log" || true
        report WRONG "$model$parameters $error" "$cost" "not found as: $found"
    fi
    rm -r "$directory"
}

each unbroken < <(cut -d';' -f2,3 <<<"$rows" | sort -u)
each broken <<<"$rows"
