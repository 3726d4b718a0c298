#!/usr/bin/env bash
# Other limiters under the same drill as Weir. Not a benchmark of speed, and not run by ./dev bench: it
# takes a minute and a half for each peer.
# Usage: peers.sh [--json] [--scenarios NAME,…] [PEER…]; ENVOY, RATELIMIT, NODE_PEERS, PYTHON_PEERS name what is there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${BUILD:-$here/../../build/bench}
exec /usr/bin/python3 "$here/peers.py" --weir "$build/bin/weir" "$@"
