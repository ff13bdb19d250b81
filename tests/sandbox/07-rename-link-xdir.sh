#!/usr/bin/env bash
# rename-link-xdir: The workspace behaves as one file system: rename and hard link between its folders.
# inside: RESULT=ok    outside: RESULT=ok
set -u
case ${1:-run} in setup|check) exit 0;; esac
saw() { printf 'saw: %s\n' "$*"; }
d=$(mktemp -d ./rn.XXXXXX) || { echo "RESULT=broken cannot make a dir in the workspace"; exit 1; }
trap 'rm -rf "$d"' EXIT
out=$(cd "$d" && timeout 60 python3 - 2>&1 <<'PY'
import ctypes, errno, fcntl, mmap, os, platform, socket, stat
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("a/deep/er"); os.makedirs("b/other"); 
def w(p, s="x"):
    with open(p, "w") as f: f.write(s)
def renameat2(src, dst, flags):
    if not hasattr(libc, "renameat2"): raise OSError(errno.ENOSYS, "no renameat2 in libc")
    if libc.renameat2(-100, src.encode(), -100, dst.encode(), flags):
        e = ctypes.get_errno(); raise OSError(e, os.strerror(e))
def noreplace():
    w("a/n1")
    try: renameat2("a/n1", "b/other/n1", 1)
    except OSError as e:
        if e.errno in (errno.EINVAL, errno.ENOSYS): print("saw: renameat2 flag unsupported here (soft)"); return
        raise
def exchange():
    w("a/e1", "1"); w("b/e2", "2")
    try: renameat2("a/e1", "b/e2", 2)
    except OSError as e:
        if e.errno in (errno.EINVAL, errno.ENOSYS): print("saw: exchange unsupported here (soft)"); return
        raise
    assert open("b/e2").read() == "1"
def t_rename(): w("a/f"); os.rename("a/f", "b/other/f")
def t_replace(): w("a/f", "new"); w("b/f", "old"); os.replace("a/f", "b/f"); assert open("b/f").read() == "new"
def t_dir(): os.makedirs("a/tree/x"); w("a/tree/x/y"); os.rename("a/tree", "b/tree2"); assert os.path.exists("b/tree2/x/y")
def t_link(): w("a/l"); os.link("a/l", "b/l"); assert os.stat("b/l").st_nlink == 2
def t_symlink(): os.symlink("../a", "b/s"); os.rename("b/s", "a/deep/s")
def t_up(): w("a/deep/er/u"); os.rename("a/deep/er/u", "u")
def t_rmdir(): os.makedirs("a/z"); os.rmdir("a/z")
def t_fifo(): os.mkfifo("a/p"); os.rename("a/p", "b/p"); assert stat.S_ISFIFO(os.stat("b/p").st_mode)
def t_flock():
    f = open("a/lock", "w"); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.lockf(f, fcntl.LOCK_UN)
def t_mmap():
    w("a/m", "0" * 4096); f = open("a/m", "r+b"); m = mmap.mmap(f.fileno(), 4096); m[0:1] = b"9"; m.flush(); assert open("a/m").read(1) == "9"
def t_trunc(): w("a/t", "abc"); os.truncate("a/t", 1); assert os.stat("a/t").st_size == 1
def t_chmod(): w("a/c"); os.chmod("a/c", 0o755); os.utime("a/c", (1, 1)); assert os.stat("a/c").st_mtime == 1
bad = 0
for name, fn in [("rename-file", t_rename), ("replace-file", t_replace), ("rename-dir", t_dir), ("hard-link", t_link),
                 ("symlink-move", t_symlink), ("move-to-root", t_up), ("rmdir", t_rmdir), ("renameat2-noreplace", noreplace),
                 ("renameat2-exchange", exchange), ("fifo-move", t_fifo), ("flock", t_flock), ("mmap-shared", t_mmap),
                 ("truncate", t_trunc), ("chmod-utime", t_chmod)]:
    try: fn(); print("saw:", name, "ok")
    except Exception as e: bad += 1; print("saw:", name, "BROKEN:", type(e).__name__, e)
print("BAD", bad)
PY
); rc=$?
printf '%s\n' "$out" | grep -v '^BAD '
n=$(printf '%s\n' "$out" | sed -n 's/^BAD //p')
if [ $rc -eq 0 ] && [ "${n:-1}" = 0 ]; then echo "RESULT=ok workspace is one file system"; else echo "RESULT=broken ${n:-?} file operations failed"; exit 1; fi
