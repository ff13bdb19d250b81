#!/usr/bin/env bash
# write-outside-tricks: Writes are confined to the real object, whatever the spelling: symbolic and hard links,
# /proc/self, descriptors, renames, mounts.
# setup makes <workspace>.host with victims and plants links; check reads the host's side. Every attempt is
# harmless: a canary name, or a rewrite of our own victim.
# inside: RESULT=denied, CHECK=clean    outside: RESULT=leak
set -u
phase=${1:-run}
host=${REPLAY_HOST:-$PWD.host}
if [ "$phase" = setup ]; then
  set -e; mkdir -p "$host/dir" "$host/vdir"; echo host-original >"$host/target"; echo host-original >"$host/victim"; echo host-original >"$host/trunc"
  echo "$host" >.replay-host
  ln -s "$host/target" link-file; ln -s "$host/dangling-new" link-dangling; ln -s "$host/dir" link-dir; exit 0
fi
if [ "$phase" = check ]; then
  n=0
  for f in target victim trunc; do [ "$(cat "$host/$f" 2>/dev/null)" = host-original ] || { echo "host: $f CHANGED or gone"; n=$((n+1)); }; done
  extra=$(cd "$host" && find . -mindepth 1 ! -name target ! -name victim ! -name trunc ! -name dir ! -name vdir | sort | tr '\n' ' ')
  [ -z "$extra" ] || { echo "host: new entries: $extra"; n=$((n+1)); }
  [ $n -eq 0 ] && { echo "CHECK=clean"; exit 0; }; echo "CHECK=leak $n"; exit 1
fi
host=$(cat .replay-host 2>/dev/null || true)
REPLAY_H=$host timeout 60 python3 - <<'PY'
import ctypes, os, subprocess, sys, errno
H = os.environ.get("REPLAY_H") or ""
ws = os.getcwd(); tag = "replay-canary-%d" % os.getpid(); leaks = []; clean = []
def attempt(name, fn):
    try: fn()
    except Exception as e: print("saw: %-24s denied (%s)" % (name, errno.errorcode.get(getattr(e, "errno", 0) or 0, type(e).__name__))); return
    print("saw: %-24s WROTE OUTSIDE" % name); leaks.append(name)
def put(p, flags=os.O_WRONLY | os.O_CREAT, data=b"replay\n", dir_fd=None):
    fd = os.open(p, flags, 0o600, dir_fd=dir_fd); os.write(fd, data); os.close(fd)
def landed(p):
    if not os.path.lexists(p): raise OSError(errno.ENOENT, "did not land")
def rm(p):
    try: os.unlink(p)
    except OSError: pass
if H:
    def t_hard():
        os.link(H + "/target", "hl"); put("hl", os.O_WRONLY | os.O_APPEND)
    def t_opath():
        d = os.open(H + "/dir", os.O_PATH | os.O_DIRECTORY); put("opath-" + tag, dir_fd=d)
    def t_procfd():
        d = os.open(H + "/dir", os.O_PATH | os.O_DIRECTORY); put("/proc/self/fd/%d/procfd-%s" % (d, tag))
    def t_chdir(): 
        pid = os.fork()
        if pid == 0:
            try: os.chdir(H + "/dir"); put("chdir-" + tag); os._exit(0)
            except OSError: os._exit(1)
        if os.waitpid(pid, 0)[1]: raise OSError(errno.EACCES, "")
    def t_rename_out(): put("rn-src"); os.rename("rn-src", H + "/dir/rn-" + tag)
    def t_dir_out(): os.mkdir("dsrc"); put("dsrc/x"); os.rename("dsrc", H + "/dir/d-" + tag)
    def t_rename_in(): os.rename(H + "/vdir", "stolen-vdir")
    def t_trunc(): os.truncate(H + "/trunc", os.stat(H + "/trunc").st_size)
    def t_open_trunc(): os.close(os.open(H + "/victim", os.O_RDONLY | os.O_TRUNC))
    def t_bind():
        os.makedirs("bind-m", exist_ok=True)
        s = 'mount --bind "%s/dir" "%s/bind-m" && echo x >"%s/bind-m/bind-%s"' % (H, ws, ws, tag)
        r = subprocess.run(["unshare", "-Urm", "sh", "-c", s], capture_output=True, timeout=20)
        landed(H + "/dir/bind-" + tag)
    A = H + "/dir/"
    attempt("plain-absolute", lambda: put(A + "abs-" + tag))
    attempt("dotdot", lambda: put(os.path.relpath(A) + "/dotdot-" + tag))
    attempt("symlink-file", lambda: put("link-file", os.O_WRONLY | os.O_APPEND))
    attempt("symlink-dangling", lambda: (put("link-dangling"), landed(H + "/dangling-new")))
    attempt("symlink-dir", lambda: put("link-dir/sd-" + tag))
    attempt("proc-self-root", lambda: put("/proc/self/root" + A + "root-" + tag))
    attempt("proc-self-cwd", lambda: put("/proc/self/cwd/" + os.path.relpath(A) + "/cwd-" + tag))
    attempt("hard-link-then-write", t_hard)
    attempt("o_path-dirfd", t_opath)
    attempt("proc-fd-dir", t_procfd)
    attempt("chdir-then-write", t_chdir)
    attempt("rename-file-out", t_rename_out)
    attempt("rename-dir-out", t_dir_out)
    attempt("rename-dir-in", t_rename_in)
    attempt("truncate-same-size", t_trunc)
    attempt("o_rdonly-o_trunc", t_open_trunc)
    attempt("unlink", lambda: os.unlink(H + "/victim"))
    attempt("mkdir", lambda: os.mkdir(A + "mk-" + tag))
    attempt("mkfifo", lambda: os.mkfifo(A + "ff-" + tag))
    attempt("symlink-created-out", lambda: os.symlink("/nonexistent", A + "sl-" + tag))
    attempt("userns-bind-mount", t_bind)
else: print("saw: no setup phase, host victims are not there; only the generic places are tried")
def generic(name, base):
    p = os.path.join(base, "." + tag)
    if os.path.realpath(base) == os.path.realpath(ws): return
    attempt(name, lambda: put(p)); rm(p)
generic("home", os.path.expanduser("~")); generic("parent-of-workspace", os.path.dirname(ws))
if os.environ.get("DELEGATE_JAIL"):  # the twin outside leaves the system's folders alone
    generic("var-tmp", "/var/tmp"); generic("slash-etc", "/etc"); generic("usr-local-bin", "/usr/local/bin")
print("LEAKS " + ",".join(leaks)); sys.exit(1 if leaks else 0)
PY
rc=$?
case $rc in 0) echo "RESULT=denied every write outside was refused";; 1) echo "RESULT=leak at least one write landed outside (see saw lines)"; exit 1;; *) echo "RESULT=broken probe died rc=$rc"; exit 1;; esac
