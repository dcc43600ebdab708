#!/usr/bin/env python3
import re

from shell_operator_hook import Context, ConversionFailed, Hook

hook = Hook({
    "configVersion": "v1",
    "kubernetesCustomResourceConversion": [{
        "name": "backups",
        "crdName": "backups.example.com",
        "conversions": [
            {"fromVersion": "example.com/v1", "toVersion": "example.com/v2"},
            {"fromVersion": "example.com/v2", "toVersion": "example.com/v1"},
        ],
    }],
})


@hook.on_conversion("backups", "example.com/v1", "example.com/v2")
def newer(context: Context):
    for backup in context.request["objects"]:
        match = re.fullmatch(r"(\d+) days", str(backup["spec"].pop("keep")))
        if not match:
            raise ConversionFailed(f"{backup['metadata']['name']}: spec.keep is no number of days")
        backup["spec"]["keepDays"] = int(match[1])
        yield {**backup, "apiVersion": "example.com/v2"}


@hook.on_conversion("backups", "example.com/v2", "example.com/v1")
def older(context: Context):
    for backup in context.request["objects"]:
        backup["spec"]["keep"] = f"{backup['spec'].pop('keepDays')} days"
        yield {**backup, "apiVersion": "example.com/v1"}


if __name__ == "__main__":
    hook.run()
