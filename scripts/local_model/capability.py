"""The capability tier: how often a model gets small tasks right."""

import statistics
from collections import Counter

from . import tasks

SETTINGS = {
    "max_turns": 10,
    "max_output_tokens": 512,
    "context_window": 8192,
    "max_attempts": 2,
    "bash_timeout_ms": 20000,
}


def tier(delegate, server, options, say):
    """Every task, every mode, --runs times; tasks interleaved so that a slow
    spell of the machine falls on all alike."""
    chosen = [task for task in tasks.ALL if task.name in options.tasks]
    modes = {}
    for mode in options.modes:
        say(f"capability, {mode} tool mode, {options.runs} runs of each task:")
        seen = {task.name: [] for task in chosen}
        for number in range(1, options.runs + 1):
            for task in chosen:
                run = once(delegate, server, options.wire, mode, task)
                seen[task.name].append(run)
                verdict = "pass" if run["passed"] else f"no: {run['wrong']}"
                say(f"    {number:>2} {task.name:<13} {run['seconds']:>5.1f} s  {verdict}")
        modes[mode] = summary(seen)
        for name, figures in modes[mode]["tasks"].items():
            say(line(name, figures))
        passed, total = modes[mode]["passed"], modes[mode]["runs"]
        say(f"  {'all':<13} {passed:>3} of {total:<3} ({modes[mode]['pass_rate']:.0%})")
    return {"runs": options.runs, "wire": options.wire, "modes": modes}


def once(delegate, server, wire, mode, task):
    """One run and its verdict."""
    settings = {**SETTINGS, "tool_mode": mode}
    name = f"{mode}-{task.name}"
    run = delegate.run(
        name, task.prompt, task.files, wire, server.url(wire), server.model, settings
    )
    result = run.result() or {}

    def jailed(command):
        return delegate.jailed(run.workspace, run.home, command)

    wrong = task.check(run, jailed)
    ended = "no result"
    if run.status is None:
        ended = "time-out"
    elif result:
        ended = result.get("error_class") or result.get("outcome")
    return {
        "passed": wrong is None,
        "wrong": wrong,
        "ended": ended,
        "seconds": round(run.seconds, 2),
        "turns": result.get("turns"),
        "calls": [call.get("tool") for call in result.get("executions") or []],
    }


def summary(seen):
    """Counts and medians of one mode."""
    figures = {}
    for name, runs in seen.items():
        figures[name] = {
            "passed": sum(run["passed"] for run in runs),
            "runs": len(runs),
            "median_seconds": statistics.median(run["seconds"] for run in runs),
            "median_turns": statistics.median(run["turns"] or 0 for run in runs),
            "ended": dict(Counter(run["ended"] for run in runs).most_common()),
            "wrong": dict(Counter(run["wrong"] for run in runs if run["wrong"]).most_common(5)),
            "each": runs,
        }
    passed = sum(task["passed"] for task in figures.values())
    total = sum(task["runs"] for task in figures.values())
    return {
        "passed": passed,
        "runs": total,
        "pass_rate": passed / total if total else 0.0,
        "tasks": figures,
    }


def line(name, task):
    """One row for people."""
    ended = ", ".join(f"{count} {how}" for how, count in task["ended"].items())
    return (
        f"  {name:<13} {task['passed']:>3} of {task['runs']:<3} "
        f"median {task['median_seconds']:.1f} s, {task['median_turns']:g} turns; ended: {ended}"
    )
