#!/usr/bin/env bash
# Runs every test: ./test.sh [pytest arguments]
#
# Three workers by default, as most tests wait for other processes; -n0 runs in one process (for --pdb). Tests over Node.js MCP servers
# are skipped, with the reason, where npm is missing. `./test.sh tests/faults --faults N` is the long
# fault campaign (docs/reliability.md), N rounds of it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
here=$PWD
"$root/scripts/venv.sh" test
"$root/scripts/node.sh"
cd "$root"
# A path given from another directory means that directory's file.
args=()
for arg in "$@"; do
    if [ "$here" != "$root" ] && [[ $arg != -* ]] && [ -e "$here/${arg%%::*}" ]; then
        arg=$here/$arg
    fi
    args+=("$arg")
done
export PATH=$root/.venv/bin:$PATH
# The tests start thousands of Python processes: without bytecode files each of them compiles the package again.
unset PYTHONDONTWRITEBYTECODE
exec "$root/.venv/bin/python" -m pytest -n 3 ${args[@]+"${args[@]}"}
