"""Other limiters under the same drill: each as its own documents set it up, on one redis-server, asked
by `weir drill --target` while that is away, silent or slow. A peer whose toolchain is not there is
passed over, with a line. Prints a table of what each turned out to do.

Names of peers after the options choose among: weir, envoy-ratelimit, node-ladder, node-defaults,
express, express-insured, flask-swallow, flask-fallback, django-cache.
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 100
SCENARIOS = ["down", "slow-50ms", "slow-5s", "blackhole", os.path.join(HERE, "long-hang.yaml")]
FLEXIBLE = ["rate-limiter-flexible", "express", "ioredis"]
FLASK = ["Flask-Limiter", "redis", "waitress"]
DJANGO = ["django-ratelimit", "django-redis", "redis", "waitress"]
POLICY = f"""domain: drill
descriptors:
  - key: api_key
    rate_limit: {{unit: minute, requests_per_unit: {LIMIT}}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port, child=None):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if child is not None and child.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on {port}")


def first_line(words, pattern=r"(\d+\.\d+[^\s/]*)"):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    found = re.search(pattern, done.stdout + done.stderr)
    return found.group(1) if found else "?"


class Passed(Exception):
    """A peer that cannot be had here, and why."""


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.children = options, folder, []

    def start(self, words, env=None, log="log", cwd=None):
        file = open(os.path.join(self.folder, log), "ab")
        child = subprocess.Popen(words, cwd=cwd or self.folder, stdout=file, stderr=file,
                                 env={**os.environ, **(env or {})})
        self.children.append(child)
        return child

    def end(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.children = []

    def envoy(self, rls_port):
        envoy = os.environ.get("ENVOY") or shutil.which("envoy")
        if not envoy:
            raise Passed("Envoy is not here (ENVOY=… names one)")
        port = free_port()
        with open(os.path.join(HERE, "peers", "envoy.yaml")) as file:
            text = file.read()
        for name, value in {"HTTP_PORT": port, "RLS_PORT": rls_port, "APP_PORT": free_port()}.items():
            text = text.replace(name, str(value))
        path = os.path.join(self.folder, "envoy.yaml")
        with open(path, "w") as file:
            file.write(text)
        child = self.start([envoy, "-c", path, "--use-dynamic-base-id", "--concurrency", "1",
                            "--log-level", "error"], log="envoy.log")
        await_port(port, child)
        return port, f"Envoy {first_line([envoy, '--version'], r'/([0-9.]+)/')}"

    # Each starts its app, whose store is at store_port; returns the app's port and what it is.
    def weir(self, store_port):
        with open(os.path.join(self.folder, "drill.yaml"), "w") as file:
            file.write("protects: capacity\n" + POLICY)
        rls = free_port()
        child = self.start([self.options.weir, "serve", "drill.yaml", "--store",
                            f"redis://127.0.0.1:{store_port}/0", "--http", "off", "--grpc",
                            f"127.0.0.1:{rls}", "--admin", "off"], log="weir.log")
        await_port(rls, child)
        port, envoy = self.envoy(rls)
        return port, f"Weir {first_line([self.options.weir, '--version'])}, {envoy}"

    def envoy_ratelimit(self, store_port):
        program = os.environ.get("RATELIMIT")
        if not program:
            raise Passed("envoyproxy/ratelimit is not here (RATELIMIT=… names its service_cmd)")
        config = os.path.join(self.folder, "ratelimit", "config")
        os.makedirs(config, exist_ok=True)
        with open(os.path.join(config, "drill.yaml"), "w") as file:
            file.write(POLICY)
        rls, http, debug = free_port(), free_port(), free_port()
        child = self.start([program], log="ratelimit.log", env={
            "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{store_port}", "USE_STATSD": "false",
            "RUNTIME_ROOT": self.folder, "RUNTIME_SUBDIRECTORY": "ratelimit",
            "RUNTIME_WATCH_ROOT": "false", "LOG_LEVEL": "error", "GRPC_PORT": str(rls),
            "GRPC_HOST": "127.0.0.1", "HOST": "127.0.0.1", "PORT": str(http),
            "DEBUG_HOST": "127.0.0.1", "DEBUG_PORT": str(debug)})
        await_port(rls, child)
        port, envoy = self.envoy(rls)
        return port, f"envoyproxy/ratelimit {os.environ.get('RATELIMIT_VERSION', '?')}, {envoy}"

    def port_of(self, child, log):
        """The port that an app prints as its first line."""
        until = time.monotonic() + 30
        while time.monotonic() < until and child.poll() is None:
            with open(os.path.join(self.folder, log)) as file:
                line = file.readline()
            if line.endswith("\n") and line.strip().isdigit():
                return int(line)
            time.sleep(0.05)
        raise RuntimeError(f"{log} does not serve")

    def node(self, file, conduct, store_port, packages):
        if not shutil.which("node"):
            raise Passed("node is not here")
        modules = os.environ.get("NODE_PEERS")
        if not modules:
            raise Passed(f"{', '.join(packages)} is not here (NODE_PEERS=… names a folder where `npm "
                         "install` was done with bench/drill/peers/package.json)")
        versions = []
        for name in packages:
            path = os.path.join(modules, "node_modules", name, "package.json")
            if not os.path.exists(path):
                raise Passed(f"{name} is not in {modules}")
            with open(path) as about:
                versions.append(f"{name} {json.load(about)['version']}")
        app = os.path.join(modules, file.replace(".js", ".mjs"))
        shutil.copy(os.path.join(HERE, "peers", file), app)
        child = self.start(["node", app, conduct, str(store_port), str(LIMIT)], log=f"node-{conduct}")
        port = self.port_of(child, f"node-{conduct}")
        return port, f"{', '.join(versions)}, node {first_line(['node', '--version'])}"

    def python(self, conduct, store_port, packages):
        python = os.environ.get("PYTHON_PEERS")
        if not python:
            raise Passed(f"{', '.join(packages)} is not here (PYTHON_PEERS=… names a python that has "
                         "bench/drill/peers/requirements.txt)")
        versions = subprocess.run(
            [python, "-c", "import importlib.metadata as m, sys\n"
             "print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))", *packages],
            capture_output=True, text=True)
        if versions.returncode != 0:
            raise Passed(versions.stderr.strip().splitlines()[-1])
        child = self.start([python, os.path.join(HERE, "peers", "python_app.py"), conduct,
                            str(store_port), str(LIMIT)], log=conduct)
        return self.port_of(child, conduct), versions.stdout.strip()

    # One scenario, on a store and an app that have seen no other.
    def run(self, name, scenario):
        redis, store = free_port(), free_port()
        self.start(["redis-server", "--port", str(redis), "--bind", "127.0.0.1", "--save", "",
                    "--appendonly", "no"], log="redis.log")
        await_port(redis)
        # The drill listens once it runs; apps that ask for their store at once meet it a moment later.
        drill = None
        try:
            starts = {"weir": self.weir, "envoy-ratelimit": self.envoy_ratelimit,
                      "node-ladder": lambda port: self.node("ladder.js", "ladder", port, ["ioredis"]),
                      "node-defaults": lambda port: self.node("ladder.js", "defaults", port, ["ioredis"]),
                      "express": lambda port: self.node("express.js", "express", port, FLEXIBLE),
                      "express-insured": lambda port: self.node("express.js", "insured", port, FLEXIBLE),
                      "flask-swallow": lambda port: self.python("flask-swallow", port, FLASK),
                      "flask-fallback": lambda port: self.python("flask-fallback", port, FLASK),
                      "django-cache": lambda port: self.python("django-cache", port, DJANGO)}
            relay = self.start([self.options.weir, "proxy", "--upstream", f"127.0.0.1:{redis}",
                                "--listen", f"127.0.0.1:{store}", "--api", "127.0.0.1:0"],
                               log="first-proxy")
            await_port(store, relay)
            port, version = starts[name](store)
            relay.send_signal(signal.SIGTERM)
            relay.wait()
            self.children.remove(relay)
            words = [self.options.weir, "drill", "--target", f"http://127.0.0.1:{port}/",
                     "--proxy-store", f"127.0.0.1:{redis}", "--listen", f"127.0.0.1:{store}",
                     "--limit", f"{LIMIT} per minute", "--key", "header:X-API-Key", "--json",
                     scenario]
            drill = subprocess.run(words, capture_output=True, text=True, timeout=900)
            if drill.returncode not in (0, 1):
                raise RuntimeError(drill.stderr.strip())
            return version, json.loads(drill.stdout)
        finally:
            self.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", required=True)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("peers", nargs="*",
                        default=["weir", "envoy-ratelimit", "node-ladder", "node-defaults", "express",
                                 "express-insured", "flask-swallow", "flask-fallback", "django-cache"])
    options = parser.parse_args()
    options.weir = os.path.abspath(options.weir)
    if not options.json:
        print(f"| peer | scenario | while it lasts | p50, p99 ms | afterwards |\n|---|---|---|---:|---|")
    for name in options.peers:
        try:
            for scenario in options.scenarios.split(","):
                try:
                    with tempfile.TemporaryDirectory() as folder:
                        version, report = Bench(options, folder).run(name, scenario)
                except RuntimeError as why:
                    print(f"{name}, {scenario}: {str(why).splitlines()[-1]}", file=sys.stderr)
                    continue
                tell(options, name, version, report)
        except Passed as why:
            print(f"passed over: {name}: {why}", file=sys.stderr)


def tell(options, name, version, report):
    if options.json:
        print(json.dumps({"peer": name, "version": version, **report}), flush=True)
        return
    if report["phases"][0]["finding"].split(":")[0] != "limits":
        print(f"{name}: {report['phases'][0]['finding']}", file=sys.stderr)
    back = next((each["found"] for each in report["expectations"] if "as before" in each["text"]), "")
    for phase in report["phases"]:
        if phase["calm"]:
            continue
        steady = next(each for each in phase["routes"][0]["clients"] if each["kind"] == "well-behaved")
        print(f"| {name} ({version}) | {report['scenario']}, {phase['phase']} | "
              f"{phase['finding']} | {steady['p50_ms']:.0f}, {steady['p99_ms']:.0f} | {back} |",
              flush=True)


main()
