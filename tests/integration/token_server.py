#!/usr/bin/env python3
"""A receiver of remote write that accepts only requests with a valid bearer token: one that it has issued as Microsoft Entra ID does
(client credentials grant of its endpoint v2.0), or the one that is in TOKEN_FILE at that time.

Usage: token_server.py PORT SECRET TOKEN_FILE
POST /TENANT/oauth2/v2.0/token issues tokens that are valid for 4 s. POST /dataCollectionRules/DCR/streams/STREAM/api/v1/write and
POST /api/v1/write receive. GET /state returns JSON: the number of accepted samples by token, and the reasons of refused requests.
"""
import base64, http.server, json, os, sys, time, urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential"))
from remote_write import Message, fields, unsnappy

LIFE_S = 4
CLIENT = "00000000-0000-0000-0000-000000000000"
state = {"samples": {}, "refused": []}
issued = {}  # token -> when it expires


def issue(headers, body):
    form = dict(urllib.parse.parse_qsl(body.decode()))
    user, secret = form.get("client_id"), form.get("client_secret")
    if headers.get("Authorization", "").startswith("Basic "):
        user, secret = (urllib.parse.unquote(s) for s in base64.b64decode(headers["Authorization"][6:]).decode().split(":", 1))
    if form.get("grant_type") != "client_credentials" or form.get("scope") != "https://monitor.azure.com/.default":
        raise ValueError(f"token request {form}")
    if (user, secret) != (CLIENT, sys.argv[2]):
        raise ValueError(f"client {user}")
    token = f"issued-{len(issued)}"
    issued[token] = time.time() + LIFE_S
    return json.dumps({"token_type": "Bearer", "expires_in": LIFE_S, "ext_expires_in": LIFE_S, "access_token": token})


def check(path, query, token):
    """Raises ValueError if the token is not valid for this address."""
    if path == "/api/v1/write":
        valid = token == open(sys.argv[3]).read().strip()
    else:
        valid = issued.get(token, 0) > time.time()
        if not path.startswith("/dataCollectionRules/") or query != "api-version=2023-04-24":
            raise ValueError(f"address {path}?{query}")
    if not valid:
        raise ValueError(f"token {token}")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=""):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        self.answer(200, json.dumps(state))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, _, query = self.path.partition("?")
        try:
            if path.endswith("/oauth2/v2.0/token"):
                return self.answer(200, issue(self.headers, body))
            kind, _, token = self.headers.get("Authorization", "").partition(" ")
            check(path, query, token if kind == "Bearer" else None)
            samples = sum(k == 2 for s in Message(unsnappy(body), False).series for k, _ in fields(s))
        except Exception as e:
            state["refused"].append(repr(e))
            return self.answer(401, json.dumps({"error": repr(e)}))
        state["samples"][token] = state["samples"].get(token, 0) + samples
        self.answer(200)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
