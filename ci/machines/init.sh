# The first process of a guest: see boot.sh, which sets `bare` and the arguments.
/bin/busybox mkdir -p /usr/bin /usr/sbin /sbin
/bin/busybox --install -s
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/
mount -t devtmpfs none /dev 2>/dev/null
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
mount -t proc none /proc
ifconfig lo 127.0.0.1 up
up=$(cut -d' ' -f1 /proc/uptime)
echo # ends what the firmware has written
if [ -n "$bare" ]; then
    umount /proc
    mount -o remount,ro / && ! touch /file 2>/dev/null && echo "guest: no /proc, no /sys, the root is read-only"
else
    mount -t sysfs none /sys
    mount -t cgroup2 none /sys/fs/cgroup
fi
echo "guest: $(uname -rm), $(nproc) CPUs, up after $up s"
cd /tmp
# Through a pipe: the console is no terminal then.
{ sh /script "$@" </dev/null 2>&1; echo $? >/tmp/status; } | cat
echo "guest: ended with $(cat /tmp/status)"
sync
poweroff -f
