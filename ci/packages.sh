#!/usr/bin/env bash
# The Debian packages: builds them, installs them in a clean system of the same release, and uses each there. Needs
# root, debhelper, help2man, lintian, mmdebstrap (which downloads 100 MB, once), which `ci/setup.sh release` installs,
# and what ci/packaging/deb.sh needs. Ten minutes, so it is no part of .ci/run. DEBS=DIR takes packages that are built
# already.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

((EUID == 0)) || cannot "only root may change the root of a process"
for tool in dpkg-buildpackage dh help2man lintian mmdebstrap; do
    command -v $tool >/dev/null || cannot "there is no $tool"
done

debs=${DEBS:-$PWD/target/packages}
if [[ ! ${DEBS-} ]]; then
    rm -rf "$debs"
    ci/packaging/deb.sh "$debs"
fi
lintian --fail-on error "$debs"/*.deb
for deb in "$debs"/*.deb; do echo "${deb##*/}: $(dpkg-deb --field "$deb" Depends)"; done

echo "-- a clean system"
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
clean=$PWD/target/$release.tar
include=gcc,libc6-dev,pkg-config,cmake,make,liburcu-dev,xfsprogs
[[ -f $clean ]] || mmdebstrap --quiet --variant=minbase --include=$include "$release" "$clean"
root=$scratch/root
mkdir "$root"
tar --extract --file "$clean" --directory "$root"
mkdir "$root/debs" "$root/work"
cp "$debs"/*.deb "$root/debs/"

# inside SHELL-COMMAND: runs it there, with processes of its own.
inside() {
    unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" sh -euc "cd /work; export LC_ALL=C; $1" ||
        fail "$1"
}
# dpkg downloads nothing, and fails if a dependency is missing.
inside "dpkg --install /debs/*.deb >log 2>&1 || { cat log; exit 1; }"
echo "installed: $(inside "dpkg-query --show --showformat='\${Package} \${Version}, ' '*stillpoint*'")"

echo "-- libstillpoint-dev"
cp bindings/c/examples/*.c "$root/work/"
for program in config tour list; do
    inside "gcc -Wall $program.c \$(pkg-config --cflags --libs stillpoint) -pthread -o $program && ./$program"
done
inside "ldd ./config | grep libstillpoint.so.0.2"
inside "gcc config.c \$(pkg-config --cflags stillpoint) -l:libstillpoint.a \$(sed -n 's/^Libs.private: //p' /usr/lib/*/pkgconfig/stillpoint.pc) -pthread -o static && ./static"
cat >"$root/work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.13)
project(program C)
find_package(stillpoint 0.2 REQUIRED)
add_executable(program config.c)
target_link_libraries(program stillpoint::stillpoint)
END
inside "cmake -S . -B built >log && cmake --build built >log && built/program"

echo "-- stillpoint-urcu"
# Compiled with liburcu's headers, and a program of the distribution; neither knows of stillpoint.
cp dropins/liburcu/tests/*.[ch] "$root/work/"
for flavor in memb mb qsbr bp; do
    inside "gcc -O2 -D${flavor^^} -D_LGPL_SOURCE torture.c -lurcu-$flavor -lurcu-common -pthread -ldl -o torture-$flavor"
    inside "stillpoint-urcu ldd torture-$flavor | grep --quiet '/stillpoint-urcu/liburcu-$flavor'"
    inside "! ldd torture-$flavor | grep stillpoint"
    inside "stillpoint-urcu ./torture-$flavor all 300"
done
inside "stillpoint-urcu ldd /sbin/xfs_repair | grep stillpoint-urcu"
inside "/sbin/mkfs.xfs -q -d file,name=image,size=320m && stillpoint-urcu /sbin/xfs_repair -f image >log 2>&1 && tail -n 1 log"
inside "stillpoint-urcu --help | grep --quiet PROGRAM && test \$(stillpoint-urcu --folder) = /usr/lib/$(uname -m)-linux-gnu/stillpoint-urcu"
inside "! stillpoint-urcu 2>/dev/null && ! stillpoint-urcu no-such-program 2>/dev/null"

echo "-- stillpoint-pthread"
cp dropins/pthread/tests/*.c "$root/work/"
inside "gcc -O2 -shared -fPIC worker.c -o libworker.so && gcc -O2 api.c ./libworker.so -pthread -o locks && stillpoint-pthread grep --quiet stillpoint-pthread /proc/self/maps"
inside "for test in \$(./locks); do ours=1 stillpoint-pthread ./locks \$test || exit; done"

echo "-- stillpoint-lab"
inside "stillpoint probe"
inside "stillpoint demo --help >/dev/null && stillpoint-torture --help >/dev/null"
inside "stillpoint-torture rcu --seconds 2 >log 2>&1 || { cat log; exit 1; }; tail -n 1 log"
# One part of the claims. Whether they hold is not asked: the machine may be busy.
inside "stillpoint claims --only read >log 2>&1 || true; grep -E 'holds here|does not hold here|in doubt' log"

echo "-- removed"
inside "dpkg --purge libstillpoint-dev libstillpoint0.2 stillpoint-lab stillpoint-pthread stillpoint-urcu >log 2>&1 && ! ls -d /usr/lib/*/*stillpoint* /usr/bin/stillpoint* /usr/include/stillpoint* 2>/dev/null"
echo "passed, $SECONDS s"
