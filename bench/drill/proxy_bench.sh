#!/usr/bin/env bash
# What an idle `weir proxy` costs, beside nothing, socat and (TOXIPROXY=its server) Toxiproxy.
# Usage: proxy_bench.sh [--json]; ROUNDS makes it shorter or longer.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${BUILD:-$here/../../build/bench}
exec /usr/bin/python3 "$here/proxy_bench.py" --weir "$build/bin/weir" "$@"
