#!/bin/bash
# Lay out every file that a package of any kind holds: the program, units, configuration, manual pages, completions.
# usage: files.sh SOURCE ROOT    (as vendor.sh)
set -Eeuo pipefail
here=$(dirname "$(realpath "$0")")
source=$(realpath "$1") root=$(realpath "$2")
"$here/vendor.sh" "$source" "$root"

mkdir -p "$root"/usr/{bin,lib/{sysusers.d,tmpfiles.d,systemd/system},share/{doc/idlewatt,man/man1}} "$root"/etc/{default,idlewatt}
ln -s /opt/idlewatt/bin/idlewatt "$root/usr/bin/idlewatt"
cd "$source"
install -m 644 systemd/*.service systemd/*.timer "$root/usr/lib/systemd/system/"
install -m 644 systemd/sysusers.conf "$root/usr/lib/sysusers.d/idlewatt.conf"
install -m 644 systemd/tmpfiles.conf "$root/usr/lib/tmpfiles.d/idlewatt.conf"
# It is the place for PGPASSWORD and SLURM_JWT: systemd alone reads it, as root.
install -m 640 systemd/default "$root/etc/default/idlewatt"
# No configuration, only the sample: it changes with every version, and an upgrade must ask nobody about it.
install -m 644 daemon/config.sample.yml "$root/usr/share/doc/idlewatt/config.sample.yml"
# Version 0.1 has none; upgrades from it are tested.
[ ! -e daemon/follow/follow.sample.yml ] || install -m 644 daemon/follow/follow.sample.yml "$root/usr/share/doc/idlewatt/follow.sample.yml"
install -m 644 README.md CHANGELOG.md LICENSE "$here/debian/copyright" "$root/usr/share/doc/idlewatt/"
gzip -9n "$root/usr/share/doc/idlewatt/CHANGELOG.md"

cd /
program=("$root/opt/idlewatt/bin/python" -B -m)
[ -e "$source/daemon/cli/_manuals.py" ] || exit 0    # 0.1 could not write the rest
"${program[@]}" idlewatt.daemon.cli._manuals "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
completion() {  # shell, file
    mkdir -p "$root/usr/share/$(dirname "$2")"
    "${program[@]}" idlewatt.daemon.cli completion "$1" > "$root/usr/share/$2"
}
completion bash bash-completion/completions/idlewatt
completion zsh zsh/vendor-completions/_idlewatt
completion fish fish/vendor_completions.d/idlewatt.fish
if [ -e "$source/systemd/packages/sbom.py" ]; then
    "$root/opt/idlewatt/bin/python" -B "$source/systemd/packages/sbom.py" > "$root/usr/share/doc/idlewatt/sbom.cdx.json"
fi
