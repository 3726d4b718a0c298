"""What an idle fault proxy costs: redis-benchmark against a redis-server, with nothing between, with
`weir proxy`, with socat, and with Toxiproxy where TOXIPROXY names its server; in turns, so that what
disturbs one disturbs the others. Prints the median of the rounds."""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

# Connections, commands in flight on each, commands.
CASES = {"one at a time": (1, 1, 15_000), "50 connections": (50, 1, 60_000), "50 connections, 16 in flight": (50, 16, 300_000)}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit(f"nothing listens on {port}")


def measure(port, connections, in_flight, commands):
    """Calls a second, p50 and p99 in microseconds."""
    out = subprocess.run(
        ["redis-benchmark", "-p", str(port), "-c", str(connections), "-P", str(in_flight),
         "-n", str(commands), "-t", "get", "--csv"],
        capture_output=True, text=True, check=True).stdout.splitlines()
    names = next(line for line in out if line.startswith('"test"')).replace('"', "").split(",")
    row = next(line for line in out if line.startswith('"GET"')).replace('"', "").split(",")
    found = dict(zip(names, row))
    return float(found["rps"]), float(found["p50_latency_ms"]) * 1000, float(found["p99_latency_ms"]) * 1000


def version(words, pattern):
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError:
        return "?"
    found = re.search(pattern, done.stdout + done.stderr)
    return found.group(1) if found else "?"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", required=True)
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", "3")))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.weir = os.path.abspath(options.weir)
    children = []
    with tempfile.TemporaryDirectory() as folder:
        def start(*words):
            children.append(subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL))
        try:
            redis = free_port()
            start("redis-server", "--port", str(redis), "--bind", "127.0.0.1", "--save", "",
                  "--appendonly", "no")
            await_port(redis)
            ways = {"none": (redis, version(["redis-server", "--version"], r"v=(\S+)"))}
            port = free_port()
            start(options.weir, "proxy", "--upstream", f"127.0.0.1:{redis}", "--listen",
                  f"127.0.0.1:{port}", "--api", "127.0.0.1:0")
            ways["weir proxy"] = (port, version([options.weir, "--version"], r"weir (\S+)"))
            if shutil.which("socat"):
                port = free_port()
                start("socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=256,nodelay",
                      f"TCP:127.0.0.1:{redis},nodelay")
                ways["socat"] = (port, version(["socat", "-V"], r"socat version (\S+)"))
            if os.environ.get("TOXIPROXY"):
                port, api = free_port(), free_port()
                start(os.environ["TOXIPROXY"], "-port", str(api))
                await_port(api)
                body = {"name": "redis", "listen": f"127.0.0.1:{port}",
                        "upstream": f"127.0.0.1:{redis}"}
                urllib.request.urlopen(urllib.request.Request(
                    f"http://127.0.0.1:{api}/proxies", json.dumps(body).encode())).read()
                ways["toxiproxy"] = (port, os.environ.get("TOXIPROXY_VERSION", "?"))
            for port, _ in ways.values():
                await_port(port)
            report(options, ways)
        finally:
            for child in children:
                child.send_signal(signal.SIGTERM)
            for child in children:
                child.wait()


def report(options, ways):
    found = {(case, way): [] for case in CASES for way in ways}
    for _ in range(options.rounds):
        for case, shape in CASES.items():
            for way, (port, _) in ways.items():
                found[case, way].append(measure(port, *shape))
    rows = []
    for (case, way), rounds in found.items():
        rate, p50, p99 = (statistics.median(values) for values in zip(*rounds))
        rows.append({"case": case, "between": way, "version": ways[way][1], "per_second": round(rate),
                     "p50_us": round(p50), "p99_us": round(p99)})
    if options.json:
        print(json.dumps(rows))
        return
    print(f"GET through an idle proxy, redis-benchmark, median of {options.rounds} rounds")
    print("| case | between | calls a second | p50 µs | p99 µs |")
    print("|---|---|---:|---:|---:|")
    for row in rows:
        print(f"| {row['case']} | {row['between']} {row['version']} | {row['per_second']} | "
              f"{row['p50_us']} | {row['p99_us']} |")


main()
