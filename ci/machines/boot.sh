#!/usr/bin/env bash
# Boots a guest under emulation, runs a script in it, and exits as the script does (125: it did not end).
#
# usage: ci/machines/boot.sh KERNEL CPUS PROGRAMS SCRIPT [ARGUMENT...]
#   KERNEL a folder of ci/machines/kernel.sh, PROGRAMS a folder whose files are in the guest's /bin
#   TIMEOUT=300 (seconds in all)  MEMORY=1536 (MiB)  APPEND (kernel options)  QEMU (options of the emulator)
#   BARE=1 (no /proc, no /sys, the root is read-only)
set -euo pipefail
here=$(dirname "$0")
kernel=$1 cpus=$2 programs=$3 script=$4
shift 4
name=$(basename "$kernel")
root=$(mktemp -d)
trap 'rm -rf "$root" "$root".*' EXIT

# `no_timer_check`: on a busy host the interrupts of the timer come too late for that check.
append="quiet panic=-1"
case $name in
    x86_64-*) machine=(qemu-system-x86_64 -M q35 -cpu max) append+=" console=ttyS0 no_timer_check" cc=cc ;;
    # `pauth-impdef`: a cheaper algorithm for pointer authentication.
    aarch64-*)
        machine=(qemu-system-aarch64 -M "virt,gic-version=3" -cpu "max,pauth-impdef=on")
        append+=" console=ttyAMA0" cc=aarch64-linux-gnu-gcc
        ;;
    riscv64-*) machine=(qemu-system-riscv64 -M virt -cpu rv64) append+=" console=ttyS0" cc=riscv64-linux-gnu-gcc ;;
esac

mkdir -p "$root"/{bin,lib,proc,sys,dev,tmp}
ln -s lib "$root/lib64"
install -m 755 "$kernel/busybox" "$root/bin/busybox"
cp "$programs"/* "$root/bin"
# The C library that the programs were linked with.
loaders=(ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld-linux-riscv64-lp64d.so.1)
for library in "${loaders[@]}" libc.so.6 libm.so.6 libgcc_s.so.1; do
    path=$($cc -print-file-name=$library)
    [[ $path != /* ]] || cp -L "$path" "$root/lib"
done
cp "$script" "$root/script"
{
    echo "#!/bin/busybox sh"
    echo "bare=${BARE:-}"
    printf 'set --'
    printf ' "%s"' "$@"
    echo
    cat "$here/init.sh"
} >"$root/init"
chmod +x "$root/init"
(cd "$root" && find . -mindepth 1 | cpio --quiet -o -H newc) >"$root.cpio"

read -ra extra <<<"${QEMU:-}"
log=$root.log
# On a busy host a guest may hang while it boots: then once more.
for try in 1 2; do
    {
        sleep 60
        grep -q '^guest: ' "$log" || kill "$(cat "$root.pid")"
    } >/dev/null 2>&1 &
    watchdog=$!
    timeout --kill-after=10 "${TIMEOUT:-300}" "${machine[@]}" -accel tcg,thread=multi -smp "$cpus" \
        -m "${MEMORY:-1536}" -nographic -no-reboot -nic none -kernel "$kernel/vmlinuz" -initrd "$root.cpio" \
        -append "$append ${APPEND:-}" -pidfile "$root.pid" "${extra[@]}" </dev/null 2>&1 |
        sed -u 's/\r//g' | tee "$log" | sed -un '/^guest: /,$p' || true
    kill $watchdog 2>/dev/null || true
    ! grep -q '^guest: ' "$log" || break
    echo "the guest has not come up (attempt $try)" >&2
done
grep -q '^guest: ' "$log" || tail -n 20 "$log" >&2
status=$(sed -nE 's/^guest: ended with ([0-9]+).*/\1/p' "$log" | tail -n 1)
exit "${status:-125}"
