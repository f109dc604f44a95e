#!/bin/bash
# Build the RPM of a source tree, for the machine's own architecture.
# usage: rpm.sh SOURCE OUT    (rpmbuild, /usr/bin/python3.11; PIP names a pip of any Python)
set -Eeuo pipefail
here=$(dirname "$(realpath "$0")")
source=$(realpath "${1:?usage: rpm.sh SOURCE OUT}") out=$(realpath -m "${2:?usage: rpm.sh SOURCE OUT}")
version=$(sed -n 's/^version = //p' "$source/setup.cfg" | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

umask 022   # whoever builds it: what is in a package is for everybody to read
mkdir -p "$out"
work=$(mktemp -d "$out/rpmbuild.XXXXXX")
trap 'rm -rf "$work"' EXIT
rpmbuild -bb --quiet --nodeps --define "_topdir $work" --define "idlewatt_version $version" --define "idlewatt_source $source" \
    --define "idlewatt_files $here/files.sh" "$here/rpm/idlewatt.spec" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
mv "$work"/RPMS/*/*.rpm "$out/"
ls "$out"/idlewatt-"$version"-*.rpm
