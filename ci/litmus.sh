#!/usr/bin/env bash
# Litmus tests of the orderings that this machine's processor keeps anyway: the axioms of ARMv8 and RISC-V reproduce the
# published verdicts, each clause of them is noticed, the library's protocols are right, and each ordering that is taken
# away is refuted. rustc emits the instructions that the tests assume. Takes seconds after the build.
#
#   ci/litmus.sh         checks
#   ci/litmus.sh record  writes models/litmus/instructions.txt and the table in docs/proof.md anew
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

folder=models/litmus
page=docs/proof.md
cargo build --release --package stillpoint-litmus
litmus=${CARGO_TARGET_DIR:-target}/release/litmus

echo "-- published verdicts"
"$litmus" check $folder/published | tail -1
echo "-- each clause of the models"
"$litmus" clauses $folder/published
echo "-- protocols"
"$litmus" check $folder/protocols

# instructions TARGET [OPTION...]: prints the instructions of each operation that access or order memory.
instructions() {
    local target=$1
    shift
    rustc --edition 2024 -O --target "$target" "$@" --emit asm -o "$scratch/$target.s" $folder/instructions.rs
    awk -v target="${target%%[-g]*}" '
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
                printf "%-9s %-34s %s\n", target, order[i], found == "" ? "nothing" : found
            }
        }
    ' "$scratch/$target.s" | sort
}
all_instructions() {
    instructions aarch64-unknown-linux-gnu -C target-feature=+lse,+rcpc
    instructions riscv64gc-unknown-linux-gnu
    instructions x86_64-unknown-linux-gnu
}

# The page with a new table.
with_table() {
    "$litmus" orderings $folder/protocols >"$scratch/table"
    awk -v table="$scratch/table" '
        /^<!-- End of litmus -->/ { inside = 0 }
        !inside { print }
        /^<!-- Litmus -->/ { inside = 1; print ""; while ((getline line <table) > 0) print line; print "" }' "$page"
}

echo "-- instructions, names"
all_instructions >"$scratch/instructions"
with_table >"$scratch/page"
if [[ ${1-} == record ]]; then
    cp "$scratch/instructions" $folder/instructions.txt
    cp "$scratch/page" "$page"
fi
diff $folder/instructions.txt "$scratch/instructions" ||
    { echo "rustc emits other instructions (>): check the tests, and run ci/litmus.sh record" >&2; exit 1; }
diff "$page" "$scratch/page" || { echo "$page lacks results (>): run ci/litmus.sh record" >&2; exit 1; }

# Functions and orderings that the tests name exist, and each ordering of the page has a test, or is listed.
faults=stillpoint/src/percpu/rseq/faults.rs
places=$(find stillpoint/src collections/src -name '*.rs' -not -path "$faults" -exec awk -f ci/places.awk "$faults" {} + | sort -u)
cited=$(sed -n 's/^Functions=//p' $folder/protocols/*/*.litmus | grep -oE '\b[A-Z][A-Za-z]+::[a-z_]+\b' | sort -u)
missing=$(comm -23 <(echo "$cited") <(echo "$places"))
names=$(sed -n 's/^Variant=\([^ ]*\) |.*/\1/p' $folder/protocols/*/*.litmus | tr , '\n' | sort -u)
known=$(sed '/^<!-- Litmus -->/,/^<!-- End of litmus -->/d' "$page" | grep -o '`[^`]*`' | tr -d '`' | sort -u)
missing+=$(comm -23 <(echo "$names") <(echo "$known"))
untested=$(comm -13 <(echo "$names") <(grep -E '^[a-z_0-9/]+:.*:(FailureAcquire|Acquire|Release)(#[0-9]+)?$' <<<"$known"))
diff $folder/untested.txt <(echo "$untested") ||
    { echo "orderings in $page without a litmus test (>), or listed in $folder/untested.txt although they have one (<)" >&2; exit 1; }
echo "NOT CHECKED: $(wc -l <$folder/untested.txt) orderings without a litmus test: $folder/untested.txt"
if [[ -n $missing ]]; then
    printf 'litmus tests name what is not in the source, or in %s:\n%s\n' "$page" "$missing" >&2
    exit 1
fi
