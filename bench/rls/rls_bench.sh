#!/usr/bin/env bash
# CPU of a rate limit call: Weir, a bare nghttp2 responder, the same service on grpc++, in one run.
# Usage: rls_bench.sh [--json]; ROUNDS and SECONDS_EACH make it shorter or longer. Other services
# are measured beside them where RLS_PEERS="NAME=COMMAND;…" starts one that prints host:port.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${BUILD:-$here/../../build/bench}
exec /usr/bin/python3 "$here/rls_bench.py" --weir "$build/bin/weir" \
  --bare "$build/bench/bare_nghttp2_server" --grpcpp "$build/bench/grpcpp_server" "$@"
