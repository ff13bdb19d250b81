#!/usr/bin/env bash
# daemon-outlives: The call returns within seconds of its main process, and then no process of it exists, whatever
# session, group, parent or signal mask it chose; orphans are reaped.
# check (on the host) hunts for survivors and kills them.
# inside: RESULT=ok, CHECK=clean    outside: RESULT=ok, CHECK=leak
set -u
phase=${1:-run}
[ "$phase" = setup ] && { echo "replay-marker-$$-$RANDOM" >.replay-marker; exit 0; }
mark=$(cat .replay-marker 2>/dev/null || echo "replay-marker-none-$$")
if [ "$phase" = check ]; then
  sleep 1; n=0
  for p in /proc/[0-9]*; do
    if { tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null | grep -q "$mark"; then
      pid=${p#/proc/}; [ "$pid" = $$ ] && continue
      n=$((n+1)); echo "host: survivor pid $pid: $({ tr '\0\n' '  ' <"$p/cmdline"; } 2>/dev/null | tail -c 45)"; kill -9 "$pid" 2>/dev/null
    fi
  done
  [ $n -eq 0 ] && { echo "CHECK=clean"; exit 0; }; echo "CHECK=leak $n survivors"; exit 1
fi
saw() { printf 'saw: %s\n' "$*"; }
py='import os,signal,sys,time
mode=sys.argv[1]
if "term" in mode:
    for s in (signal.SIGTERM,signal.SIGHUP,signal.SIGINT,signal.SIGPIPE): signal.signal(s,signal.SIG_IGN)
if "double" in mode:
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
if "setsid" in mode:
    try: os.setsid()
    except OSError: pass
if "quiet" in mode:
    n=os.open("/dev/null",os.O_RDWR); [os.dup2(n,i) for i in (0,1,2)]
time.sleep(60)'
python3 -c "$py" plain          "$mark" &
python3 -c "$py" setsid-term    "$mark" &
python3 -c "$py" double         "$mark"
python3 -c "$py" double-term-quiet "$mark"
nohup python3 -c "$py" nohup    "$mark" >/dev/null 2>&1 &
( set -m; python3 -c "$py" own-group "$mark" & ) 2>/dev/null
setsid python3 -c "$py" setsid-util "$mark" </dev/null &
sleep 0.7
saw "started 7 kinds of background children (4 of them hold our stdout)"
# zombies: 40 short-lived orphans, then count the dead ones nobody reaped
python3 - <<'PY'
import os, time
def dead():
    z = set()
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                s = open("/proc/%s/stat" % d).read()
                if s[s.rindex(")") + 2] == "Z": z.add(d)
            except OSError: pass
    return z
old = dead()
for _ in range(40):
    p = os.fork()
    if p == 0:
        if os.fork() == 0: time.sleep(0.05); os._exit(0)
        os._exit(0)
    os.waitpid(p, 0)
end = time.time() + 6
while True:
    time.sleep(0.3); z = len(dead() - old)
    if z <= 2 or time.time() > end: break
print("saw: new zombies left after 40 orphans:", z)
raise SystemExit(1 if z > 5 else 0)
PY
zrc=$?
if [ $zrc -eq 0 ]; then echo "RESULT=ok main process exits now; the call must return at once"; exit 0; else echo "RESULT=broken orphans are not reaped"; exit 1; fi
