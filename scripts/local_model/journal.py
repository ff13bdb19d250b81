"""The journal of a run, read straight from its store and held against the files."""

import contextlib
import hashlib
import sqlite3


def check(checks, result, run):
    """One closed record for each mutation, and the bytes that it names."""
    told = result.get("mutations") or []
    if not told:
        return  # The store is opened with the first change only.
    rows = read(run.home)
    if not checks.that(rows is not None, "the run left a journal below its home"):
        return
    mine = [row for row in rows if row["run"] == result.get("run_id")]
    checks.that(
        [row["id"] for row in mine] == [change.get("transaction_id") for change in told],
        "journal and report name the same transactions in the same order",
        f"{[row['id'] for row in mine]} against {[c.get('transaction_id') for c in told]}",
    )
    for row, change in zip(mine, told):
        checks.that(
            (row["tool"], row["path"]) == (change.get("tool"), change.get("path")),
            "journal and report tell the same change",
            f"{row['tool']} {row['path']} against {change.get('tool')} {change.get('path')}",
        )
        checks.that(row["state"] == "committed", "the record is closed", row["state"])
    if any(call.get("tool") == "Bash" for call in result.get("executions") or []):
        return  # A command may have changed the file again.
    for path, row in {row["path"]: row for row in mine}.items():
        file = run.workspace / path
        found = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
        checks.that(
            found == row["sha_after"], f"{path} has the bytes that the journal says", found
        )


def read(home):
    """The rows of the journal below this home, oldest first, or None."""
    for file in sorted(home.rglob("*")):
        if not file.is_file() or file.is_symlink():
            continue
        with open(file, "rb") as start:
            if start.read(15) != b"SQLite format 3":
                continue
        with contextlib.closing(sqlite3.connect(file)) as store:
            store.row_factory = sqlite3.Row
            try:
                return store.execute("SELECT * FROM mutation ORDER BY seq").fetchall()
            except sqlite3.OperationalError:
                continue
    return None
