#!/bin/bash
# Build every package twice of one commit, in two folders under other settings, and compare: same commit, same file.
# usage: twice.sh SOURCE OUT [wheel|sdist|deb|rpm ...]    (as debian.sh and rpm.sh; PIP, a pip beside its python)
# The packages lie in OUT/first and OUT/second; what differs is named, and the status is then 1.
set -Eeuo pipefail
source=$(realpath "${1:?usage: twice.sh SOURCE OUT [KIND ...]}") out=$(realpath -m "${2:?usage: twice.sh SOURCE OUT [KIND ...]}")
shift 2
kinds=("$@")
[ $# -gt 0 ] || kinds=(wheel sdist deb rpm)
PIP=$(realpath -s "$(command -v "${PIP:-pip}")")
SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct)
export PIP SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {  # kind, folder of the sources, folder of the package
    case $1 in
        wheel | sdist) "$2/systemd/packages/dist.sh" "$2" "$3" "$1" ;;
        deb) "$2/systemd/packages/debian.sh" "$2" "$3" > /dev/null ;;
        rpm) "$2/systemd/packages/rpm.sh" "$2" "$3" > /dev/null ;;
    esac
}

# Two places of other names and lengths, two people's umasks, time zones and languages.
settings_first=(umask=022 TZ=UTC LC_ALL=C)
settings_second=(umask=077 TZ=Pacific/Kiritimati LC_ALL=C.UTF-8)
for which in first second; do
    copy=$work/$which/$([ $which = first ] || echo a/longer/)sources
    mkdir -p "$copy" "$out/$which"
    rm -f "$out/$which"/idlewatt*
    git -C "$source" archive HEAD | tar x -C "$copy"
    settings="settings_$which[@]"
    for kind in "${kinds[@]}"; do
        (for setting in "${!settings}"; do
            case $setting in umask=*) umask "${setting#umask=}" ;; *) export "${setting?}" ;; esac
         done
         build "$kind" "$copy" "$out/$which")
    done
done

status=0
for one in "$out"/first/idlewatt*; do
    name=$(basename "$one")
    if cmp --quiet "$one" "$out/second/$name"; then
        echo "the same twice: $name $(sha256sum < "$one" | cut -c 1-16)"
    else
        echo "DIFFERENT: $name"
        status=1
    fi
done
exit $status
