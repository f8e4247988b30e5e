#!/usr/bin/env bash
# Makes .venv hold Ropewalk with one of its extras, at the versions of constraints.txt.
#
#     scripts/venv.sh demo|test
#
# Quick when that is done already: a stamp remembers pyproject.toml, constraints.txt and Python.
# PYTHON=... chooses the interpreter (3.11 or newer).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
extra=${1:?usage: scripts/venv.sh demo|test}
venv=$root/.venv

say() { printf '%s\n' "· $*" >&2; }
die() { printf '%s\n' "$0: $*" >&2; exit 1; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local name
    for name in ${PYTHON:+"$PYTHON"} python3.11 python3 python3.14 python3.13 python3.12; do
        if is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    die "no Python 3.11 or newer found; on Debian: apt-get install python3 python3-venv"
}

[ -w "$root" ] || die "$root is not writable for $(id -un); clone the project as this user"

# A virtual environment is bound to its path: after a move or a copy it has to be made again.
if ! [ "$("$venv/bin/python" -c 'import sys; print(sys.prefix)' 2>/dev/null)" = "$venv" ]; then
    python=$(find_python)
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear "$venv" ||
        die "could not make .venv; on Debian: apt-get install python3-venv"
fi

stamp=$("$venv/bin/python" - pyproject.toml constraints.txt <<'PY'
import hashlib, pathlib, sys
print(hashlib.sha256(b"\0".join([sys.version.encode(), *(pathlib.Path(p).read_bytes() for p in sys.argv[1:])])).hexdigest())
PY
)
mark=$venv/installed.$extra
[ "$(cat "$mark" 2>/dev/null)" = "$stamp" ] && exit 0

say "installing ropewalk[$extra] into .venv, versions from constraints.txt; the first time this takes minutes"
# Modules are compiled when they are first imported: most never are.
pip=("$venv/bin/python" -m pip install --disable-pip-version-check --no-compile -c constraints.txt -e ".[$extra]")
if [ -t 2 ]; then  # one line that says at which package it is
    "${pip[@]}" | while IFS= read -r line; do printf '\r\033[K  %.76s' "$line" >&2; done
    printf '\r\033[K' >&2
else
    "${pip[@]}" -qq
fi
printf '%s\n' "$stamp" >"$mark"
# The test extra holds everything the demo needs.
[ "$extra" = test ] && cp "$mark" "$venv/installed.demo"
exit 0
