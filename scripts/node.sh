#!/usr/bin/env bash
# Installs the Node.js MCP servers that some tests talk to, once per package-lock.json.
# Without npm, or when it fails, it says so and the tests that need them are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tests/node" || exit 0
[ -f package-lock.json ] || exit 0
mark=node_modules/.installed
cmp -s package-lock.json "$mark" && exit 0
if ! command -v npm >/dev/null; then
    echo "· no npm: tests over Node.js MCP servers are skipped (apt-get install nodejs npm)" >&2
    exit 0
fi
echo "· npm ci in tests/node" >&2
if npm ci --silent --no-audit --no-fund >&2; then
    cp package-lock.json "$mark"
else
    echo "· npm ci failed: tests over Node.js MCP servers are skipped" >&2
fi
