# SPDX-License-Identifier: Apache-2.0
"""BMCs of two servers: Redfish's ComputerSystem with power states. Usage: redfish_server.py PORT-FILE

gpu-02 ignores an orderly shutdown.
"""
import http.server
import json
import sys

power = {"gpu-01": "Off", "gpu-02": "Off"}


class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def system(self):
        name = self.path.split("/")[4] if self.path.startswith("/redfish/v1/Systems/") else ""
        if not self.headers.get("Authorization"):
            self.reply(401, {})
        elif name not in power:
            self.reply(404, {})
        else:
            return name
        return None

    def do_GET(self):
        name = self.system()
        if name:
            self.reply(200, {"Id": name, "PowerState": power[name]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = self.system()
        if not name:
            return
        if body["ResetType"] == "On":
            power[name] = "On"
        elif body["ResetType"] == "ForceOff" or name == "gpu-01":
            power[name] = "Off"
        self.reply(204, {})

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1], "w", encoding="ascii") as port:
    port.write(f"{server.server_address[1]}\n")
server.serve_forever()
