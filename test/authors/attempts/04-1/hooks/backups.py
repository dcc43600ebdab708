#!/usr/bin/env python3
import re
from typing import Iterator

from shell_operator_hook import Context, ConversionFailed, Hook, Object

hook = Hook("""
configVersion: v1
kubernetesCustomResourceConversion:
- name: backups
  crdName: backups.example.com
  conversions:
  - {fromVersion: example.com/v1, toVersion: example.com/v2}
  - {fromVersion: example.com/v2, toVersion: example.com/v1}
""")


def name(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]


@hook.on_conversion("backups", "example.com/v1", "example.com/v2")
def upgrade(context: Context) -> Iterator[Object]:
    for item in context.request["objects"]:
        spec = item.get("spec") or {}
        if "keep" in spec:
            keep = spec.pop("keep")
            match = re.fullmatch(r"([0-9]+) days", str(keep))
            if not match:
                raise ConversionFailed(f'{name(item)}: spec.keep is "{keep}", not a number and "days" such as "7 days"')
            spec["keepDays"] = int(match.group(1))
        yield {**item, "apiVersion": "example.com/v2"}


@hook.on_conversion("backups", "example.com/v2", "example.com/v1")
def downgrade(context: Context) -> Iterator[Object]:
    for item in context.request["objects"]:
        spec = item.get("spec") or {}
        if "keepDays" in spec:
            spec["keep"] = f"{spec.pop('keepDays')} days"
        yield {**item, "apiVersion": "example.com/v1"}


if __name__ == "__main__":
    hook.run()
