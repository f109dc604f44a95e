#!/bin/bash
# Build the Debian package of a source tree, for the machine's own architecture.
# usage: debian.sh SOURCE OUT    (dpkg-deb, /usr/bin/python3.11; PIP names a pip of any Python)
# DEBFULLNAME and DEBEMAIL say who made it, HOMEPAGE where it comes from.
set -Eeuo pipefail
here=$(dirname "$(realpath "$0")")
source=$(realpath "${1:?usage: debian.sh SOURCE OUT}") out=$(realpath -m "${2:?usage: debian.sh SOURCE OUT}")
setting() { sed -n "s/^$1 = //p" "$source/setup.cfg" | head -n 1; }
version=$(setting version) homepage=${HOMEPAGE:-$(setting url)}
maintainer="${DEBFULLNAME:-The idlewatt developers} <${DEBEMAIL:-idlewatt@localhost}>"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

umask 022   # whoever builds it: what is in a package is for everybody to read
mkdir -p "$out"
work=$(mktemp -d "$out/tree.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/DEBIAN"
"$here/files.sh" "$source" "$root"
units=$root/lib/systemd/system
[ -d "$units" ] || { mkdir -p "$root/lib"; mv "$root/usr/lib/systemd" "$root/lib/systemd"; }   # Debian 12 looks here
for script in postinst prerm postrm; do install -m 755 "$here/debian/$script" "$root/DEBIAN/$script"; done
(cd "$root" && find etc -type f | sort | sed 's|^|/|') > "$root/DEBIAN/conffiles"
(cd "$root" && find opt usr lib -type f -print0 | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
# By the files alone: how large a folder is depends on the file system and on what was once in it.
size=$(find "$root" -type f ! -path "$root/DEBIAN/*" -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$(dpkg --print-architecture)|" -e "s|@HOMEPAGE@|${homepage:-none}|" \
    -e "s|@MAINTAINER@|$maintainer|" -e "s|@SIZE@|$size|" \
    "$here/debian/control" > "$root/DEBIAN/control"
package=$out/idlewatt_${version}_$(dpkg --print-architecture).deb
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zzstd -z9 --build "$root" "$package" > /dev/null
echo "$package"
