"""Measures server CPU (utime + stime) a request: weir's HTTP door and a do-nothing Beast server,
each alone on one core, wrk on another, in turns, so that what disturbs one disturbs the other."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GOAL = 1.5
POLICY = """routes:
  api:
    limits: [{requests: 1000000000, per: second, by: [ip], algorithm: gcra}]
    protects: nothing
"""
TICK = os.sysconf("SC_CLK_TCK")
CASES = [(1, 1), (16, 1), (64, 1), (16, 16)]  # connections, pipelined


def cpu_seconds(pid):
    """User and system time; from schedstat, in nanoseconds, where the kernel has it."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
            total += int(stat.read().split()[0])
    return total / 1e9


def user_share(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[11]) / TICK, int(fields[12]) / TICK


class Server:
    def __init__(self, name, command, core, ready):
        self.name = name
        self.process = subprocess.Popen(["taskset", "-c", str(core)] + command,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)
        self.url = None
        while self.url is None:
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f"{name} did not start")
            found = re.search(ready, line)
            if found:
                self.url = found.group(1)

    def stop(self):
        self.process.kill()
        self.process.wait()


def wrk(url, core, connections, pipelined, seconds):
    out = subprocess.run(
        ["taskset", "-c", str(core), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency",
         "-s", f"{HERE}/check.lua", url, "--", str(pipelined)],
        check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        sys.exit("the load met errors:\n" + out)
    requests = int(re.search(r"(\d+) requests in", out).group(1))
    latency = dict(re.findall(r"^\s+(50|99)%\s+(\S+)$", out, re.M))
    return requests, latency.get("50", ""), latency.get("99", "")


def measure(servers, connections, pipelined, rounds, seconds):
    rows = {server.name: [] for server in servers}
    for _ in range(rounds):
        for server in servers:
            wall, cpu = time.monotonic(), cpu_seconds(server.process.pid)
            user, system = user_share(server.process.pid)
            requests, p50, p99 = wrk(server.url, 1, connections, pipelined, seconds)
            cpu = cpu_seconds(server.process.pid) - cpu
            after = user_share(server.process.pid)
            rows[server.name].append({
                "cpu_us": cpu / requests * 1e6,
                "user_us": (after[0] - user) / requests * 1e6,
                "system_us": (after[1] - system) / requests * 1e6,
                "rps": requests / (time.monotonic() - wall), "p50": p50, "p99": p99})
    return {name: {"cpu_us": statistics.median(r["cpu_us"] for r in each),
                   "user_us": statistics.median(r["user_us"] for r in each),
                   "system_us": statistics.median(r["system_us"] for r in each),
                   "rps": statistics.median(r["rps"] for r in each),
                   "p50": each[-1]["p50"], "p99": each[-1]["p99"]}
            for name, each in rows.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", required=True)
    parser.add_argument("--beast", required=True)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rounds = int(os.environ.get("ROUNDS", "5"))
    seconds = int(os.environ.get("SECONDS_EACH", "2"))
    with tempfile.TemporaryDirectory() as folder:
        policy = os.path.join(folder, "weir.yaml")
        with open(policy, "w") as out:
            out.write(POLICY)
        weir = Server("weir", [args.weir, "serve", policy, "--http", "127.0.0.1:0", "--grpc", "off",
                               "--admin", "off", "--lanes", "1"], 0, r"^  http +(http://\S+)")
        beast = Server("beast", [args.beast], 0, r"^(http://\S+)")
        try:
            results = []
            for connections, pipelined in CASES:
                got = measure([beast, weir], connections, pipelined, rounds, seconds)
                results.append({"connections": connections, "pipelined": pipelined, **got,
                                "ratio": got["weir"]["cpu_us"] / got["beast"]["cpu_us"]})
        finally:
            weir.stop()
            beast.stop()
    if args.json:
        for row in results:
            print(json.dumps({"bench": "http_check", "goal": GOAL, **row}))
        return
    print(f"POST /v1/check, server CPU a request in us (median of {rounds} x {seconds} s; goal: "
          f"weir <= {GOAL} x beast)")
    print("conns pipelined |  beast   (user/sys)   rps  |   weir   (user/sys)   rps  | ratio")
    for row in results:
        cells = []
        for name in ("beast", "weir"):
            one = row[name]
            cells.append(f"{one['cpu_us']:6.2f} ({one['user_us']:5.2f}/{one['system_us']:5.2f}) "
                         f"{one['rps']:8.0f}")
        verdict = "" if row["ratio"] <= GOAL else "  over the goal"
        print(f"{row['connections']:5d} {row['pipelined']:9d} | {cells[0]} | {cells[1]} | "
              f"{row['ratio']:5.2f}{verdict}")


main()
