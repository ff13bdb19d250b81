"""Starts the server, in the foreground or behind."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

SERVE = Path(__file__).resolve().parent / "serve.py"


def command(python, model, template, options):
    """The server's command line."""
    words = [str(python), "-I", "-B", str(SERVE), "--model", str(model), "--alias", options.alias]
    words += ["--port", str(options.port), "--ctx", str(options.ctx)]
    words += ["--parallel", str(options.parallel), "--threads", str(options.threads or threads())]
    for name in ("temp", "seed"):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name}", str(value)]
    if template is not None:
        words += ["--template", str(template)]
    return words


def threads():
    """One thread on small machines: two on two busy cores were 20 times slower."""
    return 2 if (os.cpu_count() or 1) >= 4 else 1


def foreground(words):
    """Becomes the server: the pid in its line is the one the caller started."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(words[0], words)
    except OSError as error:
        print(f"local-model: cannot start {words[0]}: {error}", file=sys.stderr)
        return 1


def background(words, pid_file, limit):
    """Leaves the server running; prints its line and writes `pid_file` when it is ready."""
    log = Path(f"{pid_file}.log")
    try:
        with open(log, "wb") as errors:
            child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
    except OSError as error:
        print(f"local-model: cannot start the server: {error}", file=sys.stderr)
        return 1
    line = first_line(child, limit)
    try:
        ready = json.loads(line)
        Path(pid_file).write_text(f"{ready['pid']}\n")
    except (ValueError, KeyError, OSError) as error:
        child.send_signal(signal.SIGKILL)
        child.wait()
        why = error if isinstance(error, OSError) else f"no answer; its log is {log}"
        print(f"local-model: the server did not come up: {why}", file=sys.stderr)
        return 1
    print(line, flush=True)
    return 0


def first_line(child, limit):
    """The first line on the child's stdout, or what came before it ended."""
    end = time.monotonic() + limit
    data = b""
    while b"\n" not in data:
        left = end - time.monotonic()
        if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
            break
        piece = os.read(child.stdout.fileno(), 4096)
        if not piece:
            break
        data += piece
    return data.split(b"\n")[0].decode("utf-8", "replace")
