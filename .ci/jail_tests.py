"""Reads cargo's JSON from stdin; prints package folder and path of each jail test binary.

Those are every test of the crate `jail`, and the files tests/jail*.rs.
"""

import json
import os
import sys

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
    if of_jail_crate or ("test" in target["kind"] and target["name"].startswith("jail")):
        print(folder, message["executable"], sep="\t")
