#!/usr/bin/env python3
"""Maintains a database on a MySQL server for each MysqlDatabase of the namespace, and writes the result to its status.

WATCH_NAMESPACE  where the objects are; "default" when it is empty
CHECK_CRONTAB    when to check the server even if no object has changed; every minute when it is empty
MYSQL_HOST       the server; 127.0.0.1 when it is empty
MYSQL_PORT       its port; 3306 when it is empty
MYSQL_USER       the user there; root when it is empty
MYSQL_PWD        the password; the mysql client reads this variable, so no argument and no log contains it

The operator adds a finalizer to each object before the hook gets it, and removes it when a run for its deletion has
succeeded. An object whose status names its database owns that database: this is written before the database is created.
So the next run completes the work of a killed hook or operator. Foreign databases are never dropped.
"""

import json
import os
import subprocess
import sys

NAMESPACE = os.environ.get("WATCH_NAMESPACE") or "default"
API_VERSION = "example.com/v1"
KIND = "MysqlDatabase"
FINALIZER = "example.com/mysql-database"


def config():
    return {
        "configVersion": "v1",
        "kubernetes": [
            {
                "name": "databases",
                "apiVersion": API_VERSION,
                "kind": KIND,
                "namespace": {"nameSelector": {"matchNames": [NAMESPACE]}},
                "finalizer": FINALIZER,
                # The input of all decisions, and the generation, so that observedGeneration follows it. It excludes the rest of the
                # status, so writing that causes no run.
                "jqFilter": "{spec, name: .metadata.name, generation: .metadata.generation, database: .status.database}",
                "keepFullObjectsInMemory": False,
            }
        ],
        "schedule": [{"name": "check", "crontab": os.environ.get("CHECK_CRONTAB") or "*/1 * * * *"}],
    }


class MysqlError(Exception):
    """What the mysql client has said."""


def mysql(statement):
    """Runs a statement and returns the lines of its result."""
    command = [
        "mysql",
        f"--host={os.environ.get('MYSQL_HOST') or '127.0.0.1'}",
        f"--port={os.environ.get('MYSQL_PORT') or '3306'}",
        f"--user={os.environ.get('MYSQL_USER') or 'root'}",
        "--connect-timeout=10",
        "-N",
        "-B",
        "-e",
        statement,
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        # Warnings may precede the error.
        raise MysqlError((done.stderr.strip() or f"mysql ended with status {done.returncode}").splitlines()[-1])
    return done.stdout.splitlines()


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def all_objects():
    """Returns the objects as they are now. What a context or a snapshot holds may be a moment old: old enough to give
    one database to two objects."""
    command = ["kubectl", "get", "mysqldatabases.example.com", "-n", NAMESPACE, "-o", "json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)["items"]


def name(obj):
    return obj["metadata"]["name"]


def deleted(obj):
    return "deletionTimestamp" in obj["metadata"]


def owns(obj):
    return obj.get("status", {}).get("database") == obj["spec"]["database"]


def age(obj):
    """Orders objects by their age. Timestamps count seconds; of objects that came within one of them, any is the first."""
    return obj["metadata"]["creationTimestamp"], int(obj["metadata"]["resourceVersion"])


def retains(obj):
    return obj["spec"].get("deletionPolicy") == "Retain"


def say(text):
    print(text, flush=True)


def patch(obj, **what):
    """Asks the operator to change an object after this run."""
    operation = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "namespace": NAMESPACE,
        "name": name(obj),
        "ignoreMissingObject": True,
        **what,
    }
    with open(os.environ["KUBERNETES_PATCH_PATH"], "a", encoding="utf-8") as file:
        print(json.dumps(operation), file=file)


def report(obj, reason, message=""):
    """Sets the condition Ready, whose reason is Ready, Creating, Conflict or Failed. If nothing but the time would change, the operator
    writes nothing."""
    status = {"Ready": "True", "Creating": "Unknown"}.get(reason, "False")
    # ignoreHookError: also if this run fails, because then the condition has the reason.
    patch(obj, operation="Condition", type="Ready", status=status, reason=reason, message=message, ignoreHookError=True)


def is_ready(obj):
    conditions = obj.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def owner_of(claims, exists):
    """Returns which of the objects that name one database owns it or gets it; None if none of them does."""
    claims = sorted(claims, key=age)
    owners = [obj for obj in claims if owns(obj)]
    # A database that existed before must not be dropped.
    could_own = [obj for obj in claims if not deleted(obj) and (retains(obj) or not exists)]
    return next(iter(owners + could_own), None)


def settle(obj, owner, exists):
    """Does the next step for one object."""
    database = obj["spec"]["database"]
    if deleted(obj):
        if obj is owner and owns(obj) and exists and not retains(obj):
            mysql(f"DROP DATABASE IF EXISTS {quoted(database)}")
            say(f"Dropped database '{database}'")
    elif owner is None:
        report(
            obj,
            "Conflict",
            f"database '{database}' was on the server before; an object with deletionPolicy Retain would take it over",
        )
    elif obj is not owner:
        report(obj, "Conflict", f"database '{database}' belongs to {KIND} '{name(owner)}'")
    elif not owns(obj):
        # This change of the object causes the next run.
        patch(obj, operation="MergePatch", subresource="status", mergePatch={"status": {"database": database}}, ignoreHookError=True)
        report(obj, "Creating")
    else:
        if not exists:
            mysql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
            say(f"Created database '{database}'")
        report(obj, "Ready")


def main():
    if sys.argv[1:] == ["--config"]:
        print(json.dumps(config(), indent=2))
        return

    with open(os.environ["BINDING_CONTEXT_PATH"], encoding="utf-8") as file:
        contexts = json.load(file)
    for context in contexts:
        if context["type"] == "Synchronization":
            say(f"Start with {len(context['objects'])} objects")
        elif context["type"] == "Event":
            say(f"{KIND} '{context['filterResult']['name']}': {context['watchEvent']}")

    # One comparison of everything handles any number of events.
    objects = all_objects()
    if not objects:
        return
    try:
        existing = set(mysql("SHOW DATABASES"))
    except MysqlError as error:
        for obj in objects:
            if deleted(obj) or not is_ready(obj):
                report(obj, "Failed", str(error))
        sys.exit(f"cannot look at the server: {error}")  # the run fails, and the operator retries it after a back-off

    failed = False
    claims = {}
    for obj in objects:
        claims.setdefault(obj["spec"]["database"], []).append(obj)
    for database, claimants in claims.items():
        owner = owner_of(claimants, database in existing)
        for obj in claimants:
            try:
                settle(obj, owner, database in existing)
            except MysqlError as error:
                # The other databases continue. The next check of the server retries this one.
                print(f"{KIND} '{name(obj)}': {error}", file=sys.stderr)
                report(obj, "Failed", str(error))
                failed = failed or deleted(obj)
    if failed:
        sys.exit("a database could not be dropped")  # a run that succeeds would remove the finalizer


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]} {error.cmd[1]} failed with status {error.returncode}")
