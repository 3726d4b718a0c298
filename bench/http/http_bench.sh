#!/usr/bin/env bash
# CPU of the HTTP door a request, beside a server that does nothing, in one run.
# Usage: http_bench.sh [--json]; ROUNDS and SECONDS_EACH make it shorter or longer.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${BUILD:-$here/../../build/bench}
exec /usr/bin/python3 "$here/http_bench.py" --weir "$build/bin/weir" \
  --beast "$build/bench/beast_server" "$@"
