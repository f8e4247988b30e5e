#!/usr/bin/env bash
# Runs the tests: ./test.sh [--all | --affected | --campaigns [NAME]] [pytest arguments]
#
#   ./test.sh                   quick tests: no fleet of processes, Postgres, browser, npm package or campaign
#   ./test.sh --all             every test, and a short slice of each campaign, as .ci/run does
#   ./test.sh --affected        every test that the changes since the main branch can reach by imports
#   ./test.sh --campaigns       every campaign with full counts, which takes hours
#   ./test.sh --campaigns fuzz --seconds 600
#                               one campaign, again and again with other seeds until the time is over
#   ./test.sh tests/workers     every test of these files or folders
#
# tests/tiers.py lists the campaigns. Two workers by default; -n0 runs in one process (for --pdb). Tests over Node.js MCP
# servers are skipped, with the reason, where npm is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
here=$PWD
"$root/scripts/venv.sh" test
"$root/scripts/node.sh"
cd "$root"
export PATH=$root/.venv/bin:$PATH
# The tests start thousands of Python processes: without bytecode files each of them compiles the package again.
unset PYTHONDONTWRITEBYTECODE

tier=(-m "not process and not campaign")
args=() affected= campaign= seconds=
while [ $# -gt 0 ]; do
    case $1 in
        --all) tier=() ;;
        --affected) affected=yes tier=() ;;
        --campaigns)
            campaign=all
            if [ $# -gt 1 ] && [[ $2 != -* ]] && ! [ -e "${2%%::*}" ]; then
                campaign=$2
                shift
            fi
            tier=(--campaign "$campaign")
            ;;
        --seconds)
            seconds=${2:?--seconds needs a number}
            shift
            ;;
        -*) args+=("$1") ;;
        *)
            # A path given from another directory means that directory's file.
            path=$1
            [ "$here" != "$root" ] && [ -e "$here/${path%%::*}" ] && path=$here/$path
            [ -n "$campaign" ] || ! [ -e "${path%%::*}" ] || tier=()
            args+=("$path")
            ;;
    esac
    shift
done
if [ -n "$affected" ]; then
    chosen=$("$root/.venv/bin/python" tests/affected.py)
    [ -n "$chosen" ] || exit 0
    mapfile -t tier <<<"$chosen"
fi

run=("$root/.venv/bin/python" -m pytest -n 2 --dist worksteal ${tier[@]+"${tier[@]}"} ${args[@]+"${args[@]}"})
[ -n "$seconds" ] || exec "${run[@]}"
[ -n "$campaign" ] || { echo "$0: --seconds is for --campaigns" >&2; exit 2; }
seed=0
until [ "$SECONDS" -ge "$seconds" ]; do
    seed=$((seed + 1))
    echo "· $campaign, seed $seed, $((seconds - SECONDS)) s left"
    "${run[@]}" --seed "$seed" --seconds "$((seconds - SECONDS))"
done
