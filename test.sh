#!/usr/bin/env bash
# Runs the tests: ./test.sh [--all] [pytest arguments]
#
#   ./test.sh                  the quick tier: every test that needs no fleet of processes, Postgres, browser or npm package
#   ./test.sh --all            every test, as .ci/run does
#   ./test.sh tests/workers    every test of these files or folders
#
# Four workers by default, as many tests wait for other processes; -n0 runs in one process (for --pdb). Tests over
# Node.js MCP servers are skipped, with the reason, where npm is missing. `./test.sh tests/faults --faults N` is the long
# fault campaign (docs/reliability.md), N rounds of it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
here=$PWD
"$root/scripts/venv.sh" test
"$root/scripts/node.sh"
cd "$root"
# A path given from another directory means that directory's file.
args=()
tier=(-m "not process")
for arg in "$@"; do
    if [ "$arg" = --all ]; then
        tier=()
        continue
    fi
    if [ "$here" != "$root" ] && [[ $arg != -* ]] && [ -e "$here/${arg%%::*}" ]; then
        arg=$here/$arg
    fi
    if [[ $arg != -* ]] && [ -e "${arg%%::*}" ]; then
        tier=()
    fi
    args+=("$arg")
done
export PATH=$root/.venv/bin:$PATH
# The tests start thousands of Python processes: without bytecode files each of them compiles the package again.
unset PYTHONDONTWRITEBYTECODE
exec "$root/.venv/bin/python" -m pytest -n 4 --dist worksteal ${tier[@]+"${tier[@]}"} ${args[@]+"${args[@]}"}
