#!/usr/bin/env bash
# A breaker's cost on the way of a call, beside breakers for Go and for Rust where their toolchains are
# present.
# Usage: breaker_bench.sh [--quick]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${BUILD:-$here/../../build/bench}
"$build/bench/breaker_bench" "$@"
if command -v go >/dev/null; then
  (cd "$here" && go build -o "$build/bench/breaker_contestants" .)
  "$build/bench/breaker_contestants"
else
  echo "no Go toolchain: contestants left out" >&2
fi
if command -v cargo >/dev/null; then
  (cd "$here/recloser" && CARGO_TARGET_DIR=$build/bench/recloser cargo build --quiet --release --locked)
  "$build/bench/recloser/release/recloser_contestant"
else
  echo "no Rust toolchain: recloser left out" >&2
fi
