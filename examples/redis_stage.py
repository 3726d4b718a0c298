"""What the scripts in sentinel/, cluster/ and shared-breaker/ share: real servers on free ports of 127.0.0.1, a Weir
in front of them, and load on it whose answers are remembered. Standard library only."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

POLICY = """
store: {{url: '{url}', deadline: 200ms, workers: {{of: 1, index: 0}}}}
inputs: [user]
routes:
  search:
    limits: [1000000 per hour by user]
    protects: capacity       # without the store: this worker's part
  login:
    limits: [{{requests: 1000000, per: hour, by: [user], algorithm: gcra}}]
    protects: security       # without the store: refused
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def weir_program():
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.join(here, "..", "build", "release", "bin", "weir")
    found = os.environ.get("WEIR") or (built if os.path.exists(built) else shutil.which("weir"))
    if not found:
        sys.exit("run: no weir here; './dev build' makes one, WEIR=… names one")
    return found


class Stage:
    """Everything that was started, and ends with this."""

    def __init__(self):
        if not shutil.which("redis-server") or not shutil.which("redis-cli"):
            sys.exit("run: redis-server and redis-cli are needed")
        self.folder = tempfile.mkdtemp(prefix="weir-example-")
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, command):
        log = open(os.path.join(self.folder, "log"), "a")
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)
        return process

    def redis(self, *arguments, port=None):
        """A redis-server on that port, or a free one: the port, and its process."""
        port = port or free_port()
        folder = os.path.join(self.folder, str(port))
        os.makedirs(folder, exist_ok=True)
        process = self.start(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir",
                              folder, "--save", "", *map(str, arguments)])
        self.wait("redis-server", lambda: "PONG" in self.cli(port, "ping"))
        return port, process

    def sentinel(self, config):
        port = free_port()
        path = os.path.join(self.folder, f"sentinel-{port}.conf")
        with open(path, "w") as file:
            file.write(f"port {port}\nbind 127.0.0.1\n{config}\n")
        self.start(["redis-server", path, "--sentinel"])
        self.wait("sentinel", lambda: "PONG" in self.cli(port, "ping"))
        return port

    def cli(self, port, *command):
        done = subprocess.run(["redis-cli", "-p", str(port), *map(str, command)],
                              capture_output=True, text=True)
        return done.stdout.strip()

    def weir(self, url, policy=POLICY, admin=None):
        """A server on that store, to be asked: the port of its HTTP door. `admin`: the port of its other."""
        with open(os.path.join(self.folder, "weir.yaml"), "w") as file:
            file.write(policy.format(url=url))
        port = free_port()
        self.start([weir_program(), "serve", "weir.yaml", "--http", f"127.0.0.1:{port}",
                    "--grpc", "off", "--admin", f"127.0.0.1:{admin}" if admin else "off"])
        self.wait("weir", lambda: call(port, "GET", "/healthcheck") is not None)
        return port

    def wait(self, what, done, seconds=30):
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                with open(os.path.join(self.folder, "log")) as log:
                    sys.exit(f"run: {what} does not get there\n{log.read()[-2000:]}")
            time.sleep(0.02)


def call(port, method, path, body=None):
    """Status and JSON of one request, or its text; None where nobody answers."""
    try:
        way = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        way.request(method, path, json.dumps(body) if body is not None else None)
        reply = way.getresponse()
        text = reply.read().decode()
        return reply.status, json.loads(text) if text.startswith("{") else text
    except OSError:
        return None


def ask(port, route, user, connection=None):
    """Status and rung of one check; None where nobody answers."""
    try:
        way = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        way.request("POST", "/v1/check",
                    json.dumps({"route": route, "descriptors": {"user": user}}))
        reply = way.getresponse()
        body = json.loads(reply.read())
        return reply.status, body.get("rung", "?")
    except OSError:
        return None


class Load:
    """Asks for both routes of a few users, some hundred times a second, and remembers."""

    def __init__(self, port, users):
        self.seen = []  # (when, user, route, status, rung)
        self.stopping = False
        self.thread = threading.Thread(target=self.run, args=(port, users))
        self.thread.start()

    def run(self, port, users):
        way = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        while not self.stopping:
            for user in users:
                for route in ("search", "login"):
                    answer = ask(port, route, user, way)
                    if answer is None:  # whoever waits for longer than that has gone
                        answer = (None, "nobody")
                        way = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                    self.seen.append((time.monotonic(), user, route, *answer))
            time.sleep(0.005)

    def stop(self):
        self.stopping = True
        self.thread.join()

    def by_store_since(self, when, users):
        """Whether the store decided each of the users' latest ten checks since then."""
        for user in users:
            seen = [s for s in self.seen if s[0] > when and s[1] == user][-10:]
            if len(seen) < 10 or any(rung != "store" for *_, rung in seen):
                return False
        return True

    def gap(self, when, users):
        """Seconds from `when` to the last answer that the store did not give."""
        late = [s[0] for s in self.seen if s[0] > when and s[1] in users and s[4] != "store"]
        return max(late) - when if late else 0.0

    def failing(self, since, users):
        """Answers since then that were neither 200, 429 nor 503, or none at all."""
        return [s for s in self.seen if s[0] > since and s[1] in users and s[3] not in (200, 429, 503)]

    def tell(self, title, since, users):
        """Prints what was answered since then, by route."""
        print(title)
        for route in ("search", "login"):
            counts = {}
            for when, user, of, status, rung in self.seen:
                if when > since and user in users and of == route:
                    counts[status, rung] = counts.get((status, rung), 0) + 1
            words = ", ".join(f"{n} × {status or 'no answer'} by {'the ' if status else ''}{rung}"
                              for (status, rung), n in sorted(counts.items(), key=str))
            print(f"  {route:7}{words or 'nothing was asked'}")


def expect(holds, what):
    """Ends with status 1 where what was to be shown did not happen."""
    if not holds:
        sys.exit(f"run: this time {what}")


def end_with(main):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
