#!/bin/bash
# Build wheel and source archive of the last commit: the same files whoever builds them, wherever and under which umask.
# usage: dist.sh SOURCE OUT [wheel|sdist]    (a checkout; PIP, a pip beside a python that has setuptools)
set -Eeuo pipefail
source=$(realpath "${1:?usage: dist.sh SOURCE OUT [KIND]}") out=$(realpath -m "${2:?usage: dist.sh SOURCE OUT [KIND]}") kind=${3:-both}
pip=$(realpath -s "$(command -v "${PIP:-pip}")")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
umask 022
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/made"
if [ -e "$source/.git" ]; then git -C "$source" archive HEAD; else tar c -C "$source" .; fi | tar x --no-same-permissions -C "$work/source"
chmod -R u=rwX,go=rX "$work/source"

[ "$kind" = sdist ] || "$pip" wheel --quiet --no-deps --wheel-dir "$out" "$work/source"
[ "$kind" = wheel ] && exit
cd "$work/source"
"$(dirname "$pip")/python" -c "import setuptools.build_meta as made; made.build_sdist('$work/made')" > /dev/null
# setuptools notes the time of the build and the builder's account; they go.
for archive in "$work"/made/*.tar.gz; do
    mkdir "$work/unpacked" && tar xzf "$archive" -C "$work/unpacked"
    tar c -C "$work/unpacked" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        "$(basename "$archive" .tar.gz)" | gzip -9n > "$out/$(basename "$archive")"
done
