#!/usr/bin/env bash
# packaging/release.sh X.Y.Z: makes a release as far as a machine may, and stops before it is
# published: CI, version and CHANGELOG, packages (twice, the same bytes), their trial, a signed tag.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?which version: packaging/release.sh X.Y.Z}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "$version: a version is X.Y.Z" >&2; exit 2; }
[ -z "$(git status --porcelain)" ] || { echo "there are uncommitted changes" >&2; exit 1; }
! git rev-parse --quiet --verify "v$version" > /dev/null || { echo "v$version exists" >&2; exit 1; }

# Its changes are collected below one heading, which gets its day.
grep -q "^## $version, unreleased$" CHANGELOG.md || {
    echo "CHANGELOG.md has no heading '## $version, unreleased'" >&2
    exit 1
}

.ci/run

before=$(cargo pkgid --offline -p ioecho | sed 's/.*[#@]//')
if [ "$before" != "$version" ]; then
    sed -i "s/^version = \"$before\"$/version = \"$version\"/; s/version = \"=$before\"/version = \"=$version\"/" Cargo.toml
    cargo update --workspace --offline
fi
sed -i "s/^## $version, unreleased$/## $version, $(date --utc +%F)/" CHANGELOG.md
git commit --all --message "Version $version"

packaging/dist.sh
mv dist/SHA256SUMS target/SHA256SUMS.first
rm -rf target/x86_64-unknown-linux-gnu/dist
packaging/dist.sh
diff target/SHA256SUMS.first dist/SHA256SUMS
packaging/smoke.sh
cargo publish --dry-run --workspace --locked

git tag --sign "v$version" --message "ioecho $version"
echo "v$version is tagged and dist/ is what it gives. Publishing is yours:"
echo "  git push --follow-tags · twine upload dist/*.whl · cargo publish --workspace"
