"""Runs the binary as a stranger would: a home of its own, little environment."""

import ctypes
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


class Server:
    """Where the model is, for either wire."""

    def __init__(self, base_url, model):
        root = base_url.rstrip("/")
        self.root = root[: -len("/v1")] if root.endswith("/v1") else root
        self.model = model
        parts = urllib.parse.urlsplit(self.root)
        self.address = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))

    def url(self, wire, address=None):
        """The base URL of a wire, at another address when a recorder is between."""
        root = self.root if address is None else f"http://{address[0]}:{address[1]}"
        return f"{root}/v1" if wire == "openai" else root


@dataclass
class Run:
    """One finished `delegate run --json`."""

    name: str
    workspace: Path
    home: Path
    status: int | None  # None: it did not end in time
    stdout: str
    stderr: str
    seconds: float
    left_over: list

    def result(self):
        """The last line of stdout as an object, or None."""
        lines = self.stdout.splitlines()
        try:
            value = json.loads(lines[-1]) if lines else None
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


class Delegate:
    """The binary under test, with a scratch folder for its workspaces and homes."""

    def __init__(self, binary, scratch, keep, timeout, settings):
        self.binary = binary
        self.scratch = scratch
        self.keep = keep
        self.timeout = timeout
        self.settings = settings
        self.count = itertools.count(1)
        adopt_orphans()

    def folder(self, name, files):
        """A fresh workspace holding `files`, and a fresh home beside it."""
        place = (self.keep or self.scratch) / f"{next(self.count):03}-{name}"
        workspace, home = place / "work", place / "home"
        home.mkdir(parents=True)
        for path, text in files.items():
            file = workspace / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        workspace.mkdir(exist_ok=True)
        return workspace, home

    def environment(self, home):
        """Nothing of the caller's but where programs are."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        return {**kept, "HOME": str(home)}

    def run(self, name, task, files, wire, url, model, settings):
        """One task in a fresh folder."""
        workspace, home = self.folder(name, files)
        words = [str(self.binary), "run", task, "--workspace", str(workspace)]
        words += ["--base-url", url, "--wire", wire, "--model", model, "--json"]
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        for setting in self.settings:
            words += ["--set", setting]
        started = time.monotonic()
        status, stdout, stderr = self.finish(words, workspace, home)
        run = Run(
            name, workspace, home, status, stdout, stderr, time.monotonic() - started, left_over()
        )
        if self.keep is not None:
            (workspace.parent / "stdout").write_text(stdout)
            (workspace.parent / "stderr").write_text(stderr)
            (workspace.parent / "command").write_text("\n".join(words) + "\n")
        return run

    def jailed(self, workspace, home, command):
        """Runs a check that executes what a model wrote: inside a jail as well."""
        words = [str(self.binary), "jail", "run", "bash", "--workspace", str(workspace), "--"]
        return self.finish(words + command, workspace, home, 60)

    def doctor(self, home):
        """What this machine can enforce, as the binary sees it, or None."""
        status, stdout, _ = self.finish(
            [str(self.binary), "jail", "doctor", "--json"], home, home, 60
        )
        try:
            return json.loads(stdout.strip().splitlines()[-1]) if stdout.strip() else None
        except ValueError:
            try:
                return json.loads(stdout)
            except ValueError:
                return None

    def finish(self, words, cwd, home, limit=None):
        """Runs to the end; on time-out everything it started is killed."""
        child = subprocess.Popen(
            words,
            cwd=cwd,
            env=self.environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            stdout, stderr = child.communicate(timeout=limit or self.timeout)
            return child.returncode, stdout, stderr
        except subprocess.TimeoutExpired:
            # The session id is the child's pid, which is ours until we wait for it.
            os.killpg(child.pid, signal.SIGKILL)
            stdout, stderr = child.communicate()
            return None, stdout, stderr


def adopt_orphans():
    """Makes processes that a run leaves behind our children, so that they show."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def left_over():
    """Command lines of processes that outlived their run by more than a second."""
    end = time.monotonic() + 1.0
    while True:
        reap()
        alive = children()
        if not alive or time.monotonic() > end:
            return alive
        time.sleep(0.02)


def reap():
    """Takes in the dead among the adopted."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def children():
    """Living children of this process."""
    found = []
    try:
        pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return found
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        found.append(f"{pid} {words.strip() or '(no command line)'}")
    return found
