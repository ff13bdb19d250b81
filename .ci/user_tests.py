"""Reads cargo's JSON from stdin; prints package folder and path of each test
binary that is run again as an ordinary user.

Those are every test of the crate `jail`, and of the black-box tests all that
start processes. What only reads sources or replays bytes does not depend on
the user.
"""

import json
import os
import sys

SAME_FOR_EVERYBODY = {"rooms", "replay_teeth", "provider_replay", "mcp_python_client"}

for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if message.get("reason") != "compiler-artifact" or not message.get("executable"):
        continue
    if not message.get("profile", {}).get("test"):
        continue
    folder = os.path.dirname(message["manifest_path"])
    target = message["target"]
    of_jail_crate = os.path.basename(folder) == "jail"
    black_box = target["kind"] == ["test"] and target["name"] not in SAME_FOR_EVERYBODY
    if of_jail_crate or black_box:
        print(folder, message["executable"], sep="\t")
