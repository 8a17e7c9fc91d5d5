#!/usr/bin/env bash
# What a release needs and a machine can check: the packages that crates.io gets, in order, built from their files
# alone; the documentation as docs.rs builds it; semver against the last release; one version everywhere.
#
# `cargo publish --dry-run` is all that works without an account, and it asks the registry for the packages that a
# package depends on. Those that are not published yet are taken from the files of this run.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh
published=(stillpoint stillpoint-collections stillpoint-tokio) # in this order: each needs those before it
folders=(stillpoint collections bindings/tokio)
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
export CARGO_PROFILE_DEV_DEBUG=false

echo "-- what is published"
cargo metadata --no-deps --format-version 1 >"$scratch/metadata"
# In the order of `published`; no other package can be published by mistake.
jq --raw-output '.packages[] | select(.publish == null) | .name' "$scratch/metadata" | sort >"$scratch/publishable"
printf '%s\n' "${published[@]}" | sort | diff - "$scratch/publishable" || fail "a package lacks publish = false"
jq --raw-output --arg v "$version" '.packages[] | .name as $name | .dependencies[]
    | select(.path != null and .req != "*" and .req != "^" + $v) | "\($name) asks for \(.name) \(.req)"' "$scratch/metadata" >"$scratch/other"
[[ ! -s $scratch/other ]] || { cat "$scratch/other" >&2; fail "the version is $version"; }
grep --quiet "^## \[$version\]" CHANGELOG.md || fail "CHANGELOG.md has no section of $version"

echo "-- cargo publish --dry-run"
rm -rf target/publish/package
cargo publish --dry-run --allow-dirty --locked --quiet --target-dir target/publish "${published[@]/#/--package=}"
for name in "${published[@]}"; do
    files=target/publish/package/$name-$version # unpacked, as it was built
    for file in README.md Cargo.toml src/lib.rs; do
        [[ -f $files/$file ]] || fail "the package $name has no $file"
    done
    for file in LICENSE-APACHE LICENSE-MIT; do
        cmp --quiet "$file" "$files/$file" || fail "the package $name has not the text of $file"
    done
    [[ ! -e $files/tests ]] || fail "the package $name has tests, which it cannot build"
    echo "$name $version: $(find "$files" -type f | wc -l) files"
done

echo "-- docs.rs"
# As docs.rs does: a nightly, `--cfg docsrs`, the features and targets of the metadata. Warnings are errors. The
# standard library of other targets is built, because a nightly may lack it.
host=$(rustc --version --verbose | sed -n 's/^host: //p')
for index in "${!published[@]}"; do
    metadata=$(jq --arg name "${published[index]}" '.packages[] | select(.name == $name) | .metadata.docs.rs' "$scratch/metadata")
    jq --raw-output '.targets[]' <<<"$metadata" | while read -r target; do
        build_std=()
        [[ $target == "$host" ]] || build_std=(-Zbuild-std)
        RUSTUP_TOOLCHAIN=$rust_nightly RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo doc --quiet --no-deps --lib "${build_std[@]}" \
            --manifest-path "${folders[index]}/Cargo.toml" --target "$target" --target-dir target/docsrs \
            --features "$(jq --raw-output '.features // [] | join(",")' <<<"$metadata")"
        [[ -e target/docsrs/$target/doc/$(tr - _ <<<"${published[index]}")/index.html ]]
        echo "${published[index]}, $target"
    done
done

echo "-- semver"
# Before the first tag there is no release to be compatible with: ci/package.sh compares the API with ci/api.
last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
if [[ -z $last ]]; then
    echo "no release yet: the baseline is ci/api, which ci/package.sh checks"
else
    cargo install --quiet --debug --locked --root target/tools "cargo-semver-checks@$cargo_semver_checks"
    CARGO_TARGET_DIR=target/semver target/tools/bin/cargo-semver-checks semver-checks --baseline-rev "$last" "${published[@]/#/--package=}"
fi
