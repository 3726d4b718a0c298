#!/usr/bin/python3
"""A small API with a limit, as somebody might have written it: so many calls of each X-API-Key in a
minute, counted in a Redis. What it does when the Redis does not answer is its first argument.

    limited_app.py CONDUCT STORE_PORT LIMIT STORE_TIMEOUT [CERTIFICATE KEY]

prints its port and serves until it is ended. CONDUCT: open, closed, as_limit, errors, hangs, alone
(it looks in no store, though it writes there).
"""
import http.server
import socket
import ssl
import sys
import threading
import time

CONDUCT, STORE_PORT, LIMIT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
STORE_TIMEOUT = None if CONDUCT == "hangs" else float(sys.argv[4])
counts = {}
lock = threading.Lock()


def ask_store(*words):
    command = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.create_connection(("127.0.0.1", STORE_PORT), timeout=STORE_TIMEOUT) as store:
        store.sendall(command.encode())
        answer = b""
        while not answer.endswith(b"\r\n"):
            some = store.recv(64)
            if not some:
                raise ConnectionError("the store hung up")
            answer += some
    return int(answer[1:])


def over_in_store(key):
    name = f"{key}:{int(time.time() // 60)}"
    count = ask_store("INCR", name)
    if count == 1:
        ask_store("PEXPIRE", name, "120000")
    return count > LIMIT


def over_here(key):
    try:
        ask_store("INCR", key)
    except (OSError, ValueError):
        pass
    with lock:
        counts[key] = counts.get(key, 0) + 1
        return counts[key] > LIMIT


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        key = self.headers.get("X-API-Key", "")
        try:
            over = over_here(key) if CONDUCT == "alone" else over_in_store(key)
            self.answer(429 if over else 200)
        except (OSError, ValueError):
            self.answer({"open": 200, "closed": 503, "as_limit": 429}.get(CONDUCT, 500))

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

    def handle_error(self, *_):
        pass


class TlsServer(Server):
    def __init__(self, address, handler, certificate, key):
        super().__init__(address, handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)

    # In the thread of the connection: whoever does not agree keeps no other waiting.
    def finish_request(self, request, client_address):
        with self.context.wrap_socket(request, server_side=True) as agreed:
            super().finish_request(agreed, client_address)


server = TlsServer(("127.0.0.1", 0), Api, *sys.argv[5:7]) if len(sys.argv) > 5 else Server(("127.0.0.1", 0), Api)
print(server.server_address[1], flush=True)
server.serve_forever()
