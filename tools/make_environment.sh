#!/bin/sh
# Makes .venv, or mends it: usage make_environment.sh EXTRAS, for example "test,dev".
#
# Installing takes minutes, so it is repeated only when what decides it has changed: the stamp holds
# checksums of pyproject.toml and constraints.txt, the extras, and the folder (the scripts inside an
# environment name it).
set -eu
cd "$(dirname "$0")/.."
extras=$1
python=.venv/bin/python
stamp=.venv/installed.txt

starts() {
    "$python" -c '
import sys, pip, ssl, zlib
sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1 </dev/null
}

wanted="$(pwd)
$(cksum pyproject.toml constraints.txt)"

# An environment with these extras and more will do.
has_extras() {
    for extra in $(echo "$extras" | tr ',' ' '); do
        sed -n '1p' "$stamp" | tr ',' '\n' | grep -qx "$extra" || return 1
    done
}

if starts && [ -f "$stamp" ] && [ "$(sed '1d' "$stamp")" = "$wanted" ] && has_extras; then
    exit 0
fi

if ! starts || { [ -f "$stamp" ] && [ "$(sed -n '2p' "$stamp")" != "$(pwd)" ]; }; then
    base=$(sh tools/find_python.sh)
    # The one found may belong to an active environment, even to the .venv about to be removed.
    base=$("$base" -c 'import sys; print(getattr(sys, "_base_executable", None) or sys.executable)')
    echo "Making .venv with $base"
    rm -rf .venv
    "$base" -m venv .venv
elif [ -f "$stamp" ]; then
    extras=$(printf '%s,%s' "$(sed -n '1p' "$stamp")" "$extras" | tr ',' '\n' | sort -u | paste -sd, -)
fi
rm -f "$stamp"

echo "Installing gstudy[$extras] into .venv (some minutes the first time)"
# The build backend comes from the constraints too, hence no build isolation.
"$python" -m pip install --quiet --disable-pip-version-check \
    --constraint constraints.txt hatchling editables
"$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation \
    --constraint constraints.txt --editable ".[$extras]"
printf '%s\n%s\n' "$extras" "$wanted" >"$stamp"
