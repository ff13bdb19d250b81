#!/usr/bin/env bash
# unix-socket-ipc: Unix sockets between the jail's own processes, bound in the workspace or in TMPDIR, work.
# inside: RESULT=ok    outside: RESULT=ok
set -u
case ${1:-run} in setup|check) exit 0;; esac
saw() { printf 'saw: %s\n' "$*"; }
d=$(mktemp -d ./ux.XXXXXX) || { echo "RESULT=broken cannot make a dir in the workspace"; exit 1; }
trap 'rm -rf "$d"' EXIT
cat >"$d/ux.py" <<'PY'
import array, os, socket, sys, tempfile, threading
def pair():
    a, b = socket.socketpair(); a.sendall(b"hi"); assert b.recv(2) == b"hi"; a.shutdown(socket.SHUT_WR); assert b.recv(1) == b""
def stream(addr):
    s = socket.socket(socket.AF_UNIX); s.bind(addr); s.listen(1)
    def serve():
        c, _ = s.accept(); c.sendall(c.recv(4)); c.close()
    t = threading.Thread(target=serve, daemon=True); t.start()
    c = socket.socket(socket.AF_UNIX); c.settimeout(5); c.connect(s.getsockname()); c.sendall(b"ping"); assert c.recv(4) == b"ping"; t.join(5); s.close()
def dgram(addr):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(addr); s.settimeout(5)
    c = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); c.sendto(b"x", s.getsockname()); assert s.recv(1) == b"x"
def rights():
    a, b = socket.socketpair(); r, w = os.pipe()
    socket.send_fds(a, [b"f"], [w]); _, fds, _, _ = socket.recv_fds(b, 1, 1); os.write(fds[0], b"ok"); assert os.read(r, 2) == b"ok"
def intmp(fn):
    with tempfile.TemporaryDirectory(prefix="ux") as t: fn(os.path.join(t, "s"))
tests = {"socketpair": pair, "stream-workspace": lambda: stream("s1"), "dgram-workspace": lambda: dgram("s2"),
         "stream-tmpdir": lambda: intmp(stream), "dgram-tmpdir": lambda: intmp(dgram), "pass-fd": rights,
         "abstract-own": lambda: stream("\0replay-own-%d" % os.getpid())}
tests[sys.argv[1]]()
PY
bad=0
for t in socketpair stream-workspace dgram-workspace stream-tmpdir dgram-tmpdir pass-fd abstract-own; do
  if out=$(cd "$d" && timeout 20 python3 ux.py "$t" 2>&1); then saw "$t ok"; else bad=$((bad+1)); saw "$t BROKEN: $(printf %s "$out" | tail -n1)"; fi
  rm -f "$d/s1" "$d/s2"
done
if command -v node >/dev/null 2>&1; then
  js='const net=require("net");const s=net.createServer(c=>c.pipe(c));s.on("error",e=>{console.log(e.code);process.exit(1)});s.listen("n.pipe",()=>{const c=net.connect("n.pipe");c.on("error",e=>{console.log(e.code);process.exit(1)});c.on("data",()=>{c.destroy();s.close()});c.write("x")})'
  if out=$(cd "$d" && timeout 20 node -e "$js" 2>&1); then saw "node-pipe ok"; else bad=$((bad+1)); saw "node-pipe BROKEN: $(printf %s "$out" | tail -n1)"; fi
else saw "node-pipe skipped (no node)"; fi
if [ $bad -eq 0 ]; then echo "RESULT=ok local IPC works"; else echo "RESULT=broken $bad local IPC probes failed"; exit 1; fi
