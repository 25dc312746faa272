#!/usr/bin/env python3
# The clients of activator.sh: send requests of several protocols while a file exists, and check that each is
# answered, and that the service has recorded it once. HTTP/2 without TLS (PORT+2) needs the package h2.
# Usage: activator_load.py IP PORT LOG RUNNING-FILE [PAUSE]
#   PAUSE  seconds between the requests of a client
import base64
import http.client
import itertools
import os
import socket
import ssl
import sys
import threading
import time

try:
    import h2.connection
    import h2.events
except ImportError:
    h2 = None

ip, port, log, running = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
pause = float(sys.argv[5]) if len(sys.argv) > 5 else 0
numbers = itertools.count()
sent, lost = {}, []
TIMEOUT = 120
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE


def number(kind):
    n = f"{kind}-{next(numbers)}"
    sent[n] = kind
    return n


def fresh(kind="fresh"):
    n = number(kind)
    c = http.client.HTTPConnection(ip, port, timeout=TIMEOUT)
    c.request("GET", f"/get/{n}")
    r = c.getresponse()
    assert r.status == 200 and r.read().decode() == n, (r.status, n)
    c.close()


def body():
    n = number("body")
    c = http.client.HTTPConnection(ip, port, timeout=TIMEOUT)
    c.request("POST", f"/post/{n}", body=b"x" * 300000)
    r = c.getresponse()
    assert r.status == 200 and r.read().decode() == f"{n} 300000"
    c.close()


def tls():
    n = number("tls")
    c = http.client.HTTPSConnection(ip, port + 1, timeout=TIMEOUT, context=context)
    c.request("GET", f"/get/{n}")
    r = c.getresponse()
    assert r.status == 200 and r.read().decode() == n
    c.close()


def events():
    n = number("events")
    c = http.client.HTTPConnection(ip, port, timeout=TIMEOUT)
    c.request("GET", f"/events/{n}")
    text = c.getresponse().read().decode()
    assert text == "".join(f"data: {n}-{i}\n\n" for i in range(5)), text
    c.close()


def websocket():
    n = number("websocket")
    s = socket.create_connection((ip, port), timeout=TIMEOUT)
    key = base64.b64encode(os.urandom(16)).decode()
    s.sendall((f"GET /websocket/{n} HTTP/1.1\r\nHost: {ip}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
    f = s.makefile("rb")
    assert b" 101 " in f.readline()
    while f.readline() != b"\r\n":
        pass
    for i in range(3):
        text = f"{n}-{i}".encode()
        s.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
        head = f.read(2)
        assert f.read(head[1]) == text
    s.close()


# Three requests at the same time, on one connection.
def http2():
    wanted = [number("http2") for _ in range(3)]
    c = h2.connection.H2Connection()
    s = socket.create_connection((ip, port + 2), timeout=TIMEOUT)
    c.initiate_connection()
    for i, n in enumerate(wanted):
        c.send_headers(2 * i + 1, [(":method", "GET"), (":path", f"/get/{n}"), (":scheme", "http"), (":authority", ip)],
                       end_stream=True)
    s.sendall(c.data_to_send())
    got, ended = {}, 0
    while ended < len(wanted):
        data = s.recv(65536)
        assert data, "the connection has ended"
        for event in c.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                got[event.stream_id] = got.get(event.stream_id, b"") + event.data
            ended += isinstance(event, h2.events.StreamEnded)
            assert not isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)), event
    assert [got[2 * i + 1].decode() for i in range(3)] == wanted, got
    s.close()


# A server may close an idle connection while a request is sent: then nothing of it was read, and clients send
# it again. The record of the service shows a request that was processed twice.
def keep_alive():
    c = http.client.HTTPConnection(ip, port, timeout=TIMEOUT)
    while os.path.exists(running):
        n = number("keep-alive")
        for attempt in range(2):
            try:
                c.request("GET", f"/get/{n}")
                r = c.getresponse()
                assert r.status == 200 and r.read().decode() == n
                time.sleep(pause)
                break
            except (http.client.RemoteDisconnected, ConnectionError):
                if attempt:
                    raise
                c.close()


def repeat(kind):
    while os.path.exists(running):
        try:
            kind()
        except Exception as error:  # each failure is a lost request
            lost.append(f"{kind.__name__}: {error!r}")
        time.sleep(pause)


kinds = [fresh, fresh, body, tls, events, websocket, keep_alive] + ([http2] if h2 else [])
threads = [threading.Thread(target=repeat, args=(k,)) for k in kinds]
for t in threads:
    t.start()
for t in threads:
    t.join()
recorded = {}
with open(log) as f:
    for line in f:
        recorded[line.strip()] = recorded.get(line.strip(), 0) + 1
missing = [n for n in sent if n not in recorded]
doubled = [n for n, times in recorded.items() if times > 1]
counts = {}
for kind in sent.values():
    counts[kind] = counts.get(kind, 0) + 1
print(f"requests: {len(sent)} ({', '.join(f'{k} {v}' for k, v in sorted(counts.items()))}), "
      f"lost: {len(lost) + len(missing)}, doubled: {len(doubled)}")
for text in lost[:10] + missing[:10] + doubled[:10]:
    print(text)
sys.exit(bool(lost or missing or doubled))
