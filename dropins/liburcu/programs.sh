#!/usr/bin/env bash
# dropins/liburcu/programs.sh DIR [knot|bind9]...: runs name servers of Debian with liburcu and with the libraries of
# the folder, in turns, while their zones are updated, and prints the ratios of the medians (the folder's / liburcu):
# answers per second, CPU time of the server for an answer, the 99.9th percentile of the latencies, the server's peak
# memory, updates per second. Both by default.
#
# Four zones of 10000 names; dnsperf keeps 100 queries or more under way; a client updates one name after another, at
# most 200 a second, each with a transaction of its own.
#
# Packages: dnsperf knot-dnsutils (the update client), and knot; bind9 from Debian 13 on, as Debian 12's BIND 9.18 is
# not linked with liburcu. Where BIND is not installed, or is that one, the unpacked one of Debian 13 is used that
# ci/urcu.sh downloads (BIND_ROOT: another folder). What there is not is left out. Variables: see dropins/programs.sh.
set -euo pipefail
(($# >= 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
chosen=("${@:2}")
here=$(realpath "$(dirname "$0")")
source "$here/../programs.sh" "$1"
columns=(rate CPU p99.9 memory updates)

zones=4 names=10000
home=$scratch/home
for ((i = 0; i < zones; i++)); do
    awk -v n=$names 'BEGIN {
        print "$TTL 60\n@ SOA ns.example. admin.example. 1 60 60 60 60\n@ NS ns.example."
        for (i = 0; i < n; i++) print "n" i " A 127.0.0.1" }' >"$scratch/z$i.zone"
done
awk -v z=$zones -v n=$names 'BEGIN {
    srand(1)
    for (i = 0; i < n; i++) print "n" int(rand() * n) ".z" int(rand() * z) ".example. A" }' >"$scratch/queries"

# A folder with the zones as they were at first.
new_home() {
    rm -rf "$home"
    mkdir "$home"
    cp "$scratch"/z*.zone "$home"
}

ask() { kdig "@127.0.0.1" -p "$port" +short +timeout=2 +retry=5 "$@"; }
# serials: their sum, which each update increments.
serials() {
    local i questions=()
    for ((i = 0; i < zones; i++)); do questions+=("z$i.example." SOA); done
    ask "${questions[@]}" | awk -v z=$zones '{ sum += $3; n++ } END { if (n != z) exit 1; print sum }'
}

# update: starts a client that updates zones until it is killed.
update() {
    rm -f "$scratch"/{updates,never}
    mkfifo "$scratch"/{updates,never}
    knsupdate -v "$scratch/updates" >"$scratch/refused" 2>&1 &
    helpers+=($!)
    (
        exec {never}<>"$scratch/never"
        for ((i = 0; ; i++)); do
            zone=z$((i % zones)).example. name=n$((i / zones % names))
            printf '%s\n' "server 127.0.0.1 $port" "zone $zone" "update delete $name.$zone A" \
                "update add $name.$zone 60 A 127.0.1.$((i / zones / names % 250))" send
            read -r -t 0.005 -u "$never" || true
        done >"$scratch/updates"
    ) &
    helpers+=($!)
}

# runs_on_it: the server has loaded its flavor of liburcu from the folder, or from elsewhere.
runs_on_it() {
    local loaded all expected=0
    loaded=$(grep -oE '/[^ ]*/liburcu(-memb|-qsbr|-mb|-bp)?[.]so[^ ]*' "/proc/$server/maps" | sort -u)
    all=$(wc -l <<<"$loaded")
    [[ ! $used ]] || expected=$all
    if [[ ! $loaded ]] || (($(grep -c "^$replacement/" <<<"$loaded") != expected)); then
        echo "the server has loaded ${loaded:-no liburcu}" >"$scratch/output"
        return 1
    fi
}

# serve THREADS: asks and updates the server that has been started, and prints its figures.
serve() {
    local clients=$((2 * $1 < 16 ? 16 : 2 * $1)) before cpu updates peak
    ready is_open "$port" && ready serials && runs_on_it || return
    update
    updates=$(serials) || return
    before=$(server_seconds)
    client dnsperf -s 127.0.0.1 -p "$port" -d "$scratch/queries" -l $((3 * scale)) -T 1 -c "$clients" \
        -q $((clients < 100 ? 100 : clients)) -v >"$scratch/output" 2>&1 || return
    cpu=$(server_seconds)
    updates=$(($(serials) - updates)) || return
    peak=$(server_peak)
    end helpers
    stop || return
    if [[ -s $scratch/refused ]] || ((updates <= 0)); then
        { echo "$updates updates"; cat "$scratch/refused"; } >"$scratch/output"
        return 1
    fi
    # A line for each query: its code and the latency, or T if there was no answer in 5 s. Resolution 1 us.
    awk -v cpu="$cpu" -v before="$before" -v peak="$peak" -v updates="$updates" '
        $1 == ">" && $2 == "NOERROR" { t = int($NF * 1e6); count[t]++; n++; if (t > max) max = t }
        $1 == ">" && $2 == "T" { lost++ }
        $1 == ">" && $2 != "T" && $2 != "NOERROR" { wrong++ }
        /Run time/ { seconds = $NF }
        END {
            for (t = 0; t <= max && sum + count[t] < 0.999 * (n + lost); t++) sum += count[t]
            if (t > max) t = 5e6
            if (n && !wrong) print n / seconds, (cpu - before) / n, t, peak, updates / seconds
        }' "$scratch/output"
}

knot() { # knot THREADS, each of which has a socket
    local i
    new_home
    {
        cat <<END
server:
    rundir: "$home"
    listen: 127.0.0.1@$port
    udp-workers: $1
    tcp-workers: 1
    background-workers: 2
database:
    storage: "$home"
acl:
  - id: update
    address: 127.0.0.1
    action: update
template:
  - id: default
    storage: "$home"
    acl: update
    zonefile-load: whole
    zonefile-sync: -1
    journal-content: none
log:
  - target: stderr
    any: error
zone:
END
        for ((i = 0; i < zones; i++)); do printf '  - domain: z%d.example.\n    file: z%d.zone\n' $i $i; done
    } >"$home/knot.conf"
    LD_LIBRARY_PATH=$used start knotd -c "$home/knot.conf"
    serve "$1"
}

bind9() {
    local i
    new_home
    {
        cat <<END
options { directory "$home"; listen-on port $port { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none;
    recursion no; dnssec-validation no; session-keyfile none; };
logging { category default { default_stderr; }; category update { null; }; category update-security { null; }; };
controls { };
END
        for ((i = 0; i < zones; i++)); do
            printf 'zone "z%d.example" { type primary; file "z%d.zone"; allow-update { 127.0.0.1; }; };\n' $i $i
        done
    } >"$home/named.conf"
    if [[ $bind_root ]]; then
        start "$bind_root/usr/lib64/ld-linux-x86-64.so.2" --library-path \
            "${used:+$used:}$bind_root/usr/lib/x86_64-linux-gnu:$bind_root/lib/x86_64-linux-gnu" \
            "$bind_root/usr/sbin/named" -g -n "$1" -c "$home/named.conf"
    else
        LD_LIBRARY_PATH=$used start named -g -n "$1" -c "$home/named.conf"
    fi
    serve "$1"
}
# An installed BIND that is linked with liburcu is preferred.
bind_root=''
if ! ldd "$(command -v named || echo named)" 2>/dev/null | grep -q liburcu; then
    bind_root=${BIND_ROOT:-$here/../../target/urcu-checks/next/root}
fi

needs=([knot]="knotd knsupdate kdig dnsperf" [bind9]="${bind_root:+$bind_root/usr/sbin/}named knsupdate kdig dnsperf")
((${#chosen[@]})) || chosen=(knot bind9)
measure "${chosen[@]}"
