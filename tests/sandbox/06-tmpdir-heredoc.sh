#!/usr/bin/env bash
# tmpdir-heredoc: TMPDIR and /tmp exist, are writable, can be read back and may hold a script that is executed.
# inside: RESULT=ok    outside: RESULT=ok
set -u
case ${1:-run} in setup|check) exit 0;; esac
saw() { printf 'saw: %s\n' "$*"; }
bad=0
t() { local n=$1; shift; if out=$("$@" 2>&1); then saw "$n ok"; else bad=$((bad+1)); saw "$n BROKEN: $(printf %s "$out" | tail -n1)"; fi; }
saw "TMPDIR=${TMPDIR-<unset>} TMPPREFIX=${TMPPREFIX-<unset>}"
T=${TMPDIR:-/tmp}
t tmpdir-exists        test -d "$T"
t mktemp-dir           bash -c 'd=$(mktemp -d) && rmdir "$d"'
t mktemp-hardcoded-tmp bash -c 'd=$(mktemp -d /tmp/replay.XXXXXX) && rmdir "$d"'
t write-read-back      bash -c 'f=$(mktemp) && echo hello >"$f" && [ "$(cat "$f")" = hello ] && rm "$f"'
t list-tmpdir          bash -c 'ls "${TMPDIR:-/tmp}" >/dev/null'
t run-script-in-tmp    bash -c 'f=$(mktemp) && printf "#!/bin/sh\necho ran\n" >"$f" && chmod +x "$f" && [ "$("$f")" = ran ] && rm "$f"'
t rename-in-tmp        bash -c 'd=$(mktemp -d) && mkdir "$d/a" "$d/b" && echo 1 >"$d/a/x" && mv "$d/a/x" "$d/b/y" && rm -r "$d"'
t python-tempfile      python3 -c 'import tempfile;f=tempfile.TemporaryFile();f.write(b"x");f.seek(0);assert f.read()==b"x";tempfile.TemporaryDirectory().cleanup()'
t o-tmpfile-or-fallback python3 -c 'import tempfile;f=tempfile.NamedTemporaryFile("w+");f.write("q");f.flush();assert open(f.name).read()=="q"'
t sort-spill           bash -c 'seq 200000 | sort -R -S 64k | tail -n1 >/dev/null; [ "${PIPESTATUS[1]}" = 0 ]'
small=$(cat <<'X'
multi
line
X
); [ "$small" = "$(printf 'multi\nline')" ] && saw "heredoc-small ok" || { bad=$((bad+1)); saw "heredoc-small BROKEN"; }
# bigger than a pipe buffer: bash has to use a temp file
big=$(head -c 300000 /dev/zero | tr '\0' x)
n=$(wc -c <<<"$big" 2>/dev/null) || n=0
if [ "${n:-0}" -ge 300000 ]; then saw "herestring-big ok"; else bad=$((bad+1)); saw "herestring-big BROKEN ($n bytes)"; fi
if command -v zsh >/dev/null 2>&1; then t zsh-heredoc zsh -c $'cat <<E\nhi\nE'; else saw "zsh-heredoc skipped (no zsh)"; fi
if [ $bad -eq 0 ]; then echo "RESULT=ok temp files work"; else echo "RESULT=broken $bad temp probes failed"; exit 1; fi
