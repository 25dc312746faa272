"""Hostile clients of exec and port-forward: requests without a token from a page of another origin, frames that the protocol
forbids, ports and streams that do not exist, output that nobody reads, and more sessions than a pod may have. Usage: hostile_streams.py PORT TOKEN-FILE POD. Prints "ok" lines; exits with 1 if the API server does not refuse."""
import os
import socket
import ssl
import struct
import sys
import zlib

port, token, pod = int(sys.argv[1]), open(sys.argv[2]).read().strip(), sys.argv[3]
context = ssl._create_unverified_context()


def connect(path, protocol="v5.channel.k8s.io", more=None):
    """A WebSocket, or the upgrade with the headers `more`, and the first line of the response."""
    more = more or (f"Authorization: Bearer {token}\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                    f"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: {protocol}\r\n")
    c = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))
    c.sendall((f"GET /api/v1/namespaces/default/pods/{pod}/{path} HTTP/1.1\r\nHost: x\r\n"
               f"Connection: Upgrade\r\n{more}\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        got = c.recv(1)
        if not got:
            break
        head += got
    return c, head.split(b"\r\n")[0].decode()


def is_closed(c):
    try:
        while c.recv(65536):
            pass
    except (ssl.SSLError, ConnectionError):
        pass
    except TimeoutError:
        return False
    return True


def fail(text):
    print("FAILED: " + text)
    sys.exit(1)


mask = b"\1\2\3\4"
frames = {
    "a length of 2^63": b"\x82\xff" + struct.pack(">Q", 1 << 63) + mask,
    "a frame without a mask": b"\x82\x05hello",
    "an unknown opcode": b"\x8b\x81" + mask + b"x",
    "reserved bits": b"\xf2\x81" + mask + b"x",
    "a large ping": b"\x89\xfe" + struct.pack(">H", 1000) + mask + b"x" * 1000,
    "a fragmented ping": b"\x09\x81" + mask + b"x",
    "a continuation of nothing": b"\x80\x81" + mask + b"x",
    "random bytes": os.urandom(100000),
}
for name, frame in frames.items():
    c, status = connect("exec?command=cat&stdin=1&stdout=1")
    if " 101 " not in status:
        fail(f"{name}: {status}")
    try:
        c.sendall(frame)
    except (ssl.SSLError, ConnectionError):
        pass  # it has already been closed
    if not is_closed(c):
        fail(f"{name} does not end the connection")
print(f"ok: {len(frames)} kinds of wrong frames end their connection")

# A page of another origin cannot send the token.
for path in ["exec?command=id&stdout=1", "attach?stdout=1", "portforward"]:
    for upgrade in ["websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==", "SPDY/3.1"]:
        _, status = connect(path, more=f"Origin: http://evil.example\r\nUpgrade: {upgrade}\r\n")
        if " 401 " not in status:
            fail(f"{path} without a token: {status}")


class Forward:
    """A port-forward session over SPDY."""

    def __init__(self):
        self.c, status = connect("portforward", more=f"Authorization: Bearer {token}\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n")
        if " 101 " not in status:
            fail(f"port-forward: {status}")
        self.compressor, self.stream = zlib.compressobj(), -1

    def frame(self, kind, payload):
        self.c.sendall(struct.pack(">HHI", 0x8003, kind, len(payload)) + payload)

    def open(self, **headers):
        self.stream += 2
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            block += struct.pack(">I", len(name)) + name.encode() + struct.pack(">I", len(value)) + value.encode()
        block = self.compressor.compress(block) + self.compressor.flush(zlib.Z_SYNC_FLUSH)
        self.frame(1, struct.pack(">IIBB", self.stream, 0, 0, 0) + block)

    def pair(self, number, request, text=b""):
        self.open(streamtype="error", port=number, requestid=request)
        self.open(streamtype="data", port=number, requestid=request)
        if text:
            self.c.sendall(struct.pack(">II", self.stream, len(text)) + text)

    def wait_for(self, what, *parts):
        got = b""
        try:
            while not any(p in got for p in parts):
                more = self.c.recv(65536)
                if not more:
                    break
                got += more
        except (ssl.SSLError, ConnectionError, TimeoutError):
            pass
        if not any(p in got for p in parts):
            fail(f"{what}: {got[-200:]}")


reset = b"\x80\x03\x00\x03"
get = b"GET / HTTP/1.0\r\n\r\n"
for number in ["0", "65536", "-1", "abc", "", "8000x", "9" * 40]:
    f = Forward()
    f.pair(number, "1")
    f.wait_for(f"port {number!r}", reset)
f = Forward()
f.pair("9", "1")
f.wait_for("a port that the pod does not have", b"connection refused")
f = Forward()
f.open(streamtype="other", port="8000", requestid="1")
f.wait_for("a stream of an unknown type", reset)
f = Forward()
bomb = zlib.compress(bytes(50_000_000))
f.frame(1, struct.pack(">IIBB", 1, 0, 0, 0) + bomb)
f.wait_for("headers that grow without end", b"\x80\x03\x00\x07")
flood = Forward()
for i in range(3000):
    flood.pair("8000", str(i))
flood.wait_for("thousands of streams", reset)
unread = Forward()
for i in range(200):
    unread.pair("8000", str(i), b"GET /large HTTP/1.0\r\n\r\n")
f = Forward()
f.pair("8000", "1", get)
f.wait_for("another session", b"200 OK")
print("ok: port-forward without a token, to ports that do not exist, with thousands of streams and without a reader")

# Nobody reads the output of these. The others must still be served, which the caller checks while they are open.
silent, refused = [], ""
for _ in range(100):
    c, status = connect("exec?command=yes&stdout=1")
    if " 101 " in status:
        silent.append(c)
    else:
        refused = status
        break
if not refused.startswith("HTTP/1.1 429"):
    fail(f"{len(silent)} sessions, then: {refused or 'no refusal'}")
print(f"ok: {len(silent)} sessions without a reader, then {refused}", flush=True)
sys.stdin.read()
