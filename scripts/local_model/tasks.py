"""The capability tasks: what is in the folder, what is asked, what must be true.

Prompts are plain, as a person would write them. A check says None when the
task is done, else what is wrong. What a model wrote runs in a jail only.
"""

from dataclasses import dataclass
from typing import Callable

GREET = 'def greet(name):\n    return "Helo, " + name + "!"\n\n\nprint(greet("world"))\n'

SETTINGS = "[server]\nhost = 127.0.0.1\nport = 8080\n\n[log]\nlevel = info\n"

CALC = '#!/bin/sh\n# Prints the sum of two numbers.\necho $(($1 - $2))\n'
CALC_TEST = """#!/bin/sh
got=$(sh calc.sh 2 3)
if [ "$got" = 5 ]; then
    echo PASS
else
    echo "FAIL: calc.sh 2 3 printed $got, expected 5"
    exit 1
fi
"""

LIBRARY = {
    "lib/alpha.txt": "first notes\nnothing to see\n",
    "lib/beta.txt": "second notes\nthe password hint is BLUE-HERON\n",
    "lib/gamma.txt": "third notes\nnothing here either\n",
    "readme.txt": "Notes of a small library.\n",
}


@dataclass
class Task:
    """One task."""

    name: str
    files: dict
    prompt: str
    check: Callable


def typo(run, _):
    return same(run, "greet.py", GREET.replace("Helo", "Hello"))


def port(run, _):
    return same(run, "settings.ini", SETTINGS.replace("8080", "9090"))


def script(run, jailed):
    if not (run.workspace / "hello.sh").is_file():
        return "hello.sh does not exist"
    status, stdout, _ = jailed(["sh", "hello.sh"])
    if status != 0:
        return f"sh hello.sh ended with {status}"
    return None if stdout.strip() == "Hello from delegate" else f"it prints {stdout[:80]!r}"


def failing_test(run, jailed):
    wrong = same(run, "test.sh", CALC_TEST)
    if wrong is not None:
        return wrong
    status, stdout, _ = jailed(["sh", "test.sh"])
    if status != 0 or "PASS" not in stdout:
        return f"the test says {stdout.strip()[:80]!r}"
    # A program that always prints 5 passes the test and is no sum.
    status, stdout, _ = jailed(["sh", "calc.sh", "20", "22"])
    return None if stdout.strip() == "42" else "calc.sh does not add"


def search(run, _):
    result = run.result() or {}
    for path, text in LIBRARY.items():
        wrong = same(run, path, text)
        if wrong is not None:
            return wrong
    if not any(call.get("tool") == "Grep" for call in result.get("executions") or []):
        return "Grep was not used"
    answer = result.get("final_text") or ""
    if "beta.txt" not in answer:
        return f"the answer is {answer[:80]!r}"
    return "the answer names other files" if "alpha" in answer or "gamma" in answer else None


def same(run, path, wanted):
    """Whether a file has exactly this content."""
    file = run.workspace / path
    try:
        found = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        return f"{path}: {error}"
    return None if found == wanted else f"{path} is {found[:120]!r}"


ALL = [
    Task(
        "typo",
        {"greet.py": GREET},
        'greet.py has a typo: it prints "Helo" where it should print "Hello". Fix it.',
        typo,
    ),
    Task(
        "port",
        {"settings.ini": SETTINGS},
        "Change the port in settings.ini from 8080 to 9090 and leave the rest as it is.",
        port,
    ),
    Task(
        "script",
        {},
        'Create a shell script hello.sh that prints "Hello from delegate".',
        script,
    ),
    Task(
        "failing-test",
        {"calc.sh": CALC, "test.sh": CALC_TEST},
        "`sh test.sh` fails. calc.sh should print the sum of its two arguments."
        " Fix calc.sh so that the test passes. Do not change test.sh.",
        failing_test,
    ),
    Task(
        "search",
        LIBRARY,
        "Find the file that contains the text BLUE-HERON with the Grep tool and answer with its path.",
        search,
    ),
]
NAMES = [task.name for task in ALL]
