#!/usr/bin/env bash
# Safe code cannot break the contracts of the library through what its pages do not show. Lists everything that a safe
# program can use below `doc(hidden)`, or through types and bounds without a documented name (`ci/hidden.py`), and
# compares it with ci/hidden.txt, where each has its reason. A package with one of each kind is the control. Half a
# minute.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

# listed PACKAGE FEATURES MANIFEST: lists the package.
listed() {
    cargo "+$rust_nightly" rustdoc --quiet --lib --package "$1" --features "$2" --manifest-path "$3" \
        --target-dir target/api -- -Z unstable-options --output-format json --cap-lints allow \
        --document-hidden-items --document-private-items
    local name=${1//-/_}
    python3 ci/hidden.py "target/api/doc/$name.json"
}

echo "-- the control"
mkdir -p "$scratch/control/src"
printf '[package]\nname = "control"\nedition = "2024"\n[workspace]\n' >"$scratch/control/Cargo.toml"
cat >"$scratch/control/src/lib.rs" <<'END'
mod private {
    pub static REEXPORTED: u32 = 1;
    #[derive(Default)]
    pub struct Unnamed(pub u32);
    impl Unnamed {
        pub fn reset(&self) {}
        pub unsafe fn contract(&self) {}
        fn own(&self) {}
    }
    #[derive(Default)]
    pub struct ByDefault(u32);
    pub struct ByFrom(u32);
    impl From<u32> for ByFrom {
        fn from(number: u32) -> Self { Self(number) }
    }
    #[derive(Debug, Clone)]
    pub struct Token(());
    impl Token {
        pub fn new() -> Self { Self(()) }
    }
    pub trait Supertrait {
        fn end(&self) {}
        fn takes_default(&self, _: &ByDefault) {}
        fn takes_from(&self, _: ByFrom) {}
        fn takes_token(&self, _: &Token) {}
    }
    pub struct NotMentioned;
    impl NotMentioned {
        pub fn reset(&self) {}
    }
}
#[doc(hidden)]
pub mod hidden {
    pub fn safe() {}
    pub unsafe fn contract() {}
    fn own() {}
    pub const NUMBER: u32 = 1;
    pub trait Open {
        fn provided(&self) {}
    }
    pub unsafe trait Closed {}
    pub mod deeper {
        pub enum Kind {}
        impl Kind {
            pub fn new() {}
        }
    }
    pub use crate::Documented;
}
#[doc(hidden)]
pub use private::REEXPORTED;
pub struct Documented {
    #[doc(hidden)]
    pub field: u32,
    own: u32,
}
impl Documented {
    pub fn shown(&self) -> private::Unnamed { private::Unnamed::default() }
    #[doc(hidden)]
    pub fn method(&self) {}
}
pub trait Bound: private::Supertrait {}
#[doc(hidden)]
#[macro_export]
macro_rules! inner { () => {} }
END
listed control "" "$scratch/control/Cargo.toml" >"$scratch/found" 2>"$scratch/log" ||
    { cat "$scratch/log" >&2; fail "the control does not build"; }
diff - "$scratch/found" <<'END' || fail "the list of the control (>) is not what it should be (<)"
constant control::hidden::NUMBER
field control::Documented::field
field control::private::Unnamed::0
fn control::Documented::method
fn control::hidden::Open::provided
fn control::hidden::deeper::Kind::new
fn control::hidden::safe
fn control::private::Supertrait::end
fn control::private::Supertrait::takes_default
fn control::private::Supertrait::takes_from
fn control::private::Unnamed::reset
macro control::inner
static control::REEXPORTED
trait control::hidden::Open
value control::private::ByDefault
value control::private::ByFrom
value control::private::Unnamed
END
echo "$(wc -l <"$scratch/found"), as expected"

sed -n 's/^\([a-z_]\+\) \(.*\) -- ..*/\1 \2/p' ci/hidden.txt >"$scratch/rows"
[[ $(wc -l <"$scratch/rows") == $(grep -vcE '^(#|$)' ci/hidden.txt) ]] || fail "a line of ci/hidden.txt has no reason"
! grep '^always value' ci/hidden.txt >&2 || fail "safe code has a value that it should not be able to make"
# compare FEATURE...: what was found is in the rows of these, and each row stands for something.
compare() {
    local when what line
    >"$scratch/covered"
    while read -r when what; do
        [[ " always $* " == *" $when "* ]] || continue
        while IFS= read -r line; do
            # The row is a pattern.
            if [[ $line == $what ]]; then echo "$line"; fi
        done <"$scratch/found" >"$scratch/by_row"
        [[ -s $scratch/by_row ]] || fail "ci/hidden.txt has a line for nothing: $what"
        cat "$scratch/by_row" >>"$scratch/covered"
    done <"$scratch/rows"
    sort -u "$scratch/covered" | comm -13 - "$scratch/found" >"$scratch/unlisted"
    [[ ! -s $scratch/unlisted ]] ||
        { cat "$scratch/unlisted" >&2; fail "safe code can use these, and ci/hidden.txt does not say why that is sound"; }
    echo "$(wc -l <"$scratch/found"), each with a reason"
}

for features in "" _capi _capi,_lab,_urcu; do
    echo "-- the library${features:+, with the features $features}"
    {
        listed stillpoint "lock_api_05,metrics,send_guard,statistics-page,tracing${features:+,$features}" \
            Cargo.toml
        listed stillpoint-collections "" Cargo.toml
        listed stillpoint-tokio "" Cargo.toml
        listed crossbeam-epoch "" compat/crossbeam-epoch/Cargo.toml
    } | sed '/^$/d' | LC_ALL=C sort -u >"$scratch/found"
    compare ${features//,/ }
done

echo "-- a program that ends a section under its guard"
mkdir -p "$scratch/program/src"
cat >"$scratch/program/src/main.rs" <<'END'
#![forbid(unsafe_code)]
use stillpoint::rcu::{self, Rcu, foreign};
fn main() {
    let x = Rcu::new(String::from("read"));
    let guard = rcu::enter();
    let seen = x.load(&guard);
    foreign::read_unlock();
    x.replace(String::new()).wait();
    println!("{seen}");
}
END
# refused FEATURES ERROR
refused() {
    printf '[package]\nname = "program"\nedition = "2024"\n[dependencies]\nstillpoint = { path = "%s", features = [%s] }\n[workspace]\n' \
        "$PWD/stillpoint" "$1" >"$scratch/program/Cargo.toml"
    cp Cargo.lock "$scratch/program/"
    ! cargo check --quiet --offline --manifest-path "$scratch/program/Cargo.toml" --target-dir target/hidden \
        >"$scratch/log" 2>&1 || fail "it compiles"
    grep --quiet -F "$2" "$scratch/log" || { cat "$scratch/log" >&2; fail "it is refused for another reason than $2"; }
    echo "refused: $2"
}
refused '' E0432
refused '"_capi"' E0133
