#!/usr/bin/env bash
# exit-code-diagnostics: Exit statuses arrive unchanged; ordinary failures are not called denials; the one real denial is
# reported with its path.
# inside: exit 42, RESULT=denied    outside: exit 42, RESULT=leak
set -u
phase=${1:-run}
host=${REPLAY_HOST:-$PWD.host}
[ "$phase" = setup ] && { mkdir -p "$host"; echo "$host" >.replay-host; exit 0; }
[ "$phase" = check ] && { if [ -e "$host/denied-here" ]; then echo "CHECK=leak denied-here was written"; exit 1; fi; echo "CHECK=clean"; exit 0; }
saw() { printf 'saw: %s\n' "$*"; }
e() { local want=$1 n=$2; shift 2; "$@" >/dev/null 2>&1; local rc=$?; if [ $rc -eq "$want" ]; then saw "$n rc=$rc"; else saw "$n rc=$rc UNEXPECTED (want $want)"; fi; }
e 1   false            bash -c false
e 42  exit-42          bash -c 'exit 42'
e 127 not-found        bash -c 'replay-no-such-command-xyz'
e 2   usage-error      ls --replay-no-such-flag
e 1   missing-file     cat ./no-such-file-here
: >noexec.sh; chmod 644 noexec.sh
e 126 not-executable   bash -c ./noexec.sh
e 137 killed           bash -c 'kill -9 $$'
e 143 terminated       bash -c 'kill -TERM $$'
e 1   grep-no-match    bash -c 'echo a | grep -q b'
mkdir -p locked && : >locked/f && chmod 000 locked
cat locked/f >/dev/null 2>&1; saw "own chmod-000 directory rc=$? (1 for a user, 0 for root; never a sandbox denial)"
chmod 700 locked; rm -rf locked noexec.sh
printf 'saw: text on stderr that only LOOKS like a denial: Operation not permitted (os error 1)\n' >&2
h=$(cat .replay-host 2>/dev/null || echo "$HOME"); r=denied
if ( : >"$h/denied-here" ) 2>err.txt; then r=leak; else saw "real denial: $(tail -n1 err.txt)"; fi
[ "$h" = "$HOME" ] && rm -f "$h/denied-here"
rm -f err.txt
saw "hint variables: $(env | grep -iE '^[A-Z_]*(SANDBOX|JAIL)[A-Z_]*=' | cut -d= -f1 | tr '\n' ' ')"
if [ $r = denied ]; then echo "RESULT=denied exactly one real denial happened; exit code follows"; else echo "RESULT=leak the write outside was not refused; exit code follows"; fi
exit 42
