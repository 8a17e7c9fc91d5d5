#!/usr/bin/env bash
# Litmus tests of the orderings that this machine's processor keeps anyway: the axioms of ARMv8, RISC-V and x86-TSO
# reproduce the published verdicts, each clause of them is noticed, the library's protocols are right, and each
# ordering that is taken away is refuted. rustc emits the instructions that the tests assume. Takes seconds after the
# build.
#
#   ci/litmus.sh         checks
#   ci/litmus.sh record  writes lab/models/litmus/instructions.txt
#   ci/litmus.sh names   only compares names
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

folder=lab/models/litmus
# Functions and mutants that the tests name exist, and each ordering has a test, or is listed.
cited=$(sed -n 's/^Functions=//p' $folder/protocols/*.litmus | grep -oE '\b[A-Z][A-Za-z]+::[a-z_]+\b' | sort -u)
missing=$(comm -23 <(echo "$cited") <(places))
names=$(sed -n 's/^Variant=\([^ ]*\) |.*/\1/p' $folder/protocols/*.litmus | tr , '\n' | sort -u)
known=$({ refutes | cut -d' ' -f1 | tr + '\n'; sed -n 's/^\([^# ]*:[^ ]*\)  .*/\1/p' ci/mutants/unrefuted.txt; } | sort -u)
missing+=$(comm -23 <(echo "$names") <(echo "$known"))
diff $folder/untested.txt <(comm -13 <(echo "$names") <(grep : <<<"$known")) ||
    fail "orderings without a litmus test (>), or listed in $folder/untested.txt although they have one (<)"
[[ ! -s $folder/untested.txt ]] ||
    echo "NOT CHECKED: $(wc -l <$folder/untested.txt) orderings without a litmus test: $folder/untested.txt"
[[ -z $missing ]] || fail "litmus tests name what does not exist: $missing"
[[ ${1-} != names ]] || exit 0

cargo build --release --package stillpoint-litmus
litmus=${CARGO_TARGET_DIR:-target}/release/litmus

echo "-- published verdicts"
"$litmus" check $folder/published | tail -1
echo "-- each clause of the models"
"$litmus" clauses $folder/published
echo "-- protocols"
"$litmus" check $folder/protocols

# instructions NAME TARGET [OPTION...]: prints the instructions of each operation that access or order memory.
instructions() {
    local name=$1 target=$2
    shift 2
    rustc --edition 2024 -O --target "$target" "$@" --emit asm -o "$scratch/$target.s" $folder/instructions.rs
    awk -v target="$name" '
        /^[a-z_]+:$/ { name = $1; sub(/:$/, "", name); order[++count] = name; next }
        name == "" || /^\t\./ || /^\.L/ { next }
        /#MEMBARRIER/ { next } # a fence of the compiler
        $1 ~ /^(ld|st|sd|swp|cas|dmb|fence|amo|lr|sc|lock|xchg|mfence)/ || /\(%rdi\)/ {
            instruction = $1 ($1 ~ /^(fence|dmb)$/ ? " " $2 ($3 == "" ? "" : " " $3) : $1 == "lock" ? " " $2 : "")
            sub(/[$%].*/, "", instruction)
            text[name] = text[name] (text[name] == "" ? "" : "; ") instruction
        }
        END {
            for (i = 1; i <= count; i++) {
                found = text[order[i]]
                printf "%-12s %-24s %s\n", target, order[i], found == "" ? "nothing" : found
            }
        }
    ' "$scratch/$target.s" | sort
}
all_instructions() {
    instructions aarch64 aarch64-unknown-linux-gnu -C target-feature=+lse
    instructions aarch64+rcpc aarch64-unknown-linux-gnu -C target-feature=+lse,+rcpc | grep ' load_acquire '
    instructions riscv64 riscv64gc-unknown-linux-gnu
    instructions x86_64 x86_64-unknown-linux-gnu
}

echo "-- instructions"
all_instructions >"$scratch/instructions"
if [[ ${1-} == record ]]; then
    cp "$scratch/instructions" $folder/instructions.txt
fi
diff $folder/instructions.txt "$scratch/instructions" ||
    fail "rustc emits other instructions (>): check the tests, and run ci/litmus.sh record"
