"""A small client of the API server: JSON in and out, one connection a thread."""
import http.client
import json
import ssl
import threading
import urllib.parse


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__("%d: %s" % (status, body.get("message", body) if isinstance(body, dict) else body))
        self.status = status
        self.body = body


class Kube:
    def __init__(self, url, ca, cert, key):
        self.address = urllib.parse.urlsplit(url).netloc
        self.context = ssl.create_default_context(cafile=ca)
        self.context.load_cert_chain(cert, key)
        self.local = threading.local()

    def call(self, method, path, body=None, kind="application/json"):
        data = json.dumps(body) if body is not None else None
        for attempt in (0, 1):  # an idle connection may have been closed
            if not getattr(self.local, "connection", None):
                self.local.connection = http.client.HTTPSConnection(self.address, context=self.context, timeout=60)
            try:
                self.local.connection.request(method, path, data, {"Content-Type": kind, "Accept": "application/json"})
                answer = self.local.connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.local.connection = None
                if attempt:
                    raise
        try:
            parsed = json.loads(text) if text else {}
        except ValueError:
            parsed = text.decode(errors="replace")
        if answer.status >= 300:
            raise Refused(answer.status, parsed)
        return parsed

    def get(self, path):
        return self.call("GET", path)

    def changes(self, path, version):
        """Each (type, object) of a watch that begins after this resource version; for at most an hour."""
        connection = http.client.HTTPSConnection(self.address, context=self.context)
        connection.request("GET", "%s?watch=true&timeoutSeconds=3600&resourceVersion=%s" % (path, version))
        answer = connection.getresponse()
        if answer.status != 200:
            raise Refused(answer.status, answer.read().decode(errors="replace"))
        for line in answer:
            change = json.loads(line)
            yield change["type"], change["object"]

    def create(self, path, body):
        return self.call("POST", path, body)

    def put(self, path, body):
        return self.call("PUT", path, body)

    def merge(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path):
        return self.call("DELETE", path)
