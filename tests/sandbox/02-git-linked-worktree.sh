#!/usr/bin/env bash
# git-linked-worktree: A workspace that is a linked worktree: git works, and of the main repository neither hooks,
# configuration nor files can be written.
# setup (on the host, in the workspace) builds <workspace>.host/main and makes the workspace its worktree.
# inside: RESULT=ok    outside: RESULT=leak
set -u
phase=${1:-run}
G() { git -c user.name=replay -c user.email=replay@example.invalid -c commit.gpgsign=false -c init.defaultBranch=main "$@"; }
host=${REPLAY_HOST:-$PWD.host}
if [ "$phase" = setup ]; then
  set -e; mkdir -p "$host"
  G init -q "$host/main"; echo base >"$host/main/base.txt"
  G -C "$host/main" add . ; G -C "$host/main" commit -qm base
  G -C "$host/main" worktree add -q -b wt-topic "$host/wt"
  mv "$host/wt/.git" "$host/wt/base.txt" . ; rmdir "$host/wt"
  G -C "$host/main" worktree repair "$PWD" >/dev/null
  G status --porcelain >/dev/null; exit 0
fi
[ "$phase" = check ] && exit 0
saw() { printf 'saw: %s\n' "$*"; }
[ -f .git ] || { echo "RESULT=skip cwd is not a linked worktree (run the setup phase on the host first)"; exit 77; }
bad=0; leak=0
hard() { local n=$1; shift; if out=$("$@" 2>&1); then saw "$n ok"; else bad=$((bad+1)); saw "$n BROKEN: $(printf %s "$out" | tail -n1)"; fi; }
common=$(G rev-parse --git-common-dir 2>/dev/null); saw "common dir ${common:-unknown}"
hard status  G status --porcelain
echo x >>base.txt
hard add     G add base.txt
hard commit  G commit -qm "from worktree"
hard branch  G branch wt-second
hard stash   bash -c 'echo y >>base.txt; git -c user.name=r -c user.email=r@example.invalid stash -q && git stash drop -q'
hard log-main G log -1 --format=%s main
hard commit-is-there bash -c '[ "$(git log -1 --format=%s)" = "from worktree" ]'
probe() { # name path : opened for append, nothing written
  if ( : >>"$2" ) 2>/dev/null; then leak=$((leak+1)); saw "$1 WRITABLE"; else saw "$1 refused"; fi; }
if [ -n "$common" ]; then
  probe main-config "$common/config"
  if ( : >"$common/hooks/replay-canary" ) 2>/dev/null; then leak=$((leak+1)); saw "main-hooks WRITABLE"; rm -f "$common/hooks/replay-canary"; else saw "main-hooks refused"; fi
  probe main-worktree-file "$common/../base.txt"
fi
[ $bad -eq 0 ] || { echo "RESULT=broken $bad git steps failed in the worktree"; exit 1; }
[ $leak -eq 0 ] || { echo "RESULT=leak work=ok but $leak paths of the main repository are writable"; exit 1; }
echo "RESULT=ok work=ok and main repository protected"
