#!/usr/bin/env python3
import atexit, os, signal, subprocess, sys, tempfile, threading, time
sys.path.insert(0, os.environ["SDK"])
from shell_operator_hook import Hook

count = 0
kept = tempfile.TemporaryDirectory()
atexit.register(lambda: print("the worker ends"))
os.environ["PREPARED"] = "yes"
PREPARATION
hook = Hook({"configVersion": "v1", "onStartup": 1, "settings": {"worker": True}})

@hook.otherwise
def handle(context):
    exec(os.environ["COMMAND"], globals())

if __name__ == "__main__":
    hook.run(OPTIONS)
    print("not reached in a worker")
