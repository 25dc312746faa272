#!/usr/bin/env python3
"""A service with a queue: POST /work?seconds=0.5 queues one piece of work, one worker does the
work in order, and /metrics says how many wait. The standard library is all that it needs."""
import os
import queue
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ.get("PORT", "8000"))
waiting = queue.Queue(maxsize=10000)
done = 0


def work():
    global done
    while True:
        time.sleep(waiting.get())  # the model, the video, the report …
        done += 1


def metrics():
    return (
        "# HELP queue_depth Pieces of work that wait.\n"
        "# TYPE queue_depth gauge\n"
        f"queue_depth {waiting.qsize()}\n"
        "# HELP work_done_total Pieces of work that are done.\n"
        "# TYPE work_done_total counter\n"
        f"work_done_total {done}\n"
    )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/metrics":
            self.reply(200, metrics())
        else:
            self.reply(200 if self.path == "/healthz" else 404, "")

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        try:
            query = urllib.parse.parse_qs(url.query)
            seconds = min(max(float(query.get("seconds", ["0.5"])[0]), 0), 60)
            waiting.put_nowait(seconds)
        except (ValueError, queue.Full) as problem:
            self.reply(503 if isinstance(problem, queue.Full) else 400, f"{problem}\n")
            return
        self.reply(202, f"{waiting.qsize()} wait\n")

    def log_message(self, *_):
        pass


threading.Thread(target=work, daemon=True).start()
ThreadingHTTPServer(("", PORT), Handler).serve_forever()
