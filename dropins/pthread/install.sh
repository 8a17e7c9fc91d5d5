#!/usr/bin/env bash
# dropins/pthread/install.sh DIR: builds libstillpoint-pthread.so into DIR. For glibc.
#
# The shared library is linked from a static one and from `cond_wait.c`, because two functions have a second version
# for old programs. It exports the functions of the C library that it replaces, and nothing else. It is initialized
# before all other libraries (`-z initfirst`), so that in the child of a fork its handler is the first one.
set -euo pipefail
source "$(dirname "$0")/../install.sh"

"$cc" -std=gnu11 -O2 -Wall -Wextra -fPIC -c src/cond_wait.c -o "$scratch/cond_wait.o"
object stillpoint-pthread "$scratch/all.o" "$scratch/cond_wait.o"
nm --defined-only --extern-only "$scratch/all.o" | awk '$3 ~ /^(__)?pthread_/ { print $3 }' >"$scratch/exported"
objcopy --keep-global-symbols="$scratch/exported" "$scratch/all.o"
# Only condition variables have versions. A function without one is found under any.
printf '%s\n' 'GLIBC_2.2.5 { };' \
    'GLIBC_2.3.2 { global: pthread_cond_wait; pthread_cond_timedwait; pthread_cond_signal; pthread_cond_broadcast; pthread_cond_destroy; };' \
    >"$scratch/versions"
link "$dir/libstillpoint-pthread.so" "$scratch/versions" "$scratch/all.o" -Wl,--as-needed -Wl,-z,initfirst
usage "LD_PRELOAD=$dir/libstillpoint-pthread.so" "$dir/libstillpoint-pthread.so"
