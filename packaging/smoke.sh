#!/usr/bin/env bash
# Tries what packaging/dist.sh made, each as somebody gets it: the binary alone in a directory
# without /dev, /proc or a library; the Debian package in an empty root; the wheel in a new virtual
# environment. Needs python3 and dpkg; without root, namespaces for users.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$PWD/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

alone() { # alone ROOT COMMAND…: as if ROOT were all there is
    local root=$1
    shift
    local -a own=()
    [ "$(id -u)" = 0 ] || own=(unshare --user --map-root-user)
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${own[@]}" chroot "$root" "$@"
}
judged() { # judged RUN: a whole run with its report
    test -s "$1/run/report.html"
    grep -q '^state = "complete"' "$1/run/run.toml"
}

echo "== sums"
(cd "$dist" && sha256sum --check --quiet SHA256SUMS)

echo "== the archive, its binary alone"
mkdir "$work/tar" "$work/tar/tmp"
tar --extract --file "$dist"/ioecho-*-x86_64-linux.tar.xz --directory "$work/tar" --strip-components=1
test -s "$work/tar/man/ioecho-record.1"
test -s "$work/tar/completions/ioecho"
grep -q '^ring ' "$work/tar/LICENSES-OF-OTHERS.txt"
rm -r "$work/tar/man" "$work/tar/completions"
alone "$work/tar" /ioecho --version
alone "$work/tar" /ioecho demo -o /tmp/demo > "$work/said"
judged "$work/tar/tmp/demo"
alone "$work/tar" /ioecho info --json /tmp/demo/run > "$work/info.json"
head -1 "$work/said"

echo "== the Debian package, in an empty root"
root=$work/deb
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/tmp"
touch "$root/var/lib/dpkg/status"
dpkg --root="$root" --force-not-root --install "$dist"/ioecho_*.deb > /dev/null
dpkg --root="$root" --status ioecho | grep -q '^Status: install ok installed'
test -s "$root/usr/share/man/man1/ioecho-record.1.gz"
test -s "$root/usr/share/bash-completion/completions/ioecho"
if command -v man > /dev/null; then
    MANPATH=$root/usr/share/man man --where ioecho-record > /dev/null
fi
alone "$root" /usr/bin/ioecho demo -o /tmp/demo > /dev/null
judged "$root/tmp/demo"

echo "== the wheel, in a new virtual environment"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-index --disable-pip-version-check "$dist"/ioecho-*.whl
"$work/venv/bin/ioecho" demo -o "$work/demo" > /dev/null
judged "$work/demo"
# The package that was installed and the command that came with it, not those of this tree.
(
    unset IOECHO PYTHONPATH
    "$work/venv/bin/python" -B -c 'import ioecho, sys; assert ioecho.binary().startswith(sys.prefix)'
    "$work/venv/bin/python" -B -m unittest discover --quiet -s python/tests
)
echo "all of it runs"
