#!/usr/bin/env python3
# The service of activator.sh: HTTP/1.1 with connections that are kept alive, server-sent events and
# WebSockets on PORT, the same with TLS on the next port, and HTTP/2 without TLS on the one after that if Python has the
# package h2. Appends the number of each request to a file.
# SIGTERM: goes on accepting for a moment, as a preStop hook lets servers do, and ends what is in progress.
# Usage: activator_server.py PORT LOG CERTIFICATE KEY
import base64
import hashlib
import http.server
import os
import signal
import socketserver
import ssl
import sys
import threading
import time

try:
    import h2.connection
    import h2.events
    import h2.exceptions
except ImportError:
    h2 = None

port, log, cert, key = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
stopping = threading.Event()


def record(number):
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, (number + "\n").encode())
    os.close(fd)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if stopping.is_set():
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        number = self.path.rsplit("/", 1)[1]
        record(number)
        self.reply(number.encode() + b" " + str(len(body)).encode())

    def do_GET(self):
        kind, _, number = self.path.lstrip("/").partition("/")
        if kind == "ready":
            self.reply(b"ok")
            return
        record(number)
        if kind == "events":
            self.events(number)
        elif kind == "websocket":
            self.websocket()
        else:
            self.reply(number.encode())

    def events(self, number):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for i in range(5):
            self.wfile.write(f"data: {number}-{i}\n\n".encode())
            self.wfile.flush()
            time.sleep(0.02)
        self.close_connection = True

    def websocket(self):
        accept = hashlib.sha1(
            (self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept).decode())
        self.end_headers()
        for _ in range(3):  # masked frames of up to 125 bytes, sent back without a mask
            head = self.rfile.read(2)
            mask = self.rfile.read(4)
            body = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 0x7F)))
            self.wfile.write(bytes([0x81, len(body)]) + body)
        self.close_connection = True


class Http2(socketserver.BaseRequestHandler):
    """Answers each request with the end of its path."""

    def handle(self):
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        c.initiate_connection()
        self.request.sendall(c.data_to_send())
        while data := self.request.recv(65536):
            for event in c.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    number = dict(event.headers)[":path"].rsplit("/", 1)[1]
                    record(number)
                    c.send_headers(event.stream_id, [(":status", "200")])
                    c.send_data(event.stream_id, number.encode(), end_stream=True)
            self.request.sendall(c.data_to_send())


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    request_queue_size = 256
    daemon_threads = True
    context = None
    busy = 0
    lock = threading.Lock()

    def process_request_thread(self, request, address):
        with self.lock:
            Server.busy += 1
        try:
            if self.context:
                request = self.context.wrap_socket(request, server_side=True)
            super().process_request_thread(request, address)
        except OSError:
            pass
        finally:
            with self.lock:
                Server.busy -= 1

    def handle_error(self, request, address):
        pass


def stop(*_):
    stopping.set()


signal.signal(signal.SIGTERM, stop)
plain = Server(("0.0.0.0", port), Handler)
tls = Server(("0.0.0.0", port + 1), Handler)
tls.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.context.load_cert_chain(cert, key)
servers = [plain, tls] + ([Server(("0.0.0.0", port + 2), Http2)] if h2 else [])
for server in servers:
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
stopping.wait()
time.sleep(1)
for server in servers:
    server.shutdown()
    server.server_close()
end = time.time() + 3
while Server.busy and time.time() < end:
    time.sleep(0.05)
