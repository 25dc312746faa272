# Gives OAuth 2.0 tokens, and pages, lists of targets and receivers that want them. What is asked goes to one log
# for Prometheus and one for others: DIR/theirs.asked, DIR/ours.asked. Prints its port.
import base64, http.server, sys, urllib.parse

directory = sys.argv[1]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *args):
        pass

    def note(self, text):
        theirs = self.headers.get('User-Agent', '').startswith('Prometheus')
        with open(directory + ('/theirs.asked' if theirs else '/ours.asked'), 'a') as log:
            log.write(text + '\n')

    def answer(self, status, content_type, text):
        body = text.encode()
        self.send_response(status)
        self.send_header('Content-Type', content_type)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def token(self, kind, form):
        basic = self.headers.get('Authorization', '')
        if basic.startswith('Basic '):
            basic = base64.b64decode(basic[6:]).decode()
        self.note('token %s [%s] [%s] %s' % (self.path, basic, form, self.headers.get('Content-Type')))
        if kind == 'fail':
            self.answer(400, 'application/json', '{"error":"invalid_client","error_description":"no"}')
        elif kind == 'none':
            self.answer(200, 'application/json', '{"token_type":"bearer"}')
        elif kind == 'body' and basic:
            self.answer(401, 'text/html', '<p>no</p>')
        elif kind == 'form':
            self.answer(200, 'text/plain', 'access_token=tok%2Dform&token_type=bearer&expires_in=3600')
        else:
            life = {'short': ',"expires_in":1', 'text': ',"expires_in":"3600"', 'ever': ''}.get(kind, ',"expires_in":3600')
            kind_of = 'MAC' if kind == 'mac' else 'bearer'
            self.answer(200, 'application/json;charset=UTF-8', '{"access_token":"tok-%s","token_type":"%s"%s}' % (kind, kind_of, life))

    def serve(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        path = urllib.parse.urlsplit(self.path).path
        parts = path.strip('/').split('/')
        if parts[0] == 'token':
            return self.token(parts[1], body.decode())
        self.note('%s %s %s' % (self.command, path, self.headers.get('Authorization')))
        if not self.headers.get('Authorization', '').endswith(' tok-' + parts[-1]) and 'alerts' not in path:
            return self.answer(401, 'text/plain', 'no token')
        if parts[0] == 'sd':
            return self.answer(200, 'application/json', '[{"targets":["found:1"]}]')
        self.answer(200, 'text/plain; version=0.0.4', 'a 1\n')

    do_GET = do_POST = serve


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
