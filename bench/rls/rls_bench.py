"""Measures server CPU (utime + stime) a rate limit call: each server alone on one core, `weir bench
rls` on another, in turns, so that what disturbs one disturbs the others."""

import argparse
import json
import os
import re
import resource
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time

GOAL_BARE = 1.4  # weir's CPU over the bare responder's, at most
GOAL_GRPCPP = 5  # grpc++'s CPU over weir's, at least
POLICY = """domain: bench
descriptors:
  - key: key
    rate_limit: {unit: second, requests_per_unit: 4000000000}
"""
CASES = [(4, 100), (4, 1)]  # connections, streams
DESCRIPTORS = 2


def cpu_seconds(pid):
    """User and system time of all threads, those included that have ended since."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    exact = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
            exact += int(stat.read().split()[0])
    # The scheduler's number is in nanoseconds, but forgets threads that have ended.
    return max(exact / 1e9, ticks)


class Server:
    def __init__(self, name, command, ready=r"^(\S+:\d+)$"):
        self.name = name
        self.process = subprocess.Popen(["taskset", "-c", "0"] + command, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.address = None
        while self.address is None:
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f"{name} did not start")
            found = re.search(ready, line)
            if found:
                self.address = found.group(1)

    def stop(self):
        self.process.kill()
        self.process.wait()


def load(weir, server, connections, streams, seconds):
    before = cpu_seconds(server.process.pid)
    out = subprocess.run(
        ["taskset", "-c", "1", weir, "bench", "rls", server.address, "--json",
         "--connections", str(connections), "--streams", str(streams),
         "--descriptors", str(DESCRIPTORS), "--duration", f"{seconds}s"],
        capture_output=True, text=True)
    if out.returncode not in (0, 3) or not out.stdout:
        sys.exit(f"{server.name}: {out.stderr}")
    report = json.loads(out.stdout)
    if report["grpc_errors"]:
        sys.exit(f"{server.name} answered with errors: {report['grpc_errors']}")
    answered = report["ok"] + report["over_limit"]
    return {"cpu_us": (cpu_seconds(server.process.pid) - before) / answered * 1e6,
            "calls_per_second": report["calls_per_second"],
            "p50_us": report["latency"]["p50_us"], "p99_us": report["latency"]["p99_us"],
            "client_cpu_us": report["client_cpu_us_per_call"]}


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def until_accepted(pid, count):
    """Descriptors of the process, once it has taken all that connected."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if len(os.listdir(f"/proc/{pid}/fd")) >= count:
            return
        time.sleep(0.05)
    sys.exit("the server does not take all connections")


def measure_idle(server, count):
    """Memory a connection, of `count` that have said their preface and wait."""
    host, port = server.address.rsplit(":", 1)
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    before = resident_bytes(server.process.pid)
    idle = []
    try:
        for _ in range(count):
            one = socket.create_connection((host, int(port)))
            one.sendall(hello)
            idle.append(one)
        until_accepted(server.process.pid, count)
        for one in idle:  # the server's own preface: it has answered
            one.recv(64)
        return (resident_bytes(server.process.pid) - before) / count
    finally:
        for one in idle:
            one.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", required=True)
    parser.add_argument("--bare", required=True)
    parser.add_argument("--grpcpp", required=True)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rounds = int(os.environ.get("ROUNDS", "5"))
    connections_idle = int(os.environ.get("IDLE", "10000"))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    seconds = int(os.environ.get("SECONDS_EACH", "2"))
    results = []
    with tempfile.TemporaryDirectory() as folder:
        policy = os.path.join(folder, "bench.yaml")
        with open(policy, "w") as file:
            file.write(POLICY)
        servers = [
            Server("bare", [args.bare]),
            Server("weir", [args.weir, "serve", policy, "--http", "off", "--admin", "off",
                            "--grpc", "127.0.0.1:0", "--lanes", "1"], r"^  grpc +(\S+)"),
        ]
        if os.access(args.grpcpp, os.X_OK):
            servers.append(Server("grpc++", [args.grpcpp, policy]))
        for peer in filter(None, os.environ.get("RLS_PEERS", "").split(";")):
            name, command = peer.split("=", 1)
            servers.append(Server(name, shlex.split(command)))
        try:
            for connections, streams in CASES:
                rows = {server.name: [] for server in servers}
                for _ in range(rounds):
                    for server in servers:
                        rows[server.name].append(
                            load(args.weir, server, connections, streams, seconds))
                medians = {name: {field: statistics.median(row[field] for row in each)
                                  for field in each[0]} for name, each in rows.items()}
                results.append({"connections": connections, "streams": streams, **medians})
            idle = {server.name: measure_idle(server, connections_idle) for server in servers}
        finally:
            for server in servers:
                server.stop()
    show(results, args.json, rounds, seconds)
    show_idle(idle, args.json, connections_idle)


def show_idle(idle, as_json, count):
    if as_json:
        print(json.dumps({"bench": "rls_idle", "connections": count, "bytes_a_connection": idle}))
        return
    print(f"memory a connection, {count} idle")
    for name, size in idle.items():
        print(f"  {name:8s} {size / 1024:7.2f} KiB")


def show(results, as_json, rounds, seconds):
    if not as_json:
        print(f"ShouldRateLimit with {DESCRIPTORS} descriptors, server CPU a call "
              f"(median of {rounds} x {seconds} s, one core each for server and load)")
    for row in results:
        names = [name for name in row if isinstance(row[name], dict)]
        weir = row["weir"]["cpu_us"]
        if as_json:
            print(json.dumps({"bench": "rls", "goal_bare": GOAL_BARE, "goal_grpcpp": GOAL_GRPCPP,
                              "weir_over_bare": weir / row["bare"]["cpu_us"], **row}))
            continue
        print(f"{row['connections']} connections x {row['streams']} streams")
        for name in names:
            one = row[name]
            ratio = one["cpu_us"] / weir
            note = ""
            if name == "bare":
                note = f"  weir is {1 / ratio:.2f} x it (goal: at most {GOAL_BARE})"
            elif name == "grpc++":
                note = f"  {ratio:.1f} x weir (goal: at least {GOAL_GRPCPP})"
            elif name != "weir":
                note = f"  {ratio:.1f} x weir"
            print(f"  {name:8s} {one['cpu_us']:7.2f} us  {one['calls_per_second']:9.0f} calls/s  "
                  f"p50 {one['p50_us']:7.0f} us  p99 {one['p99_us']:7.0f} us{note}")


main()
