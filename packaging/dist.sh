#!/usr/bin/env bash
# Makes everything that is handed to others, in dist/: a static binary with man pages, completions
# and licences as tar.xz, a Debian package, a wheel for PyPI, an SBOM, and SHA256SUMS.
#
# One commit gives the same bytes again on the same toolchain: times are the commit's, names are
# sorted, paths of this machine are replaced. Needs cargo, maturin (pip install maturin), python3,
# dpkg-deb and xz.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in cargo maturin python3 dpkg-deb xz; do
    command -v "$tool" > /dev/null || { echo "packaging/dist.sh needs $tool" >&2; exit 1; }
done

target=x86_64-unknown-linux-gnu
version=$(cargo pkgid --offline -p ioecho | sed 's/.*[#@]//')
maintainer=${IOECHO_MAINTAINER:-ioecho developers <ioecho@localhost>}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
umask 022
out=$PWD/dist
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
rm -rf "$out"
mkdir -p "$out"

# Static glibc: the file runs on any kernel since 3.2, whatever library is there, also where there
# is none. In a static binary getrandom cannot look for its function by name, and asks the kernel.
home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"
    --remap-path-prefix=$PWD=/ioecho --remap-path-prefix=$home=/cargo"
RUSTFLAGS=$(tr -s '\n ' '  ' <<< "$RUSTFLAGS")
export CFLAGS="-ffile-prefix-map=$PWD=/ioecho -ffile-prefix-map=$home=/cargo"
export CARGO_INCREMENTAL=0

echo "== the binary and the wheel"
maturin build --locked --profile dist --target "$target" --compatibility manylinux_2_17 --out "$out"
binary=$PWD/target/$target/dist/ioecho
wheel=$(echo "$out"/ioecho-*.whl)
if readelf --dynamic "$binary" | grep -q NEEDED; then
    echo "$binary is not static" >&2
    exit 1
fi

echo "== the software bill of materials"
# maturin writes where the crates lay; here it is one place wherever they lie.
python3 -B packaging/bom.py "$wheel" "$PWD" "$out/ioecho-$version.cyclonedx.json"

echo "== the archive"
name=ioecho-$version-x86_64-linux
tree=$stage/$name
mkdir -p "$tree/completions" "$tree/man"
install -m 755 "$binary" "$tree/ioecho"
"$binary" man "$tree/man" > /dev/null
"$binary" completions bash > "$tree/completions/ioecho"
"$binary" completions zsh > "$tree/completions/_ioecho"
"$binary" completions fish > "$tree/completions/ioecho.fish"
python3 -B packaging/licences.py "$target" > "$tree/LICENSES-OF-OTHERS.txt"
install -m 644 LICENSE-MIT LICENSE-APACHE CHANGELOG.md "$tree"
install -m 644 packaging/README.md "$tree/README.md"
pack() { # pack DIRECTORY NAME: the same bytes for the same files
    tar --create --directory "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
        --numeric-owner --format=ustar "$2"
}
pack "$stage" "$name" | xz --threads=1 > "$out/$name.tar.xz"

echo "== the Debian package"
root=$stage/deb
share=$root/usr/share
docs=$share/doc/ioecho
install -D -m 755 "$binary" "$root/usr/bin/ioecho"
install -D -m 644 "$tree/completions/ioecho" "$share/bash-completion/completions/ioecho"
install -D -m 644 "$tree/completions/_ioecho" "$share/zsh/vendor-completions/_ioecho"
install -D -m 644 "$tree/completions/ioecho.fish" "$share/fish/vendor_completions.d/ioecho.fish"
install -D -m 644 -t "$root/usr/lib/systemd/system" packaging/systemd/ioecho-record@.service
install -D -m 644 -t "$share/man/man1" "$tree"/man/*.1
gzip --no-name -9 "$share"/man/man1/*.1
install -D -m 644 -t "$docs" README.md "$tree/LICENSES-OF-OTHERS.txt"
install -D -m 644 CHANGELOG.md "$docs/changelog"
gzip --no-name -9 "$docs/changelog"
cat LICENSE-MIT LICENSE-APACHE > "$docs/copyright"
git ls-files docs examples | while read -r file; do
    [ -f "$file" ] && install -D -m 644 "$file" "$docs/$file"
done
mkdir "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
cat > "$root/DEBIAN/control" << END
Package: ioecho
Version: $version-1
Architecture: amd64
Section: admin
Priority: optional
Maintainer: $maintainer
Recommends: ca-certificates
Installed-Size: $(du --summarize --apparent-size --block-size=1024 "$root/usr" | cut -f1)
Description: replays recorded block I/O and says whether to believe it
 Records block I/O workloads, converts thirty trace formats, replays them on
 devices with their own timing, and says whether the replay may be believed.
END
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/ioecho_$version-1_amd64.deb" > /dev/null

(cd "$out" && sha256sum -- * > SHA256SUMS)
ls -l "$out"
