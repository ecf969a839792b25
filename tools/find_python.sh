#!/bin/sh
# Prints the path of a Python >= 3.12 that can make a virtual environment, or says what is missing.
#
# A name on PATH proves nothing (version managers put shims there that fail), so each candidate is
# started and must import what an environment and an installation over https need.
set -u

works() {
    [ -n "$1" ] && "$1" -c '
import sys, venv, ensurepip, ssl, zlib
sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1 </dev/null
}

accept() {
    if works "$1"; then
        printf '%s\n' "$1"
        exit 0
    fi
}

for name in python3.13 python3.12 python3.14 python3; do
    accept "$(command -v "$name" 2>/dev/null)"
done

versions="${PYENV_ROOT:-${HOME:-}/.pyenv}/versions"
for minor in 3.13 3.12 3.14; do
    for candidate in "$versions/$minor"*/bin/python; do
        accept "$candidate"
    done
done

if command -v uv >/dev/null 2>&1; then
    # --system: an environment that happens to be active, or .venv itself, is no base for a new one.
    accept "$(uv python find --system '>=3.12' 2>/dev/null </dev/null)"
fi

echo "No Python >= 3.12 with venv, ensurepip, ssl and zlib was found on PATH, under $versions or by uv: install one (for example python3.13 and its venv package) and run this again." >&2
exit 1
