"""The protocol tier: whatever the model does, delegate's story has to hold.

A weak model is a good fuzzer: its calls are odd, its answers are cut, it goes
in circles. What is judged is only what delegate owes in any case.
"""

import re

from . import journal, story
from .wiretap import Wiretap

# Small bounds: a weak model writes until it is stopped.
SETTINGS = {
    "max_turns": 4,
    "max_output_tokens": 256,
    "context_window": 8192,
    "max_attempts": 2,
    "bash_timeout_ms": 10000,
    "stream": "true",
}

# A run that a weak model drives may end in any of these ways.
ENDS = {"turn_limit", "output_truncated", "loop_detected", "empty_response"}

FIELDS = [
    "outcome", "error_class", "error_text", "final_text", "usage", "executions",
    "run_id", "turns", "mutations", "enforcement",
]  # fmt: skip

FILES = {
    "notes.txt": "The meeting is on Tuesday.\n",
    "src/main.py": 'print("hello")\n',
}
TASK = "Read notes.txt. Then create the file answer.txt that holds the day of the meeting."

# (name, wire, settings); the first of each wire takes the wire's own calls.
CASES = [
    ("openai-native", "openai", {"tool_mode": "native"}),
    ("anthropic-native", "anthropic", {"tool_mode": "native"}),
    ("openai-structured", "openai", {"tool_mode": "structured"}),
    ("openai-auto", "openai", {"tool_mode": "auto"}),
]


class Checks:
    """A list of named verdicts that goes on after a failure."""

    def __init__(self):
        self.failed = []
        self.passed = 0

    def that(self, holds, what, detail=""):
        """Counts one check; returns whether it holds."""
        if holds:
            self.passed += 1
        else:
            self.failed.append(f"{what}: {detail}" if detail != "" else what)
        return bool(holds)


def tier(delegate, server, say):
    """Every case once; a case holds when none of its checks failed."""
    say("protocol:")
    cases = []
    for name, wire, settings in CASES:
        with Wiretap(server.address) as tap:
            run = delegate.run(
                name, TASK, FILES, wire, server.url(wire, tap.address), server.model,
                {**SETTINGS, **settings},
            )  # fmt: skip
        checks = Checks()
        exchanges = tap.exchanges()
        # llama.cpp answers so when it cannot read the calls of its own model.
        broken = bool(exchanges) and b'"server_error"' in exchanges[-1].answer
        result = judge(checks, run, ENDS | {"upstream_error"} if broken else ENDS)
        wire_story(checks, exchanges, wire, settings["tool_mode"], result)
        case = {
            "name": name,
            "holds": not checks.failed,
            "checks": checks.passed,
            "failed": checks.failed,
            "ended": (result or {}).get("error_class") or (result or {}).get("outcome"),
            "turns": (result or {}).get("turns"),
            "executions": [call.get("tool") for call in (result or {}).get("executions") or []],
            "requests": len(exchanges),
            "server_error": broken,
            "seconds": round(run.seconds, 2),
        }
        cases.append(case)
        say(
            f"  {name:<18} {'holds' if case['holds'] else 'FAILS'}  {checks.passed} checks, "
            f"{case['turns']} turns, calls {case['executions']}, ended {case['ended']}, "
            f"{case['seconds']:.1f} s{', an error of the server itself' if broken else ''}"
        )
        for failure in checks.failed:
            say(f"    failed: {failure}")
        if checks.failed and run.stderr.strip():
            say("    stderr: " + run.stderr.strip()[-2000:].replace("\n", "\n            "))
    total = sum(len(case["executions"]) for case in cases)
    say(f"  {total} tool calls ran in the jail over {len(cases)} runs")
    return {"holds": all(case["holds"] for case in cases), "executions": total, "cases": cases}


def judge(checks, run, ends):
    """Result, files and journal of one run that may fail in one of these ways."""
    if not checks.that(run.status is not None, "the run ends in time", f"{run.seconds:.0f} s"):
        return None
    checks.that(not run.left_over, "no process is left", run.left_over)
    result = run.result()
    last = run.stdout.splitlines()[-1:] or ["(nothing)"]
    if not checks.that(result is not None, "last stdout line is an object", last[0][:200]):
        return None
    for field in FIELDS:
        checks.that(field in result, f"field {field} is there")
    outcome, kind = result.get("outcome"), result.get("error_class")
    checks.that(
        outcome == "completed" or (outcome == "failed" and kind in ends),
        "ends by answer or by limit",
        f"{outcome} {kind}: {str(result.get('error_text'))[:300]}",
    )
    checks.that(
        (run.status == 0) == (outcome == "completed"),
        "exit status agrees with the outcome",
        f"{run.status} with {outcome}",
    )
    if outcome == "completed":
        checks.that(result.get("error_text") is None, "no error text beside an answer")
        checks.that(isinstance(result.get("final_text"), str), "an answer has a text")
    else:
        checks.that(bool(result.get("error_text")), "a failure says why")
    turns = result.get("turns")
    least = 0 if kind == "upstream_error" else 1
    checks.that(
        isinstance(turns, int) and least <= turns <= SETTINGS["max_turns"],
        "turns are bounded",
        turns,
    )
    checks.that(
        bool(re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", str(result.get("run_id")))),
        "run_id is a ULID",
        result.get("run_id"),
    )
    if turns:
        usage = result.get("usage") or {}
        checks.that(
            all(isinstance(usage.get(k), int) for k in ("input_tokens", "output_tokens"))
            and usage.get("input_tokens", 0) > 0,
            "usage is what the server reported",
            usage,
        )
    story.executions(checks, result)
    story.mutations(checks, result, run, FILES)
    journal.check(checks, result, run)
    story.enforcement(checks, result)
    return result


def wire_story(checks, exchanges, wire, mode, result):
    """What went over the wire: the right place, a stream, the right mode."""
    if not checks.that(bool(exchanges), "the server was asked"):
        return
    path = "/v1/chat/completions" if wire == "openai" else "/v1/messages"
    for number, exchange in enumerate(exchanges, 1):
        where = f"request {number}"
        checks.that(exchange.path.split("?")[0] == path, f"{where} goes to {path}", exchange.path)
        body = exchange.body
        checks.that(body.get("stream") is True, f"{where} asks for a stream")
        checks.that(bool(body.get("messages")), f"{where} has messages")
        if mode == "native":
            checks.that(bool(body.get("tools")), f"{where} offers tools")
        if mode == "structured":
            kind = (body.get("response_format") or {}).get("type")
            checks.that(kind == "json_schema", f"{where} holds the answer to a schema", kind)
            checks.that(not body.get("tools"), f"{where} offers no native tools beside it")
        if exchange.status == 200:
            checks.that(
                exchange.content_type.startswith("text/event-stream") and exchange.pieces > 1,
                f"answer {number} is streamed",
                f"{exchange.content_type} in {exchange.pieces} pieces",
            )
    answered = sum(exchange.status == 200 for exchange in exchanges)
    turns = (result or {}).get("turns")
    if isinstance(turns, int):
        # A try that broke off is asked again, so there may be more answers than turns.
        checks.that(answered >= turns, "no turn without an answer", f"{turns} of {answered}")
