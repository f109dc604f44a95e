#!/bin/bash
# Put the program with all it needs into ROOT/opt/idlewatt: a virtual environment that packages carry.
# usage: vendor.sh SOURCE ROOT    (PYTHON, the interpreter of the target: /usr/bin/python3.11; PIP, any pip: pip)
# torch is not in it (its CPU build alone is larger than all else): what lies in /usr/local/lib/idlewatt is seen as well.
set -Eeuo pipefail
source=$(realpath "${1:?usage: vendor.sh SOURCE ROOT}") root=$(realpath "${2:?usage: vendor.sh SOURCE ROOT}")
python=${PYTHON:-/usr/bin/python3.11} pip=${PIP:-pip}
place=$root/opt/idlewatt

"$python" -m venv --without-pip "$place"
# A copy without build/ and *.egg-info: setuptools would take what an earlier build left there.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
(cd "$source" && cp -r daemon exporters grafana storage systemd setup.cfg pyproject.toml README.md LICENSE "$copy/")
[ ! -e "$source/NOTICE" ] || cp "$source/NOTICE" "$copy/"
chmod -R u=rwX,go=rX "$copy"
find "$copy" -name __pycache__ -prune -exec rm -r {} +
"$pip" --python "$place/bin/python" install --quiet --no-compile --no-warn-script-location "$copy[postgres]"
libraries=$(echo "$place"/lib/python3.*/site-packages)
echo /usr/local/lib/idlewatt > "$libraries/idlewatt_extras.pth"

# What nobody runs on a server: the tests, headers and static libraries of the numerical packages.
for package in numba numpy scipy pyarrow llvmlite; do
    find "$libraries/$package" -depth -type d \( -name tests -o -name include \) -exec rm -r {} +
done
find "$libraries" -name '*.a' -delete
# Programs of the dependencies would shadow nothing and help nobody; activation names the folder of the build.
find "$place/bin" -type f ! -name idlewatt -delete
find "$place/bin" -type l ! -name 'python*' -delete
ln -sfn "$python" "$place/bin/python3.11"
ln -sfn python3.11 "$place/bin/python3"
ln -sfn python3.11 "$place/bin/python"

# Nothing may name the folder of the build.
sed -i "1s|.*|#!/opt/idlewatt/bin/python|" "$place/bin/idlewatt"
sed -i '/^command = /d' "$place/pyvenv.cfg"
find "$libraries" -name direct_url.json -delete
(cd "$libraries" && sed -i '/direct_url.json/d; s|^\(.*bin/idlewatt\),.*|\1,,|' ./idlewatt-*.dist-info/RECORD)
# Nor may a digest of a program that did: these programs are gone. Paths are from here: that of the build may be of any name.
(cd "$libraries" && find . -name RECORD ! -path './idlewatt-*' -exec sed -i '\|^\(\.\./\)*bin/|d' {} +)
"$place/bin/python" -m compileall -q -s "$root" -p / --invalidation-mode unchecked-hash "$libraries" > /dev/null || true
