#!/usr/bin/env bash
# The demo: a chain over a real MCP server reads a Git repository and writes a change report.
#
#     ./demo.sh [repository]
#
# Without an argument the repository is this clone; where that has no history, a small one is made.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
repo=
if [ $# -gt 0 ]; then
    [ -d "$1" ] || { printf '%s\n' "demo.sh: no directory $1; usage: ./demo.sh [repository]" >&2; exit 2; }
    repo=$(cd "$1" && pwd -P)
fi
out=$root/build/demo
example=$root/examples/change_report

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
die() { printf '%s\n' "demo.sh: $*" >&2; exit 1; }

# Whether there is something to report: git reads it, and it has two commits or more.
has_history() { [ "$(git -C "$1" rev-list --count --max-count=2 HEAD 2>/dev/null)" = 2 ]; }

small_repository() {
    local here=$1 who=(-c user.name=Demo -c user.email=demo@example.org -c commit.gpgsign=false)
    rm -rf "$here" && mkdir -p "$here/rope" "$here/docs"
    git -C "$here" init -q
    commit() { git -C "$here" add -A && git "${who[@]}" -C "$here" commit -q -m "$1"; }
    printf 'def strand(n):\n    return "|" * n\n' >"$here/rope/strand.py" && commit "A strand"
    printf 'from .strand import strand\n\n\ndef rope():\n    return [strand(3)] * 3\n' >"$here/rope/rope.py"
    printf '# Rope\n\nThree strands make a rope.\n' >"$here/docs/rope.md" && commit "Three strands make a rope"
    printf 'def strand(n, twist="|"):\n    return twist * n\n' >"$here/rope/strand.py" && commit "Strands may be twisted"
    rm "$here/docs/rope.md" && commit "Remove a page nobody read"
}

command -v git >/dev/null || die "needs git; on Debian: apt-get install git"
"$root/scripts/venv.sh" demo
export PATH=$root/.venv/bin:$PATH
mkdir -p "$out"

if [ -n "$repo" ]; then
    has_history "$repo" || die "$repo is no Git repository with two commits that $(id -un) may read"
elif has_history "$root"; then
    repo=$root
else
    repo=$out/repository
    echo "· this folder has no Git history to report on: making a small repository" >&2
    small_repository "$repo"
fi

# The store and the tools are those of the example's ropewalk.toml. Progress goes to the terminal,
# what every node gave to result.txt: it is long.
cd "$example"
python - "$repo" "$out" >"$out/input.json" <<'PY'
import json, sys
print(json.dumps({"repo": sys.argv[1], "out": sys.argv[2]}))
PY

say "ropewalk validate change_report.yaml"
ropewalk validate change_report.yaml
say "ropewalk run change_report.yaml --input @input.json"
run=demo-$(date +%Y%m%d-%H%M%S)-$$
ropewalk run change_report.yaml --id "$run" --input @"$out/input.json" >"$out/result.txt"
ropewalk graph change_report.yaml --format svg >"$out/graph.svg"

say "The report begins"
head -n 15 "$out/report.md"

say "What there is now"
cat <<END
repository    $repo
report        $out/report.md
              $out/report.json
all results   $out/result.txt
graph         $out/graph.svg
run record    $run
in the store  $example/.ropewalk/ropewalk.db
look at it    cd '$example' && '$root/.venv/bin/ropewalk' runs show $run
END
