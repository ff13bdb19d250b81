#!/usr/bin/env bash
# git-commit-plain: Everyday git in the workspace's own repository works.
# Hard steps have to pass; soft steps touch .git/config and may be refused.
# inside: RESULT=ok    outside: RESULT=ok
set -u
phase=${1:-run}
G() { git -c user.name=replay -c user.email=replay@example.invalid -c commit.gpgsign=false -c init.defaultBranch=main "$@"; }
if [ "$phase" = setup ]; then
  G init -q . && echo one >a.txt && G add a.txt && G commit -qm first; exit $?
fi
[ "$phase" = check ] && exit 0
saw() { printf 'saw: %s\n' "$*"; }
bad=0
hard() { local n=$1; shift; if out=$("$@" 2>&1); then saw "$n ok"; else rc=$?; bad=$((bad+1)); saw "$n BROKEN rc=$rc: $(printf %s "$out" | tail -n1)"; fi; }
soft() { local n=$1; shift; if out=$("$@" 2>&1); then saw "$n ok (soft)"; else saw "$n refused (soft): $(printf %s "$out" | tail -n1)"; fi; }
[ -e .git ] || hard init G init -q .
hard read-config    G config --list
hard status         G status --porcelain
echo "line $RANDOM" >>b.txt
hard add            G add -A
hard commit         G commit -qm "work from inside"
hard branch         G branch topic
hard switch         G switch -q topic
echo two >c.txt
hard add2           G add c.txt
hard commit2        G commit -qm second
hard switch-back    G switch -q -
hard merge          G merge -q --no-ff -m merged topic
echo dirty >>b.txt
hard stash          G stash -q
hard stash-pop      G stash pop -q
hard amend          G commit -q --amend -am amended
hard tag            G tag v0
hard reset          G reset -q --hard HEAD
hard pack-refs      G pack-refs --all
hard gc             G gc -q
hard fsck           G fsck --no-dangling
soft branch-rename  G branch -m topic topic2
soft config-write   G config replay.soft 1
soft config-unset   G config --unset replay.soft
if [ $bad -eq 0 ]; then echo "RESULT=ok git works"; else echo "RESULT=broken $bad git steps failed"; exit 1; fi
