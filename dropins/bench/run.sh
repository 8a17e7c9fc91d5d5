#!/usr/bin/env bash
# dropins/bench/run.sh [ROUNDS [SECONDS]]: crossbeam-skiplist on crossbeam-epoch, and on dropins/crossbeam-epoch.
# Prints the medians of CPU time for an operation and of peak memory, and the medians of the ratios within a round. On
# an idle machine; five minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
source ci/pin.sh
rounds=${1:-5} seconds=${2:-1}

scratch=$PWD/target/compat/bench
for variant in original stillpoint; do
    mkdir -p "$scratch/$variant"
    cat >"$scratch/$variant/Cargo.toml" <<END
[package]
name = "skiplist"
edition = "2024"
[[bin]]
name = "skiplist"
path = "$PWD/dropins/bench/skiplist.rs"
[dependencies]
crossbeam-skiplist = "0.1"
libc = "0.2"
[profile.release]
lto = "thin"
[workspace]
END
done
cat >>"$scratch/stillpoint/Cargo.toml" <<END
[patch.crates-io]
crossbeam-epoch = { path = "$PWD/dropins/crossbeam-epoch" }
END
for variant in original stillpoint; do
    pin "$scratch/$variant"
    cargo build --locked --quiet --release --manifest-path "$scratch/$variant/Cargo.toml" --target-dir "$scratch/$variant/target"
done

# OPERATION THREADS ROUND VARIANT OPERATIONS NANOSECONDS KIB
for operation in get insert insert-remove iterate; do
    for threads in 1 2 4 16; do
        for ((round = 0; round < rounds; round++)); do
            for variant in original stillpoint; do
                echo "$operation $threads $round $variant" \
                    "$("$scratch/$variant/target/release/skiplist" "$operation" "$threads" "$seconds")"
            done
        done
    done
done | awk '
    function median(list, n, i, j, t) {
        for (i = 2; i <= n; i++) {
            for (j = i; j > 1 && list[j] < list[j - 1]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
        }
        return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }
    BEGIN {
        print "| operation | threads | CPU, ns: crossbeam-epoch | stillpoint | ratio" \
            " | peak, MiB: crossbeam-epoch | stillpoint | ratio |"
        print "|---|--:|--:|--:|--:|--:|--:|--:|"
    }
    $4 == "original" { n++; before[n] = $6 / $5; memory[n] = $7 / 1024 }
    $4 == "stillpoint" {
        after[n] = $6 / $5; own[n] = $7 / 1024; ratio[n] = after[n] / before[n]; share[n] = own[n] / memory[n]
        if (n == '"$rounds"') {
            printf "| %s | %d | %.0f | %.0f | %.2fx | %.1f | %.1f | %.2fx |\n", $1, $2, median(before, n),
                median(after, n), median(ratio, n), median(memory, n), median(own, n), median(share, n)
            fflush(); n = 0
        }
    }'
