# A name server on 127.0.0.1:53 over UDP and TCP. ZONE is a file with lines "NAME TYPE DATA…"; TYPE SERVFAIL and NONE
# (no answer at all) say how it behaves; "big" names do not fit into a datagram.
import socket, socketserver, struct, sys, threading

TYPES = {'A': 1, 'NS': 2, 'CNAME': 5, 'MX': 15, 'AAAA': 28, 'SRV': 33}


def wire(name):
    return b''.join(bytes([len(p)]) + p.encode() for p in name.rstrip('.').split('.') if p) + b'\0'


def data(kind, words):
    if kind == 'A':
        return socket.inet_aton(words[0])
    if kind == 'AAAA':
        return socket.inet_pton(socket.AF_INET6, words[0])
    if kind == 'SRV':
        return struct.pack('>HHH', *map(int, words[:3])) + wire(words[3])
    if kind == 'MX':
        return struct.pack('>H', int(words[0])) + wire(words[1])
    return wire(words[0])


def answer(query, tcp):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += query[at] + 1
    name, asked = '.'.join(labels), struct.unpack('>H', query[at + 1:at + 3])[0]
    question = query[12:at + 5]
    rows = [line.split() for line in open(sys.argv[1]) if line.split()]
    rows = [r for r in rows if r[0] == name]
    code, cut, records = 0 if rows else 3, False, b''
    n = 0
    # Adds the records of the name to which an alias points.
    alias = [words[0] for _, kind, *words in rows if kind == 'CNAME']
    for _, kind, *words in rows:
        if kind == 'NONE':
            return None
        if kind == 'SERVFAIL':
            code = 2
        elif TYPES[kind] in (asked, 5):
            rest = data(kind, words)
            owner = wire(alias[0]) if alias and kind != 'CNAME' else b'\xc0\x0c'
            records += owner + struct.pack('>HHIH', TYPES[kind], 1, 30, len(rest)) + rest
            n += 1
    if name.startswith('big') and not tcp:
        cut, records, n = True, b'', 0
    flags = 0x8580 | code | (0x0200 if cut else 0)
    return query[:2] + struct.pack('>HHHHH', flags, 1, n, 0, 0) + question + records


class Datagram(socketserver.BaseRequestHandler):
    def handle(self):
        reply = answer(self.request[0], False)
        if reply:
            self.request[1].sendto(reply, self.client_address)


class Stream(socketserver.StreamRequestHandler):
    def handle(self):
        size = struct.unpack('>H', self.rfile.read(2))[0]
        reply = answer(self.rfile.read(size), True)
        if reply:
            self.wfile.write(struct.pack('>H', len(reply)) + reply)


socketserver.TCPServer.allow_reuse_address = True
udp = socketserver.ThreadingUDPServer(('127.0.0.1', 53), Datagram)
tcp = socketserver.ThreadingTCPServer(('127.0.0.1', 53), Stream)
threading.Thread(target=tcp.serve_forever, daemon=True).start()
print('serving', flush=True)
udp.serve_forever()
