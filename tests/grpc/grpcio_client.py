#!/usr/bin/python3
"""Asks a rate limit service with Python's own gRPC client. Arguments: HOST:PORT CALLS.

Prints one line, "ok N over M errors K", where every answer could be read. Messages are put together
by hand, so that nothing but the wire format is shared with the server.
"""
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
WATCH = "/grpc.health.v1.Health/Watch"


def field(number, content):
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def request(domain, key, value):
    entry = field(1, field(1, key) + field(2, value))
    return field(1, domain) + field(2, entry)


def overall_code(response):
    # overall_code is field 1, a varint, and comes first.
    assert response[:1] == b"\x08", response
    return response[1]


def main():
    address, calls = sys.argv[1], int(sys.argv[2])
    ok = over = errors = 0
    with grpc.insecure_channel(address) as channel:
        watch = channel.unary_stream(WATCH)(b"", timeout=20)
        assert next(watch) == b"\x08\x01", "not serving"
        ask = channel.unary_unary(METHOD)

        def one(i):
            # Every other value is not UTF-8.
            value = b"py" if i % 2 else b"\xff\xfe"
            try:
                return overall_code(ask(request(b"edge", b"user", value), timeout=20))
            except grpc.RpcError as error:
                print(error, file=sys.stderr)
                return 0

        with ThreadPoolExecutor(16) as pool:
            for code in pool.map(one, range(calls)):
                ok += code == 1
                over += code == 2
                errors += code not in (1, 2)
        watch.cancel()
    print(f"ok {ok} over {over} errors {errors}")


main()
