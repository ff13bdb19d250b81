"""Serves one GGUF file over HTTP; runs inside the environment `packages` made.

llama.cpp prints as it likes; descriptor 1 is kept aside for our one line and
everything else goes to stderr.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ctx", type=int, required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--template")
    parser.add_argument("--temp", type=float)
    parser.add_argument("--seed", type=int)
    return parser.parse_args()


def main():
    options = arguments()
    ours = os.dup(1)
    os.dup2(2, 1)
    # Loading is one long C call, in which Python's handlers do not run.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)

    import xllamacpp

    started = time.monotonic()
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_ctx = options.ctx * options.parallel
    params.n_parallel = options.parallel
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.use_jinja = True
    params.warmup = True
    if hasattr(params, "ui"):
        params.ui = False
    if options.template:
        with open(options.template, encoding="utf-8") as file:
            params.chat_template = file.read()
    if options.temp is not None:
        params.sampling.temp = options.temp
    if options.seed is not None:
        params.sampling.seed = options.seed
    server = xllamacpp.Server(params)

    # In place before the line is out: a stop sent by whoever reads it is not lost.
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    root = server.listening_address.rstrip("/")
    line = {
        "base_url": f"{root}/v1",
        "root_url": root,
        "model": options.alias,
        "pid": os.getpid(),
        "file": options.model,
        "threads": options.threads,
        "ready_seconds": round(time.monotonic() - started, 2),
    }
    os.write(ours, (json.dumps(line) + "\n").encode())
    os.close(ours)
    stop.wait()
    # The C++ threads have no orderly end that could not hang; nothing is kept
    # on disk, so leaving at once is the clean stop.
    sys.stderr.flush()
    os._exit(0)


main()
