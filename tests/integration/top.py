"""Types keys into gpuscale top and reads its screen, which a small terminal emulator keeps.
Usage: top.py GPUSCALE EXPORTER PIDFILE PAGE"""
import codecs, fcntl, os, pty, re, resource, select, signal, struct, sys, termios, time, unicodedata

gpuscale, exporter, pidfile, page = sys.argv[1:]
PATIENCE = 120
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one program is killed by SIGSEGV


class Terminal:
    """What gpuscale draws with TERM=xterm-256color."""

    def __init__(self, command, rows=24, columns=100, **environment):
        self.rows, self.columns, self.raw, self.modes = rows, columns, b"", None
        self.clear()
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(environment)
            self.size(1, rows, columns)
            os.execv(command[0], command)
        self.size(self.fd, rows, columns)

    def size(self, fd, rows, columns):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.clear()
        self.size(self.fd, rows, columns)

    def clear(self):
        self.cells, self.y, self.x, self.last = [[" "] * 1000 for _ in range(1000)], 0, 0, " "

    def put(self, c):
        self.cells[self.y][self.x] = c
        self.last = c
        self.x += 1
        if unicodedata.east_asian_width(c) in "WF":
            self.cells[self.y][self.x] = ""
            self.x += 1

    def control(self, parameters, final):
        n = [int(p) if p.isdigit() else 0 for p in parameters.split(";")]
        one, row = max(n[0], 1), self.cells[self.y]
        if final == "H": self.y, self.x = max(n[0], 1) - 1, max(n[1] if len(n) > 1 else 1, 1) - 1
        elif final == "A": self.y -= one
        elif final == "B": self.y += one
        elif final == "C": self.x += one
        elif final == "D": self.x -= one
        elif final == "G": self.x = one - 1
        elif final == "d": self.y = one - 1
        elif final == "J":
            if n[0] == 2: self.cells = [[" "] * 1000 for _ in range(1000)]
            else:
                row[self.x:] = [" "] * (1000 - self.x)
                self.cells[self.y + 1:] = [[" "] * 1000 for _ in range(1000 - self.y - 1)]
        elif final == "K":
            if n[0] == 1: row[:self.x + 1] = [" "] * (self.x + 1)
            else: row[self.x:] = [" "] * (1000 - self.x)
        elif final == "P": row[self.x:] = row[self.x + one:] + [" "] * one
        elif final == "@": row[self.x:] = ([" "] * one + row[self.x:])[:1000 - self.x]
        elif final == "X": row[self.x:self.x + one] = [" "] * one
        elif final == "b":
            for _ in range(one): self.put(self.last)
        elif final == "L": self.cells[self.y:self.rows] = ([[" "] * 1000 for _ in range(one)] + self.cells[self.y:self.rows])[:self.rows - self.y]
        elif final == "M": self.cells[self.y:self.rows] = (self.cells[self.y:self.rows] + [[" "] * 1000 for _ in range(one)])[one:]
        elif final not in "mhlrt": sys.exit(f"FAILED: unknown control sequence {parameters!r} {final!r}")

    def feed(self, data):
        self.raw = (self.raw + data)[-200000:]
        text = self.rest + self.decoder.decode(data)
        at = 0
        while at < len(text):
            c = text[at]
            if c == "\033":
                m = re.compile(r"\033(?:\[[?>]?([0-9;]*)([@-~])|[()][0-9A-B]|[=>78M])").match(text, at)
                if not m:
                    break
                if m[2] and m[0][2] not in "?>": self.control(m[1], m[2])
                at = m.end()
                continue
            if c == "\r": self.x = 0
            elif c == "\n": self.y += 1
            elif c == "\b": self.x -= 1
            elif c == "\t": self.x = self.x // 8 * 8 + 8
            elif c >= " ": self.put(c)
            at += 1
        self.rest = text[at:]

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                return False
            self.feed(data)
        return True

    def text(self):
        return "\n".join("".join(row[:self.columns]).rstrip() for row in self.cells[:self.rows])

    def expect(self, *wanted, absent=()):
        end = time.time() + PATIENCE
        while not (all(re.search(w, self.text(), re.M) for w in wanted) and not any(re.search(w, self.text(), re.M) for w in absent)):
            if time.time() > end or not self.read(0.2):
                sys.exit(f"FAILED: the screen has not {wanted} without {absent}:\n{self.text()}")
        return self.text()

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def leave(self, code=0, how=None):
        if how: os.kill(self.pid, how)
        end = time.time() + PATIENCE
        while self.read(0.1):
            if time.time() > end: sys.exit(f"FAILED: gpuscale top does not end:\n{self.text()}")
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if status != code: sys.exit(f"FAILED: exit code {status} instead of {code}")
        tail = self.raw[-400:]
        if b"\033[?1049l" not in tail or not re.search(rb"\033\[\?(1006;)?1000l", tail): sys.exit(f"FAILED: the terminal is not restored: {tail}")
        os.close(self.fd)


def done(what):
    print(f"ok: {what}", flush=True)


# The screen of an exporter, and its keys.
t = Terminal([gpuscale, "top", "--exporter", exporter, "--interval", "500ms"])
t.expect(r"^gpuscale top  SIMULATED GPUs  http://127\.0\.0\.1:\d+/metrics", r"^ +0 A100-SXM4-80GB +0% +▁.* 0\.0/80G +\d+C +\d+W", r"^ +2 Tesla T4", r"^q quit")
done("GPUs with their history")
t.type("/t4\r")
t.expect(r"Tesla T4", r"^Filter: t4", absent=["A100"])
t.type("\033")
t.expect("A100")
done("the filter")
t.type("?")
t.expect(r"^Keys$", "a full|double or halve", absent=["Tesla"])
t.type("q")
t.expect("Tesla", absent=[r"^Keys$"])
t.type("\033[B\033[B\r")
t.expect(r"^GPU 2  Tesla T4  \(simulated\)", r"^Utilization  last ", r"^   0\|")
t.type("\033")
t.expect("^q quit")
done("help and details")
t.type("U")
t.expect("UTIL▼")
line = [i for i, text in enumerate(t.text().split("\n")) if "MODEL" in text][0]
column = t.text().split("\n")[line].index("MODEL")
t.type(f"\033[<0;{column + 2};{line + 1}M\033[<0;{column + 2};{line + 1}m")
t.expect("MODEL▲")
done("keys and the mouse sort")
for rows, columns in (16, 60), (3, 12), (1, 1), (40, 300), (24, 100):
    t.resize(rows, columns)
    t.expect("^q quit" if columns >= 60 else "q|G|g|$")
done("windows from 1 to 300 columns")

# The page shows these columns and keys.
with open(page) as f: block = f.read().split("```text\n")[1].split("```")[0].rstrip("\n").split("\n")
t.resize(24, 400)
shown = t.expect("^q quit").split("\n")
if block[-1] != shown[-1].split("  GPUs ")[0].rstrip() or not block[0].startswith("gpuscale top  SIMULATED GPUs  http://"): sys.exit(f"FAILED: {page} shows other keys:\n{block}")
titles = [title for text in block if re.match(" *GPU|NAMESPACE", text) for title in text.split()]
known = "GPU MODEL UTIL HISTORY MEM MEMORY TEMP POWER SM CLOCK AGE PODS NAMESPACE POD NODE STATUS GPUS".split()
missing = [title for title in titles[:titles.index("NAMESPACE")] if title not in t.text() and title != "PODS"] + [title for title in titles if title not in known]
if missing: sys.exit(f"FAILED: {page} shows columns that do not exist: {missing}")
t.resize(24, 100)
t.expect("^q quit")
done("the page shows what exists")

# The source stops and comes back at the same address.
os.kill(int(open(pidfile).read()), signal.SIGTERM)
t.expect(r"^No new values since \d\d:\d\d:\d\d: ", r"^ +0 A100")
port = exporter.rsplit(":", 1)[1]
exporter_pid = os.posix_spawn(gpuscale, [gpuscale, "exporter", "--address", f"127.0.0.1:{port}", "--node-name", "node-1"], os.environ,
                              file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)])
with open(pidfile, "w") as f: f.write(f"{exporter_pid}\n")
try:
    t.expect(r"^ +0 A100", absent=["No new values"])
    done("the source goes away and comes back")
    t.type("q")
    t.leave()

    # Other ends, terminals and character sets.
    for how in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
        t = Terminal([gpuscale, "top", "--nvml"], NO_COLOR="1")
        t.expect(r"^gpuscale top  SIMULATED GPUs  this machine \(NVML\)", r"^ +0 A100-SXM4-80GB +0%")
        if b"\033[31m" in t.raw or b"\033[32m" in t.raw: sys.exit("FAILED: colours with NO_COLOR")
        t.leave(how=how)
    t = Terminal([gpuscale, "top", "--nvml"], LC_ALL="C")
    t.expect(r"^ +0 A100-SXM4-80GB +0% +_")
    if [b for b in t.raw if b > 126]: sys.exit("FAILED: bytes that are not ASCII")
    t.type("\x03")
    t.leave()
    t = Terminal([gpuscale, "top", "--nvml"])
    t.expect("A100")
    os.kill(t.pid, signal.SIGSEGV)
    t.leave(code=-signal.SIGSEGV)
    done("the terminal is restored at every end")
    for term in "dumb", "no-such-terminal":
        pid, fd = pty.fork()
        if pid == 0:
            os.environ["TERM"] = term
            os.execv(gpuscale, [gpuscale, "top", "--nvml"])
        output = b""
        while True:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data: break
            output += data
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        good = code == 0 and b"A100" in output and b"\033" not in output if term == "dumb" else code == 1 and b"(TERM)" in output
        if not good: sys.exit(f"FAILED: TERM={term}: {code} {output}")
    done("terminals without a live view")
finally:
    os.kill(exporter_pid, signal.SIGTERM)
    os.waitpid(exporter_pid, 0)
