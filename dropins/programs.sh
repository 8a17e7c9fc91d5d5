# What dropins/pthread/programs.sh and dropins/liburcu/programs.sh share: programs of the distribution run with and
# without a replacement of one of their libraries, in turns, and the ratios of the medians (with / without) are
# printed.
#
# Sourced, with the replacement as the first argument. A program is a function that gets a number of threads and
# prints a value, or `-`, for each of `columns`: the first is the rate, the second the CPU time of an operation, where
# `-` stands for that of all processes that the function has waited for. In it, `used` is the replacement, or empty.
# `needs` has the commands of a program if there is more than one, or if its name is another.
#
# ROUNDS (5), FACTORS (threads a CPU: "1 4 32"), LOADS ("alone busy": beside as many busy loops as CPUs), SCALE (1: of
# the work). On a machine that does something else, the figures mean little.

replacement=$(realpath -e "$1")
rounds=${ROUNDS:-5} scale=${SCALE:-1}
cpus=$(nproc)
scratch=$(mktemp -d)
used='' server='' client=''
busy=() helpers=()
declare -A needs=()
cleanup() {
    end helpers
    end busy
    [[ ! $client ]] || kill "$client" 2>/dev/null || true
    [[ ! $server ]] || stop || true
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# end busy|helpers: ends these processes.
end() {
    local -n processes=$1
    ((${#processes[@]})) || return 0
    kill "${processes[@]}" 2>/dev/null || true
    wait "${processes[@]}" 2>/dev/null || true
    processes=()
}

# client COMMAND...: runs it. It does not outlive the script.
client() {
    local status=0
    "$@" &
    client=$!
    wait "$client" || status=$?
    client=
    return "$status"
}

# Servers: one at a time, its output in `$scratch/server`.

is_open() { (: >"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
# A port that nothing listens on.
port=$((20000 + $$ % 10000))
while is_open "$port"; do port=$((port + 1)); done

start() {
    "$@" >"$scratch/server" 2>&1 &
    server=$!
}
# ready COMMAND...: repeats the command until it succeeds, while the server lives.
ready() {
    until "$@" >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.1
    done
}
# stop: asks the server to end. Its CPU time then counts as that of a waited-for child.
stop() {
    local i status=0
    kill "$server" 2>/dev/null || true
    for ((i = 0; i < 600; i++)); do
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    if kill -KILL "$server" 2>/dev/null; then
        echo "the server does not end" >&2
        status=1
    fi
    wait "$server" 2>/dev/null || true
    server=
    return "$status"
}
# server_seconds: the CPU time of the server.
server_seconds() {
    sed 's/.*) //' "/proc/$server/stat" | awk -v ticks="$(getconf CLK_TCK)" '{ print ($12 + $13) / ticks }'
}
# server_peak: the most memory that the server had, in KiB.
server_peak() { awk '$1 == "VmHWM:" { print $2 }' "/proc/$server/status"; }

# Rounds.

# seconds: CPU time of the commands that have ended.
seconds() {
    times >"$scratch/times"
    awk 'NR == 2 { gsub(/m/, " "); gsub(/s/, ""); print $1 * 60 + $2 + $3 * 60 + $4 }' "$scratch/times" >"$1"
}
# once KIND PROGRAM THREADS: appends the values to the file of the kind.
once() {
    local begin end
    used=$([[ $1 == without ]] || echo "$replacement")
    seconds "$scratch/before"
    begin=$EPOCHREALTIME
    if ! "$2" "$3" >"$scratch/result" || [[ ! -s $scratch/result ]]; then
        echo "$2 fails ($1 the replacement)" >&2
        tail -n 3 "$scratch/output" "$scratch/server" >&2 2>/dev/null || true
        exit 1
    fi
    end=$EPOCHREALTIME
    seconds "$scratch/after"
    paste -d' ' "$scratch/before" "$scratch/after" "$scratch/result" | awk -v b="$begin" -v e="$end" \
        '{ if ($4 == "-") $4 = ($2 - $1) / $3 / (e - b); $1 = $2 = ""; print }' >>"$scratch/$1"
}
# ratio COLUMN: the ratio of the medians.
ratio() {
    local kind
    for kind in with without; do
        awk -v c="$1" '$c != "-" { print $c }' "$scratch/$kind" | sort -g |
            awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'
    done | paste -sd' ' | awk '{ if ($1 == "-" || $2 == "-" || $2 == 0) print "-"; else printf "%.2fx\n", $1 / $2 }'
}
# cell PROGRAM THREADS LOAD: a line of the table.
cell() {
    local round column
    rm -f "$scratch"/{with,without}
    for ((round = 0; round < rounds; round++)); do
        once without "$1" "$2"
        once with "$1" "$2"
    done
    printf '%-17s %7d  %-5s' "$@"
    for ((column = 1; column <= ${#columns[@]}; column++)); do printf '  %8s' "$(ratio "$column")"; done
    echo
}
is_installed() {
    local command
    for command in ${needs[$1]:-/usr/bin/$1}; do
        command -v "$command" >/dev/null || { echo "$1: $command is not installed"; return 1; }
    done
}
# measure PROGRAM...: prints the table.
measure() {
    local program load factor i
    printf '%-17s %7s  %-5s' program threads load
    printf '  %8s' "${columns[@]}"
    echo
    for program; do
        is_installed "$program" || continue
        for load in ${LOADS:-alone busy}; do
            if [[ $load == busy ]]; then
                for ((i = 0; i < cpus; i++)); do (while :; do :; done) & busy+=($!); done
            fi
            for factor in ${FACTORS:-1 4 32}; do cell "$program" $((factor * cpus)) "$load"; done
            end busy
        done
    done
}
