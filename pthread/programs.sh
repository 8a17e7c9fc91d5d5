#!/usr/bin/env bash
# pthread/programs.sh LIBRARY [PROGRAM]...: runs programs of Debian with the C library's locks and with the library
# preloaded, in turns, and prints the ratios of the medians (library / C library): operations per second, CPU time an operation,
# and the 99.9th percentile of the latencies where the program measures it. All programs by default.
#
# Packages: kyotocabinet-utils rocksdb-tools sysbench stress-ng pbzip2 mariadb-server. What is not installed is left out.
# ROUNDS (5), FACTORS (threads a CPU: "1 4 32"), LOADS ("alone busy": beside as many busy loops as CPUs), SCALE (1: of
# the work). On a machine that does something else, the figures mean little.
set -euo pipefail
(($# >= 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
library=$(realpath "$1")
chosen=("${@:2}")
rounds=${ROUNDS:-5} scale=${SCALE:-1}
cpus=$(nproc)
scratch=$(mktemp -d)
busy=()
cleanup() {
    ((${#busy[@]} == 0)) || kill "${busy[@]}" 2>/dev/null || true
    [[ ! ${server-} ]] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } || true
    rm -rf "$scratch"
}
trap cleanup EXIT

# Each program prints its operations per second and the percentile, or `-`, and takes the number of threads. `$preload` is
# the library or nothing.
with() { LD_PRELOAD=$preload "$@"; }
timed() { # timed OPERATIONS COMMAND...: the rate of a program that has so much to do
    local operations=$1 begin=$EPOCHREALTIME
    shift
    with "$@" >"$scratch/output" 2>&1
    awk -v n="$operations" -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { print n / (e - b), "-" }'
}
kccachetest() { timed $((scale * 100000)) /usr/bin/kccachetest wicked -th "$1" -capcnt 10000 $((scale * 100000 / $1)); }
kctreetest() { timed $((scale * 20000)) /usr/bin/kctreetest wicked -th "$1" "$scratch/tree.kct" $((scale * 20000 / $1)); }
sysbench_mutex() {
    timed $((scale * 400000)) sysbench mutex --threads="$1" --mutex-num=1 --mutex-locks=$((scale * 400000 / $1)) --mutex-loops=100 run
}
sysbench_threads() {
    with sysbench threads --threads="$1" --thread-locks=2 --thread-yields=10 --time=$((2 * scale)) --percentile=100 run >"$scratch/output"
    awk '/total number of events/ { n = $NF } /total time:/ { t = $NF } END { print n / t, "-" }' "$scratch/output"
}
stress_ng() {
    with stress-ng --mutex 1 --mutex-procs "$(($1 < 64 ? $1 : 64))" --timeout $((2 * scale)) --metrics-brief >"$scratch/output" 2>&1
    awk '$4 == "mutex" { print $9, "-"; exit }' "$scratch/output"
}
pbzip2() {
    if [[ ! -f $scratch/input ]]; then
        { cat /usr/lib/x86_64-linux-gnu/lib*.so.* 2>/dev/null || true; } | head -c $((scale * 8000000)) >"$scratch/input" || true
    fi
    timed "$(stat -c %s "$scratch/input")" /usr/bin/pbzip2 -b1 -p"$1" -kfc "$scratch/input"
}
db_bench() { # db_bench BENCHMARK THREADS
    local existing=0
    [[ $1 == fillrandom ]] || existing=1
    if ((existing)) && [[ ! -d $scratch/db.read ]]; then
        /usr/bin/db_bench --benchmarks=fillrandom --num=100000 --db="$scratch/db.read" >/dev/null 2>&1
    fi
    with /usr/bin/db_bench --benchmarks="$1" --threads="$2" --num=$((scale * 200000 / $2)) --histogram --use_existing_db=$existing \
        --db="$scratch/db$([[ $existing == 0 ]] || echo .read)" --disable_wal="$existing" >"$scratch/output" 2>&1
    awk -v name="$1" '$1 == name { rate = $5 } /^Percentiles:/ && rate { print rate, $9; exit }' "$scratch/output"
}
fillrandom() { db_bench fillrandom "$1"; }
readrandom() { db_bench readrandom "$1"; }
readwhilewriting() { db_bench readwhilewriting "$1"; }
oltp() { # oltp SCRIPT THREADS: the server has the library, its client has not
    local socket=$scratch/socket rate
    if [[ ! -d $scratch/data ]]; then
        mariadb-install-db --no-defaults --user=root --datadir="$scratch/data" --auth-root-authentication-method=normal >/dev/null 2>&1
    fi
    LD_PRELOAD=$preload mariadbd --no-defaults --user=root --datadir="$scratch/data" --socket="$socket" --skip-networking \
        --max-connections=500 --innodb-flush-log-at-trx-commit=0 >"$scratch/server" 2>&1 &
    server=$!
    until mariadb-admin --no-defaults --user=root --socket="$socket" ping >/dev/null 2>&1; do
        kill -0 "$server" || { cat "$scratch/server" >&2; return 1; }
        sleep 0.2
    done
    local bench=(sysbench "$1" --mysql-user=root --mysql-socket="$socket" --mysql-db=test --tables=2 --table-size=5000)
    mariadb --no-defaults --user=root --socket="$socket" -e 'create database if not exists test'
    [[ -f $scratch/prepared ]] || { "${bench[@]}" prepare >/dev/null && touch "$scratch/prepared"; }
    "${bench[@]}" --threads="$2" --time=$((3 * scale)) --histogram run >"$scratch/output"
    awk '/events per second|transactions:/ { gsub(/[(]/, "", $3); rate = $3 }
        $2 == "|" || / \|/ { n += $NF; bin[++bins] = $1; total[bins] = n }
        END { for (i = 1; i <= bins; i++) if (total[i] >= 0.999 * n) { p = bin[i]; break } print rate, p ? p : "-" }' "$scratch/output"
    kill "$server"
    # The CPU time of the server is that of a child that has been waited for.
    wait "$server" || true
    server=
}
point_select() { oltp oltp_point_select "$1"; }
read_write() { oltp oltp_read_write "$1"; }

programs=(kccachetest kctreetest fillrandom readrandom readwhilewriting sysbench_mutex sysbench_threads stress_ng pbzip2 point_select read_write)
declare -A needs=([fillrandom]=db_bench [readrandom]=db_bench [readwhilewriting]=db_bench [sysbench_mutex]=sysbench
    [sysbench_threads]=sysbench [stress_ng]=stress-ng [point_select]=mariadbd [read_write]=mariadbd)
((${#chosen[@]})) || chosen=("${programs[@]}")

# ratio COLUMN: the ratio of the medians of the library and of the C library.
ratio() {
    for kind in ours theirs; do awk -v c="$1" '$c != "-" { print $c }' "$scratch/$kind" | sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'; done |
        paste -sd' ' | awk '{ if ($1 == "-" || $2 == "-" || $2 == 0) print "-"; else printf "%.2fx\n", $1 / $2 }'
}
# seconds FILE: CPU time of the commands that have ended.
seconds() {
    times >"$scratch/times"
    awk 'NR == 2 { gsub(/m/, " "); gsub(/s/, ""); print $1 * 60 + $2 + $3 * 60 + $4 }' "$scratch/times" >"$1"
}

printf '%-17s %7s  %-5s  %8s  %8s  %8s\n' program threads load rate CPU p99.9
for program in "${chosen[@]}"; do
    command -v "${needs[$program]:-/usr/bin/$program}" >/dev/null || { echo "$program: not installed"; continue; }
    for load in ${LOADS:-alone busy}; do
        if [[ $load == busy ]]; then
            for ((i = 0; i < cpus; i++)); do (while :; do :; done) & busy+=($!); done
        fi
        for factor in ${FACTORS:-1 4 32}; do
            threads=$((factor * cpus))
            : >"$scratch/ours" >"$scratch/theirs"
            for ((round = 0; round < rounds; round++)); do
                for kind in theirs ours; do
                    preload=$([[ $kind == theirs ]] || echo "$library")
                    rm -f "$scratch/tree.kct"
                    seconds "$scratch/before"
                    begin=$EPOCHREALTIME
                    "$program" "$threads" >"$scratch/result" || { echo "$program fails" >&2; tail -3 "$scratch/output" >&2; exit 1; }
                    end=$EPOCHREALTIME
                    seconds "$scratch/after"
                    # The rate, CPU time an operation, the percentile.
                    paste -d' ' "$scratch/result" "$scratch/before" "$scratch/after" |
                        awk -v t="$(awk -v b="$begin" -v e="$end" 'BEGIN { print e - b }')" '{ print $1, ($4 - $3) / $1 / t, $2 }' >>"$scratch/$kind"
                done
            done
            printf '%-17s %7d  %-5s  %8s  %8s  %8s\n' "$program" "$threads" "$load" "$(ratio 1)" "$(ratio 2)" "$(ratio 3)"
        done
        if [[ $load == busy ]]; then kill "${busy[@]}"; wait "${busy[@]}" 2>/dev/null || true; busy=(); fi
    done
done
