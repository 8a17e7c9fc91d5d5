# Programs of the distribution on the libraries, unmodified, with the oracle of `audit.c` preloaded. Sourced by
# ci/urcu.sh, which sets `lib` (the folder of the libraries), `bin` (of the test programs), `scratch`, and defines
# `fail`.

machine=$(gcc -print-multiarch)
client=$PWD/target/urcu-checks/clients   # packages, unpacked: their daemons must not be started by the installation
folders=$client/root/usr/lib/$machine:$client/root/lib/$machine:$client/root/lib:$client/root/usr/lib/ganesha
next=$PWD/target/urcu-checks/next        # the same from Debian's next release, with its own C library
port=$((20000 + $$ % 20000))

# unpack ROOT DEBS: unpacks all packages of the folder.
unpack() {
    local deb
    mkdir -p "$1"
    for deb in "$2"/*.deb; do dpkg -x "$deb" "$1" || return; done
}

# The packages, and those of their dependencies that are not installed, are downloaded and unpacked.
get_clients() {
    local packages=(knot xfsprogs lttng-tools liblttng-ust1 gdnsd glusterfs-server multipath-tools nfs-ganesha nfs-ganesha-mem)
    [[ $(cat "$client/complete" 2>/dev/null) != "${packages[*]}" ]] || return 0
    mkdir -p "$client/debs/partial"
    apt-get install --yes --quiet --download-only --no-install-recommends -o Debug::NoLocking=1 \
        -o Dir::Cache::archives="$client/debs" "${packages[@]}" >"$scratch/apt" 2>&1 &&
        unpack "$client/root" "$client/debs" && echo "${packages[*]}" >"$client/complete"
}

# BIND 9.20, with everything it needs down to the C library.
get_next() {
    [[ ! -e $next/complete ]] || return 0
    local options=(-o Dir::Etc::sourcelist="$next/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$next/lists" -o Dir::State::status="$next/status" -o Dir::Cache="$next/cache"
        -o Dir::Cache::archives="$next/debs" -o Debug::NoLocking=1 -o Acquire::Languages=none
        -o APT::Architecture=amd64)
    mkdir -p "$next"/{lists,debs,cache}/partial
    : >"$next/status"
    echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main' \
        >"$next/sources.list"
    apt-get "${options[@]}" update --quiet >"$scratch/apt" 2>&1 &&
        apt-get "${options[@]}" install --yes --quiet --download-only --no-install-recommends bind9 \
            >>"$scratch/apt" 2>&1 &&
        unpack "$next/root" "$next/debs" && touch "$next/complete"
}

# Where the programs and the libraries are: ours first.
found=(LD_LIBRARY_PATH="$lib:$folders" PATH="$client/root/usr/sbin:$client/root/usr/bin:$client/root/sbin:$PATH")

# plain COMMAND...: without the oracle, 100 s at most. Runs a program, not the function of the same name.
plain() {
    timeout --kill-after=1 100 env "${found[@]}" "$@"
}

# launch FLAVOR COMMAND...: becomes the command, with the oracle.
launch() {
    exec env LD_PRELOAD="$bin/audit-$1.so" "${found[@]}" "${@:2}"
}

# audited FLAVOR COMMAND...: with the oracle, 100 s at most.
audited() {
    (launch "$1" timeout --kill-after=1 100 "${@:2}")
}

# attempts PROCESS COMMAND...: repeats the command until it succeeds, while the process lives, 100 s at most.
attempts() {
    local i
    for ((i = 0; i < 1000; i++)); do
        "${@:2}" >/dev/null 2>&1 && return
        kill -0 "$1" 2>/dev/null || return
        sleep 0.1
    done
    return 1
}

# left: prints the processes that the client has started, and that are still there.
left() {
    grep --files-with-matches --null-data --line-regexp --fixed-strings "AUDIT_FILE=$scratch/audit" \
        /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 || true
}

none_left() {
    [[ ! $(left) ]]
}

end_left() {
    kill -KILL $(left) 2>/dev/null || true
}
trap 'end_left; rm -r "$scratch"' EXIT

# end PROCESS: asks it to end, waits, and fails if it crashes.
end() {
    local i status=0
    kill -TERM "$1" 2>/dev/null || true
    for ((i = 0; i < 1000; i++)); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" || status=$?
    # Some daemons end by the signal, or with its number.
    ((status == 0 || status == 15 || status == 143))
}

write_zone() {
    local i=$1
    printf '%s\n' '$TTL 60' "@ SOA ns.example. admin.example. $i 60 60 60 60" "@ NS ns.example." "ns A 127.0.0.1" \
        "text TXT \"v$i-v$i-v$i-v$i-\"" >"$home/example.zone"
}

knot() {
    local i daemon asking
    write_zone 1
    cat >"$home/knot.conf" <<END
server:
    rundir: "$home"
    listen: 127.0.0.1@$port
    udp-workers: 2
    tcp-workers: 1
    background-workers: 1
database:
    storage: "$home"
zone:
  - domain: example.
    storage: "$home"
    file: "example.zone"
    zonefile-load: whole
log:
  - target: stderr
    any: warning
END
    launch memb knotd -c "$home/knot.conf" &
    daemon=$!
    attempts "$daemon" plain knotc -c "$home/knot.conf" status || return
    python3 dropins/liburcu/tests/ask.py "$port" "$home/stop" text.example >"$home/answers" &
    asking=$!
    for ((i = 2; i <= 25; i++)); do
        write_zone "$i"
        plain knotc -b -c "$home/knot.conf" zone-reload example. || return
        ((i % 5)) || plain knotc -b -c "$home/knot.conf" reload || return
    done >/dev/null
    touch "$home/stop"
    wait "$asking" && (($(<"$home/answers") > 100)) && end "$daemon"
}

# The file system must be sound: written by mkfs.xfs, read by xfs_db, repaired after damage.
xfs() {
    local image=$home/image
    export AUDIT_BARRIER=1
    truncate -s 320M "$image"
    audited memb mkfs.xfs -q -f "$image" &&
        audited memb xfs_repair -n "$image" >"$home/log" 2>&1 &&
        audited memb xfs_db -x -c 'sb 0' -c 'write -d icount 77' "$image" >/dev/null &&
        ! audited memb xfs_repair -n "$image" >/dev/null 2>&1 &&
        audited memb xfs_repair "$image" >"$home/log" 2>&1 &&
        audited memb xfs_repair -n "$image" >"$home/log" 2>&1 &&
        audited memb xfs_db -c 'sb 0' -c 'print icount' "$image" | grep --quiet 'icount = 64'
}

# traced COMMAND...: a program whose memory allocations are events. It waits until it is registered.
traced() {
    plain env LTTNG_UST_REGISTER_TIMEOUT=-1 LD_PRELOAD=liblttng-ust-libc-wrapper.so.1 "$@"
}

lttng() {
    local i daemon
    export LTTNG_HOME=$home LTTNG_SESSION_CONFIG_XSD_PATH=$client/root/usr/share/xml/lttng
    # The daemon puts a folder of its own before LD_LIBRARY_PATH for its consumer.
    launch memb lttng-sessiond --no-kernel --consumerd64-libdir="$lib" \
        --consumerd64-path="$client/root/usr/lib/$machine/lttng/libexec/lttng-consumerd" >"$home/log" 2>&1 &
    daemon=$!
    attempts "$daemon" plain lttng --no-sessiond list || return
    for ((i = 0; i < 8; i++)); do
        plain lttng --no-sessiond create "s$i" --output="$home/trace$i" &&
            plain lttng --no-sessiond enable-channel --userspace c --session "s$i" &&
            plain lttng --no-sessiond enable-event --userspace -a --channel c --session "s$i" &&
            plain lttng --no-sessiond start "s$i" && traced ls / && traced ls / &&
            plain lttng --no-sessiond stop "s$i" && [[ $(find "$home/trace$i" -name 'c_*' -size +0) ]] || return
    done >/dev/null
    (($(plain lttng --no-sessiond list | grep --count 'inactive') == 8)) || return
    for ((i = 0; i < 8; i++)); do plain lttng --no-sessiond destroy "s$i" || return; done >/dev/null
    end "$daemon"
}

gdnsd() {
    local i daemon asking
    mkdir -p "$home/zones" "$home/run" "$home/state"
    cat >"$home/config" <<END
options => { listen => 127.0.0.1, dns_port => $port, run_dir => $home/run, state_dir => $home/state,
    udp_threads => 2, tcp_threads => 1 }
END
    write_zone 1
    cp "$home/example.zone" "$home/zones/example"
    launch qsbr gdnsd -c "$home" start >"$home/log" 2>&1 &
    daemon=$!
    attempts "$daemon" plain gdnsdctl -c "$home" status || return
    python3 dropins/liburcu/tests/ask.py "$port" "$home/stop" text.example >"$home/answers" &
    asking=$!
    for ((i = 2; i <= 25; i++)); do
        write_zone "$i"
        cp "$home/example.zone" "$home/zones/example"
        plain gdnsdctl -c "$home" reload-zones || return
    done >/dev/null 2>&1
    touch "$home/stop"
    wait "$asking" && (($(<"$home/answers") > 100)) && end "$daemon"
}

bind() {
    local i daemon asking
    write_zone 1
    cat >"$home/named.conf" <<END
options { directory "$home"; listen-on port $port { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none;
    recursion no; dnssec-validation no; session-keyfile none; };
controls { };
zone "example" { type primary; file "example.zone"; };
END
    local paths=$lib:$next/root/usr/lib/x86_64-linux-gnu:$next/root/lib/x86_64-linux-gnu
    "$next/root/usr/lib64/ld-linux-x86-64.so.2" \
        --library-path "$paths" --preload "$bin/audit-memb.so" \
        "$next/root/usr/sbin/named" -g -n 2 -c "$home/named.conf" >"$home/log" 2>&1 &
    daemon=$!
    python3 dropins/liburcu/tests/ask.py "$port" "$home/stop" text.example >"$home/answers" &
    asking=$!
    attempts "$daemon" grep --quiet ' all zones loaded$' "$home/log" || return
    for ((i = 2; i <= 15; i++)); do
        write_zone "$i"
        kill -HUP "$daemon"
        sleep 0.1
    done
    touch "$home/stop"
    wait "$asking" && (($(<"$home/answers") > 100)) && end "$daemon"
}

ask_gluster() {
    plain gluster --mode=script --log-file="$home/cli.log" --glusterd-sock="$home/socket" "$@"
}

# The plugin of glusterd loads liburcu-bp. It frees a peer by a callback when a probe fails, as there is no network.
# Without the options for keepalive, glusterd does not answer.
gluster() {
    local i daemon status
    mkdir -p "$home/work" "$home/run"
    cat >"$home/glusterd.vol" <<END
volume management
    type mgmt/glusterd
    option working-directory $home/work
    option run-directory $home/run
    option glusterd-sockfile $home/socket
    option transport-type socket
    option transport.socket.listen-port $port
    option transport.socket.keepalive-time 10
    option transport.socket.keepalive-interval 2
    option event-threads 1
end-volume
END
    launch bp unshare --net glusterd --no-daemon --volfile="$home/glusterd.vol" --log-file="$home/log" \
        --pid-file="$home/pid" --socket-file="$home/management" &
    daemon=$!
    attempts "$daemon" ask_gluster volume list || return
    for ((i = 1; i <= 10; i++)); do
        status=0
        ask_gluster peer probe 192.0.2.$i || status=$?
        ((status == 1)) || return
        ask_gluster peer status | grep --quiet 'Number of Peers: 0' || return
    done >/dev/null
    end "$daemon"
}

# The daemon of multipath devices, which reads its configuration again and again. It ends by itself, with the status 1, where
# the kernel has no device mapper.
multipath() {
    local i daemon status=0
    # Of the namespace: it must not touch a device.
    echo 'blacklist { devnode ".*" }' >/etc/multipath.conf
    launch memb multipathd -d -s -v1 >"$home/log" 2>&1 &
    daemon=$!
    attempts "$daemon" plain multipathd show config || true
    for ((i = 0; i < 20; i++)); do plain multipathd reconfigure || break; done >/dev/null 2>&1
    kill -TERM "$daemon" 2>/dev/null || true
    wait "$daemon" || status=$?
    ((status == 0 || status == 1 || status == 143))
}

# An NFS server whose files are in memory, and whose exports change.
ganesha() {
    local i daemon
    write_exports() {
        cat >"$home/config" <<END
NFS_CORE_PARAM { Protocols = 4; NFS_Port = $port; Enable_UDP = false; Enable_NLM = false; Enable_RQUOTA = false; }
NFSv4 { Graceless = true; RecoveryBackend = fs; RecoveryRoot = "$home"; }
EXPORT { Export_ID = 1; Path = "/x"; Pseudo = "/x"; Access_Type = $1; SecType = sys; FSAL { Name = MEM; } }
END
    }
    write_exports RW
    launch bp ganesha.nfsd -F -L "$home/log" -f "$home/config" -p "$home/pid" -N EVENT &
    daemon=$!
    attempts "$daemon" grep --quiet 'NFS SERVER INITIALIZED' "$home/log" || return
    for ((i = 0; i < 5; i++)); do
        write_exports $( ((i % 2)) && echo RW || echo RO)
        kill -HUP "$daemon"
        sleep 0.3
    done
    end "$daemon"
}

# Folders of the system that daemons write to or load plugins from, as private ones. `ci/urcu.sh` has a mount
# namespace.
private_folders() {
    mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/log && mount -t tmpfs tmpfs /dev/shm &&
        mkdir /run/etc /run/work && mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/work /etc &&
        mount -t overlay overlay -o "lowerdir=$client/root/lib:/usr/lib" /usr/lib &&
        mount -t overlay overlay -o "lowerdir=$client/root/usr/lib/$machine:/usr/lib/$machine" "/usr/lib/$machine"
}

# check_client NAME: the oracle must find nothing, and must find it in a library without grace periods.
check_client() {
    local name=$1 broken status counts grace_periods occupied early before=$SECONDS
    for broken in "" 1; do
        home=$scratch/$name$broken
        mkdir -p "$home"
        rm -f "$scratch/audit"
        truncate -s 24 "$scratch/audit"
        port=$((port + 1))
        if [[ $broken ]]; then export AUDIT_BROKEN=1; else unset AUDIT_BROKEN; fi
        status=0
        (export AUDIT_FILE="$scratch/audit" AUDIT_LIBRARIES="$lib/"; "$name") >"$scratch/log" 2>&1 || status=$?
        ((status != 0)) || attempts $$ none_left || { status="0, processes are left: $(left)"; }
        # Daemons of an attempt that failed do not outlive it.
        end_left
        read -r -d '' grace_periods occupied early < <(od -An -v -tu8 "$scratch/audit") || true
        if [[ ! $broken ]]; then
            if [[ $status != 0 ]]; then
                cat "$scratch/log" "$home/log" >&2 || true
                fail "$name: failed (status $status)"
            fi
            ((early == 0)) || fail "$name: $early of $grace_periods grace periods ended early"
            ((occupied > 0)) || fail "$name: no grace period of $grace_periods met a reader"
            counts=$grace_periods
        fi
    done
    unset AUDIT_BROKEN
    ((early > 0 && 10 * early > 9 * occupied)) ||
        fail "$name: without grace periods, $early of $occupied were found to end early"
    printf 'passed    %-44s %3d s (%d grace periods; without them %d of %d found)\n' "client $name" \
        $((SECONDS - before)) "$counts" "$early" "$occupied"
}
