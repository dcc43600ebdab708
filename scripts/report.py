#!/usr/bin/env python3
"""Prints what go test -json reports: a line for each package that has passed, as it ends, then what was left out, and last the failures,
each with the command that repeats it. Arguments are packages that were not run at all."""
import collections
import json
import os
import re
import sys

MODULE = "github.com/shell-operator/shell-operator/"
output = collections.defaultdict(list)  # by package and test
failed, builds = [], {}
left, topics = 0, collections.Counter()

for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:
        print(line, end="", flush=True)
        continue
    at = event.get("Package", ""), event.get("Test", "")
    text = output[at]
    match event["Action"]:
        case "build-output":
            builds.setdefault(event["ImportPath"], []).append(event["Output"])
        case "output" if not at[1] and event["Output"].startswith(("ok ", "? ")):
            print(event["Output"], end="", flush=True)
        case "output":
            text.append(event["Output"])
        case "skip" if found := re.search(r"not in memory: (?:(\w+): )?", "".join(text)):
            left += 1
            topics[found[1]] += 1
        case "fail":
            failed.append((at, event.get("FailedBuild")))
    if event["Action"] in ("pass", "skip"):
        output.pop(at, None)

for directory in sys.argv[1:]:
    topics[os.path.basename(directory)] = 0
    for name in os.listdir(directory):
        if name.endswith("_test.go"):
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                left += len(re.findall(r"^func Test(?!Main\b)\w*\(t \*testing\.T\)", file.read(), re.M))
topics.pop(None, None)
if left:
    *most, last = sorted(topics, key=lambda topic: -topics[topic])
    print(f"… {', '.join(most)} and {last} were not tested ({left} tests): make test-cluster", flush=True)

for at, build in failed:
    for part in builds.pop(build, []) + output[at]:
        if not part.startswith(("=== RUN", "=== PAUSE", "=== CONT", "=== NAME")):
            print(part, end="")
for (package, test), build in failed:
    # Of a test with subtests, those that have failed are repeated; of a package without one that has, all of it.
    if any(other.startswith(test + "/" if test else "") and other != test for (of, other), _ in failed if of == package):
        continue
    names = "/".join(f"^{re.escape(part)}$" for part in test.split("/")) if test else "."
    print(f"repeat it: TESTCLUSTER=memory go test -count=1 -run '{names}' ./{package.removeprefix(MODULE)}")
sys.exit(1 if failed or builds else 0)
