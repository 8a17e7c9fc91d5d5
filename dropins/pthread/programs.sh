#!/usr/bin/env bash
# dropins/pthread/programs.sh LIBRARY [PROGRAM]...: runs programs of Debian with the C library's locks and with the
# library preloaded, in turns, and prints the ratios of the medians (library / C library): operations per second, CPU
# time an operation, and the 99.9th percentile of the latencies where the program measures it. All programs by
# default.
#
# Packages: kyotocabinet-utils rocksdb-tools sysbench stress-ng pbzip2 mariadb-server memcached libmemcached-tools
# (the load generator). What is not installed is left out. Variables: see dropins/programs.sh.
set -euo pipefail
(($# >= 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
chosen=("${@:2}")
source "$(dirname "$0")/../programs.sh" "$1"
columns=(rate CPU p99.9)

with() { LD_PRELOAD=$used "$@"; }
timed() { # timed OPERATIONS COMMAND...: the rate of a program that has so much to do
    local operations=$1 begin=$EPOCHREALTIME
    shift
    with client "$@" >"$scratch/output" 2>&1 || return
    awk -v n="$operations" -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { print n / (e - b), "-", "-" }'
}
kccachetest() { timed $((scale * 100000)) /usr/bin/kccachetest wicked -th "$1" -capcnt 10000 $((scale * 100000 / $1)); }
kctreetest() {
    rm -f "$scratch/tree.kct"
    timed $((scale * 20000)) /usr/bin/kctreetest wicked -th "$1" "$scratch/tree.kct" $((scale * 20000 / $1))
}
sysbench_mutex() {
    timed $((scale * 400000)) sysbench mutex --threads="$1" --mutex-num=1 --mutex-locks=$((scale * 400000 / $1)) --mutex-loops=100 run
}
sysbench_threads() {
    with client sysbench threads --threads="$1" --thread-locks=2 --thread-yields=10 --time=$((2 * scale)) --percentile=100 \
        run >"$scratch/output" || return
    awk '/total number of events/ { n = $NF } /total time:/ { t = $NF } END { print n / t, "-", "-" }' "$scratch/output"
}
stress_ng() {
    with client stress-ng --mutex 1 --mutex-procs "$(($1 < 64 ? $1 : 64))" --timeout $((2 * scale)) --metrics-brief \
        >"$scratch/output" 2>&1 || return
    awk '$4 == "mutex" { print $9, "-", "-"; exit }' "$scratch/output"
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
    with client /usr/bin/db_bench --benchmarks="$1" --threads="$2" --num=$((scale * 200000 / $2)) --histogram --use_existing_db=$existing \
        --db="$scratch/db$([[ $existing == 0 ]] || echo .read)" --disable_wal="$existing" >"$scratch/output" 2>&1 || return
    awk -v name="$1" '$1 == name { rate = $5 } /^Percentiles:/ && rate { print rate, "-", $9; exit }' "$scratch/output"
}
fillrandom() { db_bench fillrandom "$1"; }
readrandom() { db_bench readrandom "$1"; }
readwhilewriting() { db_bench readwhilewriting "$1"; }
oltp() { # oltp SCRIPT THREADS: the server has the library, its client has not
    local socket=$scratch/socket
    if [[ ! -d $scratch/data ]]; then
        mariadb-install-db --no-defaults --user=root --datadir="$scratch/data" --auth-root-authentication-method=normal >/dev/null 2>&1
    fi
    with start mariadbd --no-defaults --user=root --datadir="$scratch/data" --socket="$socket" --skip-networking \
        --max-connections=500 --innodb-flush-log-at-trx-commit=0
    ready mariadb-admin --no-defaults --user=root --socket="$socket" ping || return
    local bench=(sysbench "$1" --mysql-user=root --mysql-socket="$socket" --mysql-db=test --tables=2 --table-size=5000)
    mariadb --no-defaults --user=root --socket="$socket" -e 'create database if not exists test'
    [[ -f $scratch/prepared ]] || { "${bench[@]}" prepare >/dev/null && touch "$scratch/prepared"; }
    client "${bench[@]}" --threads="$2" --time=$((3 * scale)) --histogram run >"$scratch/output" || return
    awk '/events per second|transactions:/ { gsub(/[(]/, "", $3); rate = $3 }
        $2 == "|" || / \|/ { n += $NF; bin[++bins] = $1; total[bins] = n }
        END { for (i = 1; i <= bins; i++) if (total[i] >= 0.999 * n) { p = bin[i]; break } print rate, "-", p ? p : "-" }' "$scratch/output"
    stop
}
point_select() { oltp oltp_point_select "$1"; }
read_write() { oltp oltp_read_write "$1"; }

memcached() { # the server has the library; its load, nine reads to a write, has not
    local clients=$((4 * $1 < 16 * cpus ? 16 * cpus : 4 * $1)) before cpu
    with start /usr/bin/memcached -u "$(id -un)" -l 127.0.0.1 -p "$port" -U 0 -t "$1" -m 256 -c 4096
    ready is_open "$port" || return
    before=$(server_seconds)
    client "$generator" -s "127.0.0.1:$port" -T "$cpus" -c "$clients" -w 1k -X 100 -S 1s -t $((3 * scale))s \
        >"$scratch/output" 2>&1 || return
    cpu=$(server_seconds)
    stop || return
    # The generator counts latencies between powers of two of a microsecond. The percentile is interpolated.
    awk -v cpu="$cpu" -v before="$before" '
        /^Total Statistics [(]/ { total = 1 }
        total && /^ +[0-9]+:/ { for (i = 2; i <= NF; i++) { n += $i; bin[++bins] = $1 + i - 2; sum[bins] = n; in_bin[bins] = $i } }
        /^cmd_get:/ { total = 0 }
        /^Run time:/ {
            for (i = 1; i < bins && sum[i] < 0.999 * n; i++);
            p = n ? 2 ^ (bin[i] - (sum[i] - 0.999 * n) / in_bin[i]) : "-"
            for (i = 1; i <= NF; i++) { if ($i == "Ops:") ops = $(i + 1); if ($i == "TPS:") rate = $(i + 1) }
            if (ops > 0) print rate, (cpu - before) / ops, p
        }' "$scratch/output"
}
generator=$(command -v memcaslap || command -v memaslap || echo memcaslap) # the name differs between versions

programs=(kccachetest kctreetest fillrandom readrandom readwhilewriting sysbench_mutex sysbench_threads stress_ng pbzip2
    point_select read_write memcached)
needs=([fillrandom]=db_bench [readrandom]=db_bench [readwhilewriting]=db_bench [sysbench_mutex]=sysbench
    [sysbench_threads]=sysbench [stress_ng]=stress-ng [point_select]=mariadbd [read_write]=mariadbd
    [memcached]="/usr/bin/memcached $generator")
((${#chosen[@]})) || chosen=("${programs[@]}")
measure "${chosen[@]}"
