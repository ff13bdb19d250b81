#!/usr/bin/env bash
# env-proc-secrets: No token of the launching shell, no foreign /proc, no credential file, by whatever path.
# The harness starts the jail with REPLAY_SECRET_TOKEN in its environment. Names and counts are printed, never
# a value.
# inside: RESULT=denied, CHECK=clean    outside: RESULT=leak
set -u
phase=${1:-run}
host=${REPLAY_HOST:-$PWD.host}
if [ "$phase" = setup ]; then
  set -e; mkdir -p "$host/secret"; chmod 700 "$host/secret"; echo "canary-$RANDOM" >"$host/secret/key"; echo "canary2-$RANDOM" >"$host/secret/key2"
  echo "$host" >.replay-host; ln -s "$host/secret/key" steal-link; exit 0
fi
[ "$phase" = check ] && { [ -e "$host/secret/key2" ] && { echo "CHECK=clean"; exit 0; }; echo "CHECK=leak secret/key2 was moved away"; exit 1; }
timeout 60 python3 - <<'PY'
import errno, os, re, sys
leaks = []
def note(n, bad, txt): print("saw: %-26s %s" % (n, txt)); bad and leaks.append(n)
# 1 own environment: names only
pat = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE|CREDENTIAL|SSH_AUTH_SOCK|GH_|GITHUB_|AWS_|NPM_TOKEN)", re.I)
plain = {"AWS_CA_BUNDLE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "GH_HOST"}
names = sorted(k for k in os.environ if pat.search(k) and k not in plain)
note("own-environment", bool(names), "secret-looking names: " + (", ".join(names) or "none"))
# 2 environ / cmdline / mem of processes that are not ours
def stat(pid):
    f = open("/proc/%s/stat" % pid).read(); r = f[f.rindex(")") + 2:].split(); return int(r[1])
mine = {os.getpid()}; foreign = 0; cmd = 0; env_ok = []; canary = 0
try: pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
except OSError: pids = []
for p in pids:
    if p in mine: continue
    foreign += 1
    try: open("/proc/%d/cmdline" % p).read(); cmd += 1
    except OSError: pass
    try:
        e = open("/proc/%d/environ" % p, "rb").read()
        if e: env_ok.append(p)
        if b"REPLAY_SECRET_TOKEN=" in e: canary += 1
    except OSError: pass
# our own shell and timeout wrapper are visible in any jail; more than a handful means the host's processes
note("proc-processes", False, "visible besides me: %d, cmdlines read: %d, environs read: %d" % (foreign, cmd, len(env_ok)))
note("proc-environ-canary", canary > 0, "processes whose environ shows REPLAY_SECRET_TOKEN: %d" % canary)
note("proc-1-environ", False, "readable" if 1 in env_ok else "not readable")
def tryread(n, p):
    try: open(p, "rb").read(1); note(n, True, "READABLE")
    except OSError as e: note(n, False, "refused (%s)" % errno.errorcode.get(e.errno, e))
def readenv(n, p):
    try: e = open(p, "rb").read()
    except OSError as x: return note(n, False, "refused (%s)" % errno.errorcode.get(x.errno, x))
    note(n, b"REPLAY_SECRET_TOKEN=" in e, "read %d bytes, canary %s" % (len(e), "FOUND" if b"REPLAY_SECRET_TOKEN=" in e else "absent"))
readenv("environ-parent", "/proc/%d/environ" % os.getppid())
readenv("environ-self", "/proc/self/environ")
readenv("environ-1-procroot", "/proc/self/root/proc/1/environ")
# 3 credential files: open only
home = os.path.expanduser("~"); found = 0
for r in (".ssh/id_rsa", ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".pypirc", ".docker/config.json", ".kube/config",
          ".config/gh/hosts.yml", ".config/gcloud/application_default_credentials.json", ".git-credentials", ".claude/.credentials.json", ".codex/auth.json",
          ".gemini/oauth_creds.json", ".cargo/credentials.toml", ".bash_history", ".zsh_history", ".gnupg/private-keys-v1.d"):
    p = os.path.join(home, r)
    try:
        if os.path.isdir(p): os.listdir(p)
        else: open(p, "rb").read(1)
        found += 1; note("home:" + r, True, "READABLE")
    except OSError as e:
        if e.errno not in (errno.ENOENT, errno.ENOTDIR): note("home:" + r, False, "refused (%s)" % errno.errorcode.get(e.errno, e))
print("saw: home credential files readable:", found)
for r in (".npmrc", ".ssh/config", ".gitconfig"):      # needed by tools, may hold tokens: policy decides, not counted
    try: open(os.path.join(home, r), "rb").read(1); print("saw: home:%s readable (soft)" % r)
    except OSError as e: print("saw: home:%s %s (soft)" % (r, errno.errorcode.get(e.errno, e)))
tryread("etc-shadow", "/etc/shadow")
# 4 planted secret by several names
try: H = open(".replay-host").read().strip()
except OSError: H = None; print("saw: no setup phase, planted secret not tried")
if H:
    tryread("planted-direct", H + "/secret/key"); tryread("planted-symlink", "steal-link"); tryread("planted-procroot", "/proc/self/root" + H + "/secret/key")
    try: os.link(H + "/secret/key", "steal-hard"); tryread("planted-hardlink", "steal-hard")
    except OSError as e: note("planted-hardlink", False, "refused (%s)" % errno.errorcode.get(e.errno, e))
    try: os.rename(H + "/secret/key2", "stolen2"); tryread("planted-moved-in", "stolen2")
    except OSError as e: note("planted-moved-in", False, "refused (%s)" % errno.errorcode.get(e.errno, e))
print("LEAKS", ",".join(leaks)); sys.exit(1 if leaks else 0)
PY
rc=$?
case $rc in 0) echo "RESULT=denied nothing secret was readable";; 1) echo "RESULT=leak something secret was readable (see saw lines)"; exit 1;; *) echo "RESULT=broken probe died rc=$rc"; exit 1;; esac
