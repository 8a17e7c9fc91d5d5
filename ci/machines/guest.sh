# Runs in a guest, in busybox's shell: steps, each a function below. Exits with 0, with 1 if a step failed, and with
# 77 if a torture did too little to conclude anything.
#
# usage: guest.sh STEP...   arguments of a step follow it after colons: torture:30
export RUST_BACKTRACE=0 STILLPOINT_TEST_TIME_FACTOR=20 PROPTEST_CASES=8
status=0

seconds() { cut -d' ' -f1 /proc/uptime 2>/dev/null || date +%s; }

# passes LIMIT NAME COMMAND...: the command succeeds within LIMIT seconds. Prints what it says of its verdict.
passes() {
    local limit=$1 name=$2 begin result verdict
    shift 2
    begin=$(seconds)
    timeout -s KILL "$limit" "$@" >/tmp/log 2>&1
    result=$?
    local took=$(echo "$(seconds) $begin" | awk '{ printf "%.1f", $1 - $2 }')
    case $result in
        0)
            verdict=$(grep -hE '^torture .*: passed|^test result' /tmp/log | tail -n 1 | cut -c 1-200)
            echo "ok      $name, $took s: $verdict"
            ;;
        77)
            echo "BUSY    $name, $took s: $(grep 'NOT CONCLUSIVE' /tmp/log | tail -n 1)"
            [ $status = 1 ] || status=77
            ;;
        *) echo "FAILED  $name, $took s: status $result"; grep -v ' ok$' /tmp/log | tail -n 40; status=1 ;;
    esac
}

# What the library chose here.
probe() { torture probe; }

# Each torture on each backend; SECONDS for all of them.
torture_all() {
    passes $(($1 * 3 + 60)) "torture all" torture all --seconds "$1"
    # The counts: a run that passes has done what it requires for each second.
    grep -E '^torture [a-z]+: passed' /tmp/log | sed 's/^torture/        torture/' | cut -c 1-150
}

# One torture.
torture_one() { passes $(($2 * 3 + 30)) "torture $1" torture "$1" --seconds "$2"; }

# The test programs, two tests at a time; without `all` only those parts that depend most on the machine. One test
# shows what happens without fences: emulated processors are too slow for that, and it does not end.
tests() {
    local program only limit=100
    for program in /bin/test-*; do
        only=
        case $1${program#/bin/test-} in
            all*) limit=1000 ;;
            lock) only=mutex:: ;;
            process) only=seccomp:: ;;
            rcu) only="grace_period:: guard::" ;;
            srcu) only=guard:: ;;
        esac
        passes $limit "${program#/bin/test-}" "$program" $only --test-threads=2 --skip without_fences_both_miss
    done
}

# Faults at every point of every section, with each registration and with the fallback; then single ones, and a
# control.
faults() {
    local environment test=faults_at_every_point_preserve_results
    for environment in UNUSED=1 GLIBC_TUNABLES=glibc.pthread.rseq=0 STILLPOINT_PERCPU=atomic; do
        passes 200 "faults, $environment" \
            env $environment STILLPOINT_TEST_CHILD=1 faults_percpu --nocapture --exact $test
        grep -o '504 combinations.*' /tmp/log || { echo "FAILED  faults: not all combinations"; status=1; }
    done
    passes 300 "faults, single ones" faults_percpu --nocapture --test-threads=1 --skip $test
    grep -E '^[a-z_]+: .*(left|lost|owners|twice|threads|torn|signal)' /tmp/log | sed 's/^/        unarmed: /'
    # As in the comments of the tests.
    refutes room-not-checked pool::full_stack_refuses
    refutes stop-not-checked pool::stopped_area_takes_nothing_until_it_is_reopened
    refutes committed-early $test
    # Detected only if the C library registers threads.
    if stillpoint probe | grep -q 'the C library registers each thread'; then
        refutes cpu-not-checked unregistered_thread_never_commits
        refutes interrupted-pop-finds-nothing pool::interrupted_pop_is_retried
    else
        echo "        not tried: cpu-not-checked, interrupted-pop-finds-nothing"
    fi
}

# refutes MUTANT TEST: the test detects a broken section.
refutes() {
    STILLPOINT_MUTANT=$1 timeout -s KILL 100 env STILLPOINT_TEST_CHILD=1 faults_percpu --exact "$2" >/tmp/log 2>&1
    case $? in
        0 | 137) echo "FAILED  $2 does not refute $1"; status=1 ;;
        *) echo "        refuted: $1" ;;
    esac
}

# Takes CPUs away and gives them back, all the time.
unplug_and_plug() {
    local cpu
    while :; do
        for cpu in 1 2 3 4 5 6 7; do
            echo 0 >/sys/devices/system/cpu/cpu$cpu/online && echo $cpu >>/tmp/taken
            sleep 0.05
        done
        for cpu in 7 6 5 4 3 2 1; do echo 1 >/sys/devices/system/cpu/cpu$cpu/online; done
        sleep 0.3
    done 2>/dev/null
}

# The tests of words on each CPU, and of what is made of them, with these options.
words() {
    echo "        possible CPUs: $(cat /sys/devices/system/cpu/possible)"
    set -- --test-threads=2 "$@"
    passes 300 percpu test-percpu "$@"
    passes 100 families test-family "$@"
    passes 200 "readers of locks" test-lock rwlock:: "$@"
    passes 200 "sleepable readers" test-srcu "$@"
}

# Tests and tortures while that happens.
hotplug() {
    local part pid
    unplug_and_plug &
    pid=$!
    # These bind threads to CPUs, which may be taken away.
    words --skip cpu_number_follows_the_thread --skip callbacks_of_a_migrating_thread
    for part in percpu rcu lock rwlock srcu qsbr map; do torture_one $part "$1"; done
    kill $pid
    local taken=$(wc -l </tmp/taken)
    echo "        a CPU was taken away $taken times"
    [ "$taken" -ge 20 ] || { echo "FAILED  hotplug: too few"; status=1; }
}

# confine FILE VALUE: makes a cgroup, and a command that runs others in it.
within=/tmp/within
confine() {
    printf '#!/bin/sh\necho 0 >/sys/fs/cgroup/confined/cgroup.procs && exec "$@"\n' >$within
    chmod +x $within
    echo "+cpu +cpuset" >/sys/fs/cgroup/cgroup.subtree_control
    mkdir -p /sys/fs/cgroup/confined && echo "$2" >/sys/fs/cgroup/confined/$1 || { echo "FAILED  no $1"; status=1; }
}

# On CPUs that the scheduler leaves alone, and without a tick.
isolated() {
    passes $(($1 * 3 + 30)) "torture rcu on CPUs 2 and 3" taskset c torture rcu --seconds "$1"
    passes $(($1 * 3 + 30)) "torture percpu on CPUs 2 and 3" taskset c torture percpu --seconds "$1"
}

# In a set of CPUs.
cpuset() {
    confine cpuset.cpus 1
    $within torture probe | grep -E '^cpus'
    passes $(($1 * 3 + 30)) "torture percpu in a cpuset" $within torture percpu --seconds "$1"
    passes $(($1 * 3 + 30)) "torture rcu in a cpuset" $within torture rcu --seconds "$1"
    echo 0-3 >/sys/fs/cgroup/confined/cpuset.cpus
}

# With a CPU quota: 60 ms of every 100.
quota() {
    confine cpu.max "60000 100000"
    for part in percpu rcu lock; do
        passes $(($1 * 3 + 30)) "torture $part with a quota" $within torture $part --seconds "$1"
    done
}

# Without rseq and membarrier.
denied() {
    local errno
    for errno in EPERM ENOSYS; do
        torture seccomp-deny --errno $errno rseq membarrier -- torture probe |
            grep -E '^(membarrier|rseq|percpu|fence) '
    done
    passes $(($1 * 3 + 60)) "torture all, denied" torture seccomp-deny rseq membarrier -- torture all --seconds "$1"
}

# Without /proc there is no `torture all`, which starts its own program.
bare() {
    local part
    for part in rcu qsbr srcu percpu lock; do torture_one $part "$1"; done
}

for step in "$@"; do
    arguments=$(echo "$step" | tr ':' ' ')
    $arguments
done
exit $status
