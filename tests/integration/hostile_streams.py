"""Hostile clients of exec and port-forward: frames that the protocol forbids, output that nobody reads, and more sessions than
a pod may have. Usage: hostile_streams.py PORT TOKEN-FILE POD. Prints "ok" lines; exits with 1 if the API server does not refuse."""
import os
import socket
import ssl
import struct
import sys

port, token, pod = int(sys.argv[1]), open(sys.argv[2]).read().strip(), sys.argv[3]
context = ssl._create_unverified_context()


def connect(path, protocol="v5.channel.k8s.io"):
    """A WebSocket, and the first line of the response."""
    c = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))
    c.sendall((f"GET /api/v1/namespaces/default/pods/{pod}/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
               "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
               f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n").encode())
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
