#!/usr/bin/env bash
# dev-nodes-pty: The device nodes that every program takes for granted, and a fresh pseudo-terminal.
# inside: RESULT=ok    outside: RESULT=ok
set -u
case ${1:-run} in setup|check) exit 0;; esac
saw() { printf 'saw: %s\n' "$*"; }
bad=0
t() { local n=$1; shift; if out=$(timeout 20 "$@" 2>&1 </dev/null); then saw "$n ok"; else rc=$?; bad=$((bad+1)); saw "$n BROKEN rc=$rc: $(printf %s "$out" | tail -n1)"; fi; }
t dev-null-write   bash -c 'echo x >/dev/null'
t dev-null-trunc   bash -c ': >|/dev/null'
t dev-null-rw      bash -c 'exec 5<>/dev/null'
t dev-zero         bash -c '[ "$(head -c 4 /dev/zero | wc -c)" = 4 ]'
t dev-urandom      bash -c '[ "$(head -c 4 /dev/urandom | wc -c)" = 4 ]'
t dev-full         bash -c '! echo x 2>/dev/null >/dev/full'
t dev-stdout       bash -c '[ "$(echo x >/dev/stdout)" = x ]'
t dev-stderr       bash -c 'echo x >/dev/stderr'
t dev-fd           bash -c '[ "$(cat <(echo sub))" = sub ]'
t tee-procsub      bash -c '[ "$(echo q | tee >(cat >/dev/null))" = q ]'
t python-hash-seed python3 -R -c 'import os,random,ssl;os.urandom(8);os.getrandom(8)'
t openpty          python3 -c 'import os;m,s=os.openpty();os.write(m,b"x\n");assert os.ttyname(s).startswith("/dev/")'
t pty-winsize      python3 -c '
import fcntl,os,struct,termios
m,s=os.openpty();fcntl.ioctl(s,termios.TIOCSWINSZ,struct.pack("HHHH",33,77,0,0));assert os.get_terminal_size(s)==(77,33)'
t pty-fork-tty     python3 -c '
import os,pty,sys
pid,fd=pty.fork()
if pid==0: os.execvp("sh",["sh","-c","tty && test -t 0 && echo TTY-OK"])
b=b""
try:
    while True:
        c=os.read(fd,1024)
        if not c: break
        b+=c
except OSError: pass
os.waitpid(pid,0)
sys.exit(0 if b"TTY-OK" in b else 1)'
if command -v script >/dev/null 2>&1; then t script-1 script -qec 'echo hi' /dev/null; else saw "script-1 skipped"; fi
t dev-shm          python3 -c 'import os,tempfile;f=tempfile.NamedTemporaryFile(dir="/dev/shm");f.write(b"1")'
if ( exec 3<>/dev/tty ) 2>/dev/null; then saw "dev-tty: a controlling terminal is reachable (informative, see 25)"; else saw "dev-tty: none"; fi
if [ $bad -eq 0 ]; then echo "RESULT=ok device nodes and ptys work"; else echo "RESULT=broken $bad device probes failed"; exit 1; fi
