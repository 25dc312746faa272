# Peers that a server must survive: floods.py NAME PORT HEALTH_PATH [tls]. Each step waits for a condition.
import resource
import socket
import ssl
import sys
import time

name, port, health = sys.argv[1], int(sys.argv[2]), sys.argv[3]
tls = len(sys.argv) > 4
PATIENCE = 180
PARTIAL = b"\x16\x03\x01\x01\x02\x01" if tls else b"GET / HTTP/1.1\r\nX: "

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def dial():
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def probe():
    """The status of the health page, over a new connection; a closed one is tried again."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with dial() as s:
                if tls:
                    context = ssl._create_unverified_context()
                    s = context.wrap_socket(s)
                s.sendall(f"GET {health} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                reply = s.recv(64)
                if reply:
                    return reply.split()[1].decode()
        except OSError as e:
            reply = e
        if time.monotonic() > end:
            sys.exit(f"FAILED: {name}: no reply of {health}: {reply}")
        time.sleep(0.1)


def sockets_of_server(state):
    n = 0
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        with open(table) as rows:
            next(rows)
            for row in rows:
                fields = row.split()
                n += int(fields[1].rsplit(":", 1)[1], 16) == port and fields[3] == state
    return n


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"FAILED: {name}: {what}")
        time.sleep(0.1)


def check(what):
    status = probe()
    if status != "200":
        sys.exit(f"FAILED: {name}: {what}: {health} is {status}")
    print(f"ok: {name}: {what}", flush=True)


def leavers():
    for _ in range(200):
        with dial() as s:
            s.sendall(PARTIAL)
    check("200 peers that left within a request")
    wait_for("sockets remain in CLOSE-WAIT", lambda: sockets_of_server("08") == 0)


def silent(n, bytes_first):
    peers = []
    for _ in range(n):
        s = dial()
        if bytes_first:
            s.sendall(bytes_first)
        peers.append(s)
    check(f"{n} {'unfinished' if bytes_first else 'silent'} peers")
    for s in peers:
        s.close()
    wait_for("sockets remain in CLOSE-WAIT", lambda: sockets_of_server("08") == 0)


def drips(n):
    peers = [dial() for _ in range(n)]
    for s in peers:
        s.sendall(PARTIAL)
        s.setblocking(False)

    def all_closed():
        for s in list(peers):
            try:
                if not s.send(b"\x01" if tls else b"x") or s.recv(1000) == b"":
                    peers.remove(s)
            except BlockingIOError:
                pass
            except OSError:
                peers.remove(s)
        return not peers

    wait_for("slow heads are not closed", all_closed)
    check(f"{n} slow heads")


leavers()
silent(1200, b"")
silent(300, PARTIAL)
drips(40)
