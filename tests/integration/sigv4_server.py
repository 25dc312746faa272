#!/usr/bin/env python3
"""A receiver of remote write that accepts only requests with a valid AWS Signature Version 4, as Amazon Managed Service for
Prometheus does, and the AWS Security Token Service of AssumeRoleWithWebIdentity.

Usage: sigv4_server.py PORT TOKEN_FILE
POST /workspaces/ID/api/v1/remote_write receives; POST / and GET / with Action=AssumeRoleWithWebIdentity returns credentials for the token in
TOKEN_FILE. GET /state returns JSON: the number of accepted samples by access key, and the reasons of refused requests.
"""
import hashlib, hmac, http.server, json, os, sys, time, urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential"))
from remote_write import Message, fields, unsnappy

# Access key: secret key, session token.
KEYS = {"AKIDSTATIC": ("static+secret/key", None), "ASIAROLE": ("secret+of/role", "session/token==")}
STS = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken>
<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""
state = {"samples": {}, "refused": [], "roles": []}


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def canonical_query(query):
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    quote = lambda s: urllib.parse.quote(s, safe="-_.~")
    return "&".join(sorted(f"{quote(k)}={quote(v)}" for k, v in pairs))


def access_key(method, target, headers, body):
    """The access key that signed the request. Raises ValueError."""
    scheme, _, rest = headers.get("Authorization", "").partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        raise ValueError(f"not signed: {scheme!r}")
    part = dict(p.strip().split("=", 1) for p in rest.split(","))
    key, day, region, service, last = part["Credential"].split("/")
    if (service, last) != ("aps", "aws4_request") or key not in KEYS:
        raise ValueError(f"credential {part['Credential']}")
    secret, token = KEYS[key]
    if token and headers.get("X-Amz-Security-Token") != token:
        raise ValueError("no session token")
    signed = part["SignedHeaders"].split(";")
    if "host" not in signed or "x-amz-date" not in signed:
        raise ValueError(f"signed headers {signed}")
    date = headers["X-Amz-Date"]
    if date[:8] != day or abs(time.time() - time.mktime(time.strptime(date, "%Y%m%dT%H%M%SZ")) + time.timezone) > 300:
        raise ValueError(f"date {date}")
    path, _, query = target.partition("?")
    lines = [method, path, canonical_query(query)]
    lines += [f"{h}:{' '.join(headers[h].split())}" for h in signed] + ["", ";".join(signed), hashlib.sha256(body).hexdigest()]
    text = "\n".join(["AWS4-HMAC-SHA256", date, f"{day}/{region}/{service}/{last}", hashlib.sha256("\n".join(lines).encode()).hexdigest()])
    at = ("AWS4" + secret).encode()
    for step in (day, region, service, last):
        at = sign(at, step)
    if not hmac.compare_digest(sign(at, text).hex(), part["Signature"]):
        raise ValueError("wrong signature")
    return key


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def assume_role(self, query):
        form = dict(urllib.parse.parse_qsl(query))
        if form.get("Action") != "AssumeRoleWithWebIdentity" or form.get("WebIdentityToken") != open(sys.argv[2]).read():
            state["refused"].append(f"STS {form.get('Action')}")
            return self.answer(403)
        state["roles"].append(form.get("RoleArn"))
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        self.answer(200, (STS % (*KEYS["ASIAROLE"], until)).encode())

    def do_GET(self):
        if self.path == "/state":
            self.answer(200, json.dumps(state).encode())
        else:
            self.assume_role(self.path.partition("?")[2])

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith("/workspaces/"):
            return self.assume_role(self.path.partition("?")[2] or body.decode())
        try:
            key = access_key("POST", self.path, self.headers, body)
            samples = sum(k == 2 for s in Message(unsnappy(body), False).series for k, _ in fields(s))
        except Exception as e:
            state["refused"].append(repr(e))
            return self.answer(403, repr(e).encode())
        state["samples"][key] = state["samples"].get(key, 0) + samples
        self.answer(200)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
