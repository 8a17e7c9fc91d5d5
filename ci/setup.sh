#!/usr/bin/env bash
# Installs what the other checks need and this machine lacks (Debian, Ubuntu; as root or with sudo).
set -euo pipefail

# Packages whose contents are not there. liburcu is a peer of the benches, objcopy prepares it, jq reads their reports;
# spin explores models; gdb and valgrind run per-CPU data where there is no rseq.
missing() {
    command -v cc >/dev/null || echo gcc
    command -v objcopy >/dev/null || echo binutils
    command -v jq >/dev/null || echo jq
    command -v spin >/dev/null || echo spin
    command -v gdb >/dev/null || echo gdb
    command -v valgrind >/dev/null || echo valgrind
    [[ -f $(cc -print-file-name=liburcu-memb.a 2>/dev/null) ]] || echo liburcu-dev
}

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

mapfile -t packages < <(missing)
if ((${#packages[@]} > 0)); then
    echo "installing ${packages[*]}"
    as_root apt-get update --quiet || echo "the package lists could not be updated" >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
        "${packages[@]}" || echo "apt-get could not install everything" >&2
fi
for component in fmt clippy; do
    cargo "$component" --version >/dev/null 2>&1 || rustup component add "${component/fmt/rustfmt}" ||
        echo "rustup could not add $component" >&2
done

failed=0
for package in $(missing); do
    echo "NOT INSTALLED: $package" >&2
    failed=1
done
for component in fmt clippy; do
    if ! cargo "$component" --version; then
        echo "NOT INSTALLED: cargo $component" >&2
        failed=1
    fi
done
exit "$failed"
