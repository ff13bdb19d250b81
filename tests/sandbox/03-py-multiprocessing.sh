#!/usr/bin/env bash
# py-multiprocessing: POSIX semaphores, shared memory and local sockets among the jail's own processes.
# inside: RESULT=ok    outside: RESULT=ok
set -u
case ${1:-run} in setup|check) exit 0;; esac
saw() { printf 'saw: %s\n' "$*"; }
d=$(mktemp -d ./mp.XXXXXX) || { echo "RESULT=broken cannot make a dir in the workspace"; exit 1; }
trap 'rm -rf "$d"' EXIT
cat >"$d/probe.py" <<'PY'
import multiprocessing as mp, sys, concurrent.futures as cf
def inc(x): return x + 1
def hold(lock, q):
    with lock: q.put("child")
def main(what):
    if what == "lock":
        mp.Lock(); mp.RLock(); mp.Semaphore(2); mp.Event()
    elif what == "shm":
        from multiprocessing import shared_memory
        s = shared_memory.SharedMemory(create=True, size=4096); s.buf[0] = 7
        t = shared_memory.SharedMemory(name=s.name); assert t.buf[0] == 7
        t.close(); s.close(); s.unlink()
    elif what == "manager":
        with mp.Manager() as m:
            l = m.list([1]); l.append(2); assert list(l) == [1, 2]
    elif what == "threads":
        with cf.ThreadPoolExecutor(4) as ex: assert list(ex.map(inc, range(4))) == [1, 2, 3, 4]
    else:
        kind, method = what.split(":")
        ctx = mp.get_context(method)
        if kind == "pool":
            with ctx.Pool(2) as p: assert p.map(inc, [1, 2, 3]) == [2, 3, 4]
        elif kind == "queue":
            q, l = ctx.Queue(), ctx.Lock(); p = ctx.Process(target=hold, args=(l, q)); p.start()
            assert q.get(timeout=10) == "child"; p.join(10); assert p.exitcode == 0
        elif kind == "executor":
            with cf.ProcessPoolExecutor(2, mp_context=ctx) as ex: assert list(ex.map(inc, [1, 2])) == [2, 3]
if __name__ == "__main__":
    main(sys.argv[1])
PY
bad=0
for w in lock shm threads manager pool:fork queue:fork executor:fork pool:spawn executor:spawn pool:forkserver executor:forkserver; do
  if out=$(timeout 30 python3 "$d/probe.py" "$w" 2>&1 </dev/null); then saw "$w ok"; else rc=$?; bad=$((bad+1)); saw "$w BROKEN rc=$rc: $(printf %s "$out" | tail -n1)"; fi
done
if [ $bad -eq 0 ]; then echo "RESULT=ok multiprocessing works"; else echo "RESULT=broken $bad multiprocessing probes failed"; exit 1; fi
