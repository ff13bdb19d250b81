#!/usr/bin/env bash
# loopback-server: With the network off, a server and its client inside one run talk over loopback, localhost
# resolves, and event loops wake up.
# inside: RESULT=ok    outside: RESULT=ok
set -u
case ${1:-run} in setup|check) exit 0;; esac
saw() { printf 'saw: %s\n' "$*"; }
d=$(mktemp -d ./lo.XXXXXX) || { echo "RESULT=broken cannot make a dir in the workspace"; exit 1; }
trap 'rm -rf "$d"' EXIT
cat >"$d/lo.py" <<'PY'
import asyncio, http.server, socket, sys, threading, urllib.request
def tcp(host, fam):
    s = socket.socket(fam); s.bind((host, 0)); s.listen(1); port = s.getsockname()[1]
    threading.Thread(target=lambda: s.accept()[0].sendall(b"ok"), daemon=True).start()
    c = socket.create_connection((host, port), 5); assert c.recv(2) == b"ok"
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); s.settimeout(5)
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"u", s.getsockname()); assert s.recv(1) == b"u"
def web():
    h = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=h.serve_forever, daemon=True).start()
    o = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert o.open("http://127.0.0.1:%d/" % h.server_port, timeout=5).status == 200
def name():
    assert any(a[4][0] in ("127.0.0.1", "::1") for a in socket.getaddrinfo("localhost", 80))
def wake():
    async def m():
        loop = asyncio.get_running_loop(); f = loop.create_future()
        threading.Timer(0.2, lambda: loop.call_soon_threadsafe(f.set_result, 1)).start()
        assert await asyncio.wait_for(f, 5) == 1
    asyncio.run(m())
def sub():
    async def m():
        p = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        out, _ = await asyncio.wait_for(p.communicate(b"q"), 5); assert out == b"q" and p.returncode == 0
    asyncio.run(m())
{"tcp4": lambda: tcp("127.0.0.1", socket.AF_INET), "tcp6": lambda: tcp("::1", socket.AF_INET6), "udp4": udp,
 "http": web, "localhost-name": name, "asyncio-wakeup": wake, "asyncio-subprocess": sub}[sys.argv[1]]()
PY
bad=0
for t in tcp4 udp4 http localhost-name asyncio-wakeup asyncio-subprocess; do
  if out=$(cd "$d" && timeout 20 python3 lo.py "$t" 2>&1 </dev/null); then saw "$t ok"; else rc=$?; bad=$((bad+1)); saw "$t BROKEN rc=$rc: $(printf %s "$out" | tail -n1)"; fi
done
if out=$(cd "$d" && timeout 20 python3 lo.py tcp6 2>&1); then saw "tcp6 ok (soft)"; else saw "tcp6 not available (soft): $(printf %s "$out" | tail -n1)"; fi
if command -v node >/dev/null 2>&1; then
  js='const h=require("http");const s=h.createServer((q,r)=>r.end("ok"));s.on("error",e=>{console.log(e.code);process.exit(1)});s.listen(0,"127.0.0.1",()=>h.get({port:s.address().port,host:"127.0.0.1"},r=>{r.resume();r.on("end",()=>process.exit(r.statusCode==200?0:1))}).on("error",e=>{console.log(e.code);process.exit(1)}))'
  if out=$(timeout 20 node -e "$js" 2>&1); then saw "node-http ok"; else bad=$((bad+1)); saw "node-http BROKEN: $(printf %s "$out" | tail -n1)"; fi
fi
if [ $bad -eq 0 ]; then echo "RESULT=ok loopback within the run works"; else echo "RESULT=broken $bad loopback probes failed"; exit 1; fi
