"""Report, files and journal of one run, held against each other."""

import re

TOOLS = {"Read", "Write", "Edit", "Bash", "Glob", "Grep", "NotebookEdit"}
CHANGING = {"Write", "Edit", "NotebookEdit"}
STRENGTHS = {"absent": 0, "detected": 1, "enforced": 2}

# What each form of the Linux backend owes a coding run, apart from the binary's
# own word for it. `limits` is not in it: before Linux 6.14 root cannot be
# counted. `signals` is not owed by the narrow form before Linux 6.12.
GUARANTEES = [
    "reads", "writes", "protected", "metadata", "network", "host_sockets", "ipc", "signals",
    "terminal", "keyring", "descriptors", "environment", "syscalls", "limits", "tree_death",
]  # fmt: skip
PROMISED = {
    "full": {name: "enforced" for name in GUARANTEES if name != "limits"},
    "narrow": {
        "reads": "enforced", "writes": "enforced", "network": "enforced",
        "terminal": "enforced", "keyring": "enforced", "descriptors": "enforced",
        "environment": "enforced", "syscalls": "enforced", "tree_death": "detected",
    },
}  # fmt: skip


def executions(checks, result):
    """Every entry is a call of one of the seven tools that really ran."""
    calls = result.get("executions")
    if not checks.that(isinstance(calls, list), "executions is a list"):
        return
    for number, call in enumerate(calls, 1):
        checks.that(call.get("tool") in TOOLS, f"execution {number} is a known tool", call)
        checks.that(isinstance(call.get("args"), dict), f"execution {number} has arguments")
        checks.that(isinstance(call.get("ok"), bool), f"execution {number} has a verdict")
        checks.that(isinstance(call.get("output"), str), f"execution {number} has an output")


def mutations(checks, result, run, before):
    """Changes told and changes found are the same."""
    told = result.get("mutations")
    calls = result.get("executions")
    if not checks.that(isinstance(told, list), "mutations is a list") or not calls:
        if told and not calls:
            checks.that(False, "no mutation without an execution", told)
        return
    workspace = run.workspace.resolve()
    for number, change in enumerate(told, 1):
        where = f"mutation {number}"
        checks.that(
            bool(re.fullmatch(r"[0-9a-f]{32}", str(change.get("transaction_id")))),
            f"{where} has a transaction id",
            change.get("transaction_id"),
        )
        checks.that(change.get("status") == "committed", f"{where} is committed", change)
        path = (workspace / str(change.get("path"))).resolve()
        inside = path.is_relative_to(workspace)
        checks.that(inside and path.is_file(), f"{where}: its file exists", change.get("path"))
    made = [call["tool"] for call in calls if call.get("tool") in CHANGING and call.get("ok")]
    checks.that(
        made == [change.get("tool") for change in told],
        "each successful change is a mutation and the other way round",
        f"{made} against {[change.get('tool') for change in told]}",
    )
    if any(call.get("tool") == "Bash" for call in calls):
        return  # A command may change what it likes inside the workspace.
    found = changed(workspace, before)
    named = {str(change.get("path")) for change in told}
    checks.that(found <= named, "no file changed in secret", sorted(found - named))


def changed(workspace, before):
    """Files that differ from those the run was started with."""
    now = {
        str(file.relative_to(workspace)): file
        for file in workspace.rglob("*")
        if file.is_file() and not file.is_symlink()
    }
    differing = {
        path for path, file in now.items()
        if path not in before or file.read_bytes() != before[path].encode()
    }  # fmt: skip
    return differing | (set(before) - set(now))


def enforcement(checks, result):
    """All guarantees are answered for, none below what the form promises."""
    given = result.get("enforcement")
    if not checks.that(isinstance(given, dict), "enforcement is an object", given):
        return
    answers = given.get("guarantees") or {}
    checks.that(
        sorted(answers) == sorted(GUARANTEES), "all 15 guarantees are answered for", sorted(answers)
    )
    form = given.get("form")
    if not checks.that(form in PROMISED, "the form is full or narrow", form):
        return
    for name, wanted in PROMISED[form].items():
        held = (answers.get(name) or {}).get("strength")
        checks.that(
            STRENGTHS.get(held, -1) >= STRENGTHS[wanted],
            f"{form} form: {name} is at least {wanted}",
            answers.get(name),
        )
    for name, answer in answers.items():
        checks.that(bool((answer or {}).get("by")), f"{name} says by what it is held")
