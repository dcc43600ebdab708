#!/usr/bin/env python3
"""Build the wheel of sdk/python, with the standard library only: build-wheel.py VERSION DIRECTORY, or --name VERSION for its file name.

Equal sources make equal bytes: the files are sorted, and their time is SOURCE_DATE_EPOCH.
"""
import base64
import hashlib
import os
import re
import sys
import time
import zipfile

PACKAGE = "shell_operator_hook"
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk", "python")


def python_version(tag):
    """The tag of a release as PEP 440 writes it; anything else is a local version before the first release."""
    match = re.fullmatch(r"v(\d+\.\d+\.\d+)(?:-([a-z]+)\.?(\d+))?", tag)
    if not match:
        return "0.0.0+" + (re.sub(r"[^a-z0-9]+", ".", tag.lower()).strip(".") or "dev")
    release, kind, number = match.groups()
    return release + ({"alpha": "a", "beta": "b", "rc": "rc"}.get(kind, ".dev") + number if kind else "")


def name(version):
    return f"{PACKAGE}-{version}-py3-none-any.whl"


def build(version, directory):
    root = os.path.join(SOURCE, PACKAGE)
    files = {}
    for file in os.listdir(root):
        if file.endswith((".py", ".typed")):
            with open(os.path.join(root, file), "rb") as source:
                files[f"{PACKAGE}/{file}"] = source.read()
    info = f"{PACKAGE}-{version}.dist-info"
    files[f"{info}/METADATA"] = (
        "Metadata-Version: 2.1\n"
        "Name: shell-operator-hook\n"
        f"Version: {version}\n"
        "Summary: Write hooks for shell-operator in Python\n"
        "License: Apache-2.0\n"
        "Requires-Python: >=3.8\n"
    ).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: build-wheel\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = []
    for path in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).decode().rstrip("=")
        record.append(f"{path},sha256={digest},{len(files[path])}\n")
    files[f"{info}/RECORD"] = "".join(record + [f"{info}/RECORD,,\n"]).encode()
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), 315532800))[:6]  # a zip file begins with 1980
    with zipfile.ZipFile(os.path.join(directory, name(version)), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in sorted(files, key=lambda path: (path.startswith(info), path)):
            entry = zipfile.ZipInfo(path, moment)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, files[path])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--name":
        print(name(python_version(sys.argv[2])))
    else:
        build(python_version(sys.argv[1]), sys.argv[2])
