#!/bin/bash
# Build the container image where no registry can be reached: on a base that debootstrap makes of Debian's packages.
# usage: image.sh SOURCE STORE    (as root, with buildah and debootstrap. MIRROR: of Debian; PIP_CONF: pip's own settings;
#                                  CERTIFICATES: a file with those by which pip knows its index)
# The image lies in STORE afterwards, as localhost/idlewatt; `buildah --root STORE/images ... images` tells its size.
set -Eeuo pipefail
source=$(realpath "${1:?usage: image.sh SOURCE STORE}") store=${2:?usage: image.sh SOURCE STORE}
mkdir -p "$store/host" && store=$(realpath "$store")
images=(buildah --root "$store/images" --runroot "$store/run" --storage-driver vfs)

if ! "${images[@]}" inspect --type image localhost/debian:12-slim > /dev/null 2>&1; then
    debootstrap --variant=minbase --include=ca-certificates bookworm "$store/base" "${MIRROR:-http://deb.debian.org/debian}"
    # What Debian's own slim image is without.
    rm -rf "$store"/base/usr/share/{doc,man,info,locale}/* "$store"/base/var/cache/apt/* "$store"/base/var/lib/apt/lists/*
    empty=$("${images[@]}" from scratch)
    "${images[@]}" add --quiet "$empty" "$store/base" /
    "${images[@]}" commit --quiet --rm "$empty" localhost/debian:12-slim
    rm -rf "$store/base"
fi

cp "${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}" "$store/host/certificates.crt"
{ cat "${PIP_CONF:-/dev/null}"; printf '[global]\ncert = /host/certificates.crt\n'; } > "$store/host/pip.conf"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git -C "$source" archive HEAD | tar x -C "$copy"
cp "$source/Containerfile" "$copy/"
"${images[@]}" build --layers --isolation chroot --network host --build-arg BASE=localhost/debian:12-slim \
    --volume "$store/host:/host:ro" --volume "$store/host/pip.conf:/etc/pip.conf:ro" \
    --tag localhost/idlewatt --file "$copy/Containerfile" "$copy"
"${images[@]}" images
