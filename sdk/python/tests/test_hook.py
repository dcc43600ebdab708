"""A test is a hook and the files of its run."""

import base64
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import traceback
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping
from unittest import mock

from shell_operator_hook import Context, ConversionFailed, Hook, admission, contexts, conversion, http, kubernetes, metrics, run

OUTPUTS = {
    "KUBERNETES_PATCH_PATH": "patch",
    "METRICS_PATH": "metrics",
    "ADMISSION_RESPONSE_PATH": "admission",
    "CONVERSION_RESPONSE_PATH": "conversion",
    "HTTP_RESPONSE_PATH": "http",
    "RUN_RESULT_PATH": "result",
}


def ignore(context: Context) -> None:
    """A handler."""


class RunCase(unittest.TestCase):
    """A test with a run: its variables and its files."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        variables = {variable: str(self.folder / name) for variable, name in OUTPUTS.items()}
        variables["BINDING_CONTEXT_PATH"] = str(self.folder / "contexts.json")
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)
        for name in OUTPUTS.values():
            (self.folder / name).touch()

    def run_hook(self, hook: Hook, *raw: Dict[str, Any]) -> None:
        (self.folder / "contexts.json").write_text(json.dumps(raw), encoding="utf-8")
        hook.run([])

    def lines(self, name: str) -> List[Any]:
        return [json.loads(line) for line in (self.folder / name).read_text(encoding="utf-8").splitlines()]

    @contextlib.contextmanager
    def complains(self, text: str) -> Iterator[None]:
        """Raises a ValueError with the text, and writes nothing."""
        before = [self.lines(name) for name in OUTPUTS.values()]
        with self.assertRaises(ValueError) as raised:
            yield
        self.assertIn(text, str(raised.exception))
        self.assertEqual([self.lines(name) for name in OUTPUTS.values()], before)


class Handlers(RunCase):
    def test_rows(self) -> None:
        """Which handlers may get a context, the first one first. The message of a hook without any names them."""
        gadgets = {"binding": "gadgets", "type": "Conversion"}
        for raw, want in [
            ({"binding": "onStartup"}, "@on_startup"),
            ({"binding": "p", "type": "Synchronization"}, "@on_kubernetes('p', 'Synchronization'), @on_kubernetes('p')"),
            ({"binding": "p", "type": "Event", "watchEvent": "Added"}, "@on_kubernetes('p', 'Added'), @on_kubernetes('p')"),
            ({"binding": "p", "type": "Event", "watchEvent": "Modified"}, "@on_kubernetes('p', 'Modified'), @on_kubernetes('p')"),
            ({"binding": "p", "type": "Event", "watchEvent": "Deleted"}, "@on_kubernetes('p', 'Deleted'), @on_kubernetes('p')"),
            ({"binding": "p", "type": "Requeue"}, "@on_kubernetes('p', 'Requeue'), @on_kubernetes('p'), @on_schedule('p'), @otherwise, @on_kubernetes('p', 'Modified')"),
            ({"binding": "p", "type": "Group", "groupName": "all of it"}, "@on_group('all of it')"),
            ({"binding": "every hour", "type": "Schedule"}, "@on_schedule('every hour')"),
            ({"binding": "v", "type": "Validating"}, "@on_validating('v')"),
            ({"binding": "m", "type": "Mutating"}, "@on_mutating('m')"),
            ({"binding": "list", "type": "HTTP"}, "@on_http('list')"),
            ({**gadgets, "fromVersion": "t.io/v1", "toVersion": "t.io/v2"}, "@on_conversion('gadgets', 't.io/v1', 't.io/v2'), @on_conversion('gadgets')"),
            ({"binding": "p", "resourceEvent": "add"}, ""),
            ({"binding": "p", "type": "Something"}, ""),
        ]:
            with self.subTest(want), self.assertRaises(ValueError) as raised:
                self.run_hook(Hook({}), raw)
            wanted = str(raised.exception).split("add one of: ")[1]
            self.assertEqual(wanted, want if "@otherwise" in want else f"{want}, @otherwise".lstrip(", "))

    def test_dispatch(self) -> None:
        hook = Hook({})
        calls: List[str] = []

        @hook.on_startup
        def start(context: Context) -> None:
            calls.append(f"start {context.binding}")

        @hook.on_kubernetes("pods", "Added", "Modified")
        def upsert(context: Context) -> None:
            calls.append(f"upsert {context.watch_event}")

        @hook.on_kubernetes("pods")
        def rest(context: Context) -> None:
            calls.append(f"rest {context.type} {context.watch_event}")

        @hook.on_schedule("every hour")
        def tick(context: Context) -> None:
            calls.append("tick")

        @hook.on_group("all")
        def group(context: Context) -> None:
            calls.append(f"group {context.group}")

        @hook.otherwise
        def otherwise(context: Context) -> None:
            calls.append(f"otherwise {context.binding}")

        def event(kind: str) -> Dict[str, Any]:
            return {"binding": "pods", "type": "Event", "watchEvent": kind}

        self.run_hook(
            hook,
            {"binding": "onStartup"},
            {"binding": "pods", "type": "Synchronization", "objects": []},
            event("Added"),
            event("Modified"),
            event("Deleted"),
            {"binding": "every hour", "type": "Schedule"},
            {"binding": "x", "type": "Group", "groupName": "all"},
            {"binding": "other", "type": "Schedule"},
        )
        self.assertEqual(
            calls,
            [
                "start onStartup",
                "rest Synchronization ",
                "upsert Added",
                "upsert Modified",
                "rest Event Deleted",
                "tick",
                "group all",
                "otherwise other",
            ],
        )

    def test_an_exception_ends_the_run(self) -> None:
        hook = Hook({})
        calls: List[str] = []

        @hook.otherwise
        def handle(context: Context) -> None:
            calls.append(context.binding)
            if context.binding == "b":
                raise RuntimeError("no")

        with self.assertRaisesRegex(RuntimeError, "no"):
            self.run_hook(hook, {"binding": "a"}, {"binding": "b"}, {"binding": "c"})
        self.assertEqual(calls, ["a", "b"])

    def test_misuse(self) -> None:
        hook = Hook({})
        hook.on_schedule("a")(ignore)
        with self.complains("there already is a handler for @on_schedule('a')"):
            hook.on_schedule("a")(ignore)
        with self.complains("'Changed' is not an event; there are: Synchronization, Added, Modified, Deleted"):
            hook.on_kubernetes("a", "Changed")
        with self.complains("give both from_version and to_version"):
            hook.on_conversion("a", "v1")
        del os.environ["BINDING_CONTEXT_PATH"]
        with self.complains("BINDING_CONTEXT_PATH has to name a file"):
            hook.run([])

    def test_config(self) -> None:
        for config, want in [({"configVersion": "v1"}, '{"configVersion": "v1"}\n'), ("configVersion: v1", "configVersion: v1\n")]:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                Hook(config).run(["--config"])
            self.assertEqual(out.getvalue(), want)

    def test_as_a_process(self) -> None:
        """A hook file: its configuration, a good run, and a bad one."""
        file = self.folder / "hook.py"
        file.write_text(
            textwrap.dedent(
                """
                from shell_operator_hook import Hook

                hook = Hook({"configVersion": "v1", "onStartup": 1})

                @hook.on_startup
                def start(context):
                    print("started")

                if __name__ == "__main__":
                    hook.run()
                """
            ),
            encoding="utf-8",
        )

        def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
            env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
            return subprocess.run([sys.executable, str(file), *arguments], env=env, capture_output=True, text=True, check=False)

        self.assertEqual(json.loads(run("--config").stdout), {"configVersion": "v1", "onStartup": 1})
        (self.folder / "contexts.json").write_text('[{"binding":"onStartup"}]', encoding="utf-8")
        self.assertEqual(run().stdout, "started\n")
        (self.folder / "contexts.json").write_text('[{"binding":"x","type":"Schedule"}]', encoding="utf-8")
        bad = run()
        self.assertEqual(bad.returncode, 1)
        self.assertIn("add one of: @on_schedule('x'), @otherwise", bad.stderr)


class Contexts(RunCase):
    def test_values(self) -> None:
        (self.folder / "contexts.json").write_text(
            json.dumps(
                [
                    {
                        "binding": "pods",
                        "type": "Synchronization",
                        "objects": [{"object": {"kind": "Pod"}, "filterResult": 1}, {"filterResult": None}, {}],
                        "snapshots": {"nodes": [{"filterResult": "n1"}], "none": []},
                    },
                    {"binding": "pods", "type": "Event", "watchEvent": "Added", "object": {"kind": "é"}, "filterResult": [2]},
                    {"binding": "v", "type": "Validating", "review": {"request": {"uid": "1"}}},
                    {"binding": "onStartup"},
                ]
            ),
            encoding="utf-8",
        )
        sync, event, review, startup = contexts()
        self.assertEqual([item.object for item in sync.objects], [{"kind": "Pod"}, {}, {}])
        self.assertEqual([item.filter_result for item in sync.objects], [1, None, None])
        self.assertEqual({name: len(items) for name, items in sync.snapshots.items()}, {"nodes": 1, "none": 0})
        self.assertEqual(sync.snapshot("nodes")[0].filter_result, "n1")
        with self.complains("there is no snapshot of 'other'; there is: nodes, none."):
            sync.snapshot("other")
        self.assertEqual((event.object, event.filter_result), ({"kind": "é"}, [2]))
        self.assertEqual((event.previous_object, event.previous_filter_result), ({}, None))
        before = Context({"type": "Event", "previousObject": {"kind": "A"}, "previousFilterResult": [1]})
        self.assertEqual((before.previous_object, before.previous_filter_result), ({"kind": "A"}, [1]))
        self.assertEqual(event.objects, [event])
        self.assertEqual(review.request, {"uid": "1"})
        self.assertEqual(
            (startup.binding, startup.type, startup.watch_event, startup.group, startup.from_version, startup.to_version),
            ("onStartup", "", "", "", "", ""),
        )
        self.assertEqual((startup.objects, startup.snapshots, startup.request, startup.object), ([], {}, {}, {}))
        self.assertEqual(repr(startup), "Context({'binding': 'onStartup'})")


class Outputs(RunCase):
    def test_kubernetes(self) -> None:
        kubernetes.create({"kind": "A"})
        kubernetes.create_if_not_exists("kind: A\n")
        kubernetes.create_or_update({"kind": "é"})
        kubernetes.apply({"kind": "C"})
        kubernetes.apply("kind: D", subresource="status", force=True)
        kubernetes.create({"kind": "E"}, subresource="eviction")
        kubernetes.merge_patch("deployment", "web", {"spec": {"replicas": 4}}, namespace="shop")
        kubernetes.merge_patch(
            "g", "x", "status: {}", api_version="t.io/v1", subresource="status", ignore_missing=True, ignore_hook_error=True
        )
        kubernetes.json_patch("deployment", "web", [{"op": "remove", "path": "/spec/x"}])
        kubernetes.jq_patch("ns", "shop", ".metadata.labels.a = 1")
        kubernetes.delete("job", "a", namespace="b", api_version="batch/v1")
        kubernetes.delete("job", "a", background=True)
        kubernetes.delete("job", "a", orphan=True)
        self.assertEqual(
            self.lines("patch"),
            [
                {"operation": "Create", "object": {"kind": "A"}},
                {"operation": "CreateIfNotExists", "object": "kind: A\n"},
                {"operation": "CreateOrUpdate", "object": {"kind": "é"}},
                {"operation": "Apply", "object": {"kind": "C"}},
                {"operation": "Apply", "object": "kind: D", "subresource": "status", "force": True},
                {"operation": "Create", "object": {"kind": "E"}, "subresource": "eviction"},
                {"operation": "MergePatch", "kind": "deployment", "namespace": "shop", "name": "web", "mergePatch": {"spec": {"replicas": 4}}},
                {
                    "operation": "MergePatch",
                    "apiVersion": "t.io/v1",
                    "kind": "g",
                    "name": "x",
                    "mergePatch": "status: {}",
                    "subresource": "status",
                    "ignoreMissingObject": True,
                    "ignoreHookError": True,
                },
                {"operation": "JSONPatch", "kind": "deployment", "name": "web", "jsonPatch": [{"op": "remove", "path": "/spec/x"}]},
                {"operation": "JQPatch", "kind": "ns", "name": "shop", "jqFilter": ".metadata.labels.a = 1"},
                {"operation": "Delete", "apiVersion": "batch/v1", "kind": "job", "namespace": "b", "name": "a"},
                {"operation": "DeleteInBackground", "kind": "job", "name": "a"},
                {"operation": "DeleteNonCascading", "kind": "job", "name": "a"},
            ],
        )

    def test_sync(self) -> None:
        order: Mapping[str, Any] = {"apiVersion": "e.io/v1", "kind": "Order", "metadata": {"namespace": "s", "name": "o", "uid": "u"}}
        kubernetes.sync("web", [{"kind": "A"}, "kind: B"], owner=order, prune_kinds=["PersistentVolumeClaim"])
        kubernetes.sync("web", [], owner={"apiVersion": "v1", "kind": "Node", "name": "n"}, allow_empty=True, force=True, drift="ignore")
        owners = [
            {"apiVersion": "e.io/v1", "kind": "Order", "namespace": "s", "name": "o", "uid": "u"},
            {"apiVersion": "v1", "kind": "Node", "name": "n"},
        ]
        self.assertEqual(
            self.lines("patch"),
            [
                {"operation": "Sync", "set": "web", "owner": owners[0], "pruneKinds": ["PersistentVolumeClaim"], "objects": [{"kind": "A"}, "kind: B"]},
                {"operation": "Sync", "set": "web", "owner": owners[1], "allowEmpty": True, "force": True, "drift": "ignore", "objects": []},
            ],
        )
        with self.complains("the name of the set is empty"):
            kubernetes.sync("", [{"kind": "A"}])
        with self.complains("there are no objects, which deletes the whole set: set allow_empty if that is meant"):
            kubernetes.sync("web", [])
        with self.complains("the owner must have apiVersion, kind and a name"):
            kubernetes.sync("web", [{"kind": "A"}], owner={"kind": "Node", "name": "n"})

    def test_kubernetes_misuse(self) -> None:
        with self.complains("the manifest is empty"):
            kubernetes.create(" ")
        with self.complains("the manifest has no kind"):
            kubernetes.create({})
        with self.complains("kind and name must not be empty: kind is 'job', name is ''"):
            kubernetes.delete("job", "")
        with self.complains("choose one of background and orphan"):
            kubernetes.delete("job", "a", background=True, orphan=True)
        with self.complains("the patch is empty"):
            kubernetes.json_patch("job", "a", [])
        with self.complains("only values that JSON has"):
            kubernetes.create({"kind": object()})
        del os.environ["KUBERNETES_PATCH_PATH"]
        with self.assertRaisesRegex(ValueError, "KUBERNETES_PATCH_PATH is not set"):
            kubernetes.create({"kind": "A"})

    def test_frames_of_the_library_are_cut(self) -> None:
        from shell_operator_hook import _worker

        def own() -> None:
            raise ValueError("no")

        with contextlib.redirect_stderr(io.StringIO()) as printed:
            self.assertEqual(_worker._status(own), 1)
        self.assertIn("in own", printed.getvalue())
        self.assertNotIn("_worker.py", printed.getvalue())

        hook = Hook({})
        hook.otherwise(lambda context: own())
        try:
            hook.handle(Context({"binding": "a"}))
        except ValueError as problem:
            frames = traceback.extract_tb(_worker._of_hook(problem.__traceback__))
        self.assertEqual([frame.name for frame in frames], ["test_frames_of_the_library_are_cut", "<lambda>", "own"])

    def test_status(self) -> None:
        kubernetes.condition("Order", "o-1", "Paid", True, "Received", "12 EUR", namespace="shop", api_version="t.io/v1")
        kubernetes.condition("Order", "o-1", "Paid", "Unknown", "Waiting", ignore_missing=True, ignore_hook_error=True)
        order = {"apiVersion": "t.io/v1", "kind": "Order", "metadata": {"namespace": "shop", "name": "o-1", "uid": "u", "labels": {}}, "spec": {}}
        kubernetes.event(order, "Warning", "Late", "Remind", "two days")
        kubernetes.event({"apiVersion": "v1", "kind": "Node", "name": "n1"}, "Normal", "Seen", "Count")
        condition = {"operation": "Condition", "kind": "Order", "name": "o-1", "type": "Paid"}
        address = {"apiVersion": "t.io/v1", "namespace": "shop"}
        self.assertEqual(
            self.lines("patch"),
            [
                {**condition, **address, "status": "True", "reason": "Received", "message": "12 EUR"},
                {**condition, "status": "Unknown", "reason": "Waiting", "ignoreMissingObject": True, "ignoreHookError": True},
                {
                    "operation": "Event",
                    "regarding": {**address, "kind": "Order", "name": "o-1", "uid": "u"},
                    "type": "Warning",
                    "reason": "Late",
                    "action": "Remind",
                    "note": "two days",
                },
                {"operation": "Event", "regarding": {"apiVersion": "v1", "kind": "Node", "name": "n1"}, "type": "Normal", "reason": "Seen", "action": "Count"},
            ],
        )
        with self.complains("status is None; choose one of True, False and 'Unknown'"):
            kubernetes.condition("Order", "o-1", "Paid", None, "X")  # type: ignore[arg-type]
        with self.complains("reason must not be empty"):
            kubernetes.condition("Order", "o-1", "Paid", False, "")
        with self.complains("type is 'Error'"):
            kubernetes.event(order, "Error", "Late", "Remind")
        with self.complains("regarding needs apiVersion, kind and a name"):
            kubernetes.event({"kind": "Order"}, "Normal", "Late", "Remind")

    def test_metrics(self) -> None:
        metrics.add("orders_seen", 1)
        metrics.add("orders_seen", 0.5, {"shop": 'a "b"', "n": 1})
        metrics.set("depth", -12, group="my")
        metrics.observe("probe_seconds", 0.42, {"target": "db"}, buckets=[0.1, 1])
        metrics.observe("probe_seconds", 3)
        metrics.expire("old")
        metrics.expire()
        self.assertEqual(
            self.lines("metrics"),
            [
                {"name": "orders_seen", "action": "add", "value": 1},
                {"name": "orders_seen", "action": "add", "value": 0.5, "labels": {"shop": 'a "b"', "n": "1"}},
                {"name": "depth", "action": "set", "value": -12, "group": "my"},
                {"name": "probe_seconds", "action": "observe", "value": 0.42, "buckets": [0.1, 1], "labels": {"target": "db"}},
                {"name": "probe_seconds", "action": "observe", "value": 3, "buckets": []},
                {"action": "expire", "group": "old"},
                {"action": "expire"},
            ],
        )

    def test_metrics_misuse(self) -> None:
        with self.complains("a counter only grows"):
            metrics.add("a", -1)
        with self.complains("nan is not a number that can be reported"):
            metrics.set("a", float("nan"))
        with self.complains("'1' is not a number that can be reported"):
            metrics.set("a", "1")  # type: ignore[arg-type]
        with self.complains("'1a' cannot be the name of a metric"):
            metrics.set("1a", 1)
        with self.complains("'__x' cannot be the name of a label"):
            metrics.set("a", 1, {"__x": ""})
        with self.complains("the name of the group is empty"):
            metrics.expire("")

    def test_admission(self) -> None:
        def answer() -> Any:
            (value,) = self.lines("admission")
            return value

        admission.allow()
        self.assertEqual(answer(), {"allowed": True})
        admission.deny("no", "a warning")
        self.assertEqual(answer(), {"allowed": False, "message": "no", "warnings": ["a warning"]})
        admission.patch([{"op": "remove", "path": "/a"}])
        self.assertEqual(answer()["allowed"], False)
        admission.allow("another")
        self.assertEqual(answer(), {"allowed": True, "warnings": ["a warning", "another"]})
        admission.patch([{"op": "remove", "path": "/a"}])
        admission.patch({"op": "remove", "path": path} for path in ("/b",))
        patch = json.loads(base64.b64decode(answer().pop("patch")))
        self.assertEqual(patch, [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/b"}])
        with self.complains("say why"):
            admission.deny("")
        with self.complains("a JSON patch operation has op and path"):
            admission.patch([{"op": "remove"}])

    def test_http(self) -> None:
        hook = Hook({})

        @hook.on_http("get")
        def get(context: Context) -> None:
            name = context.request["pathValues"]["name"]
            if name == "a":
                http.json(200, {"name": name}, headers={"Link": ("</b>", "</c>"), "Etag": '"1"'})
            elif name == "page":
                http.respond(200, "<p>", content_type="text/html")
            elif name == "bytes":
                http.respond(200, b"\xff")
            elif name == "gone":
                http.respond(204)
            elif name == "twice":
                http.respond(500, "no")
                http.json(200, None)

        for name, want in [
            ("a", [{"status": 200, "json": {"name": "a"}, "headers": {"Link": ["</b>", "</c>"], "Etag": '"1"'}}]),
            ("page", [{"status": 200, "body": "<p>", "headers": {"Content-Type": "text/html"}}]),
            ("bytes", [{"status": 200, "bodyBase64": "/w=="}]),
            ("gone", [{"status": 204}]),
            ("twice", [{"status": 200, "json": None}]),
            ("nothing", []),
        ]:
            with self.subTest(name):
                (self.folder / "http").write_text("", encoding="utf-8")
                self.run_hook(hook, {"binding": "get", "type": "HTTP", "request": {"pathValues": {"name": name}}})
                self.assertEqual(self.lines("http"), want)

        with self.complains("a status from 200 to 599"):
            http.respond(101)
        with self.complains("status 204 has no content"):
            http.json(204, {})

    def test_result(self) -> None:
        hook = Hook({})

        @hook.on_kubernetes("orders")
        def order(context: Context) -> None:
            name = context.objects[0].object["metadata"]["name"]
            run.requeue_after("5m" if name == "a" else timedelta(hours=1, milliseconds=1.5))
            run.requeue(name, "30s", namespace="shop")
            run.requeue("node", "1h30m")
            run.keep_finalizer()
            run.message(f"saw {name}")
            run.retry_after("0")
            run.give_up("no shop")

        events = [{"binding": "orders", "type": kind, "watchEvent": "Added", "object": {"metadata": {"name": name}}} for kind, name in [("Event", "a"), ("Requeue", "b")]]
        self.run_hook(hook, *events)
        node = {"name": "node", "after": "1h30m"}
        requeue = [{"name": "a", "after": "30s", "namespace": "shop"}, node, {"name": "b", "after": "30s", "namespace": "shop"}, node]
        self.assertEqual(
            self.lines("result"),
            [{"requeueAfter": "3600001ms", "requeue": requeue, "keepFinalizer": True, "message": "saw b", "retryAfter": "0", "giveUp": "no shop"}],
        )
        for text in ["5", "soon", "", "-1s", "5m "]:
            with self.complains("is not a duration"):
                run.requeue_after(text)
        with self.complains("name the object"):
            run.requeue("", "5m")
        with self.complains("say why"):
            run.give_up("")

    def test_conversion(self) -> None:
        hook = Hook({})

        @hook.on_conversion("gadgets", "t.io/v1", "t.io/v2")
        def convert(context: Context) -> Iterator[Dict[str, Any]]:
            for item in context.request["objects"]:
                if item.get("bad"):
                    raise ConversionFailed("it is bad")
                yield {**item, "apiVersion": context.to_version}

        @hook.on_conversion("gadgets")
        def lose(context: Context) -> List[Dict[str, Any]]:
            return []

        def raw(to_version: str, *objects: Dict[str, Any]) -> Dict[str, Any]:
            return {
                "binding": "gadgets",
                "type": "Conversion",
                "fromVersion": "t.io/v1",
                "toVersion": to_version,
                "review": {"request": {"objects": list(objects)}},
            }

        self.run_hook(hook, raw("t.io/v2", {"a": 1}, {"a": 2}))
        self.assertEqual(
            self.lines("conversion"),
            [{"convertedObjects": [{"a": 1, "apiVersion": "t.io/v2"}, {"a": 2, "apiVersion": "t.io/v2"}]}],
        )
        self.run_hook(hook, raw("t.io/v2", {"bad": True}))
        self.assertEqual(self.lines("conversion"), [{"failedMessage": "it is bad"}])
        with self.complains("there are 1 objects to convert, but the handler returned 0"):
            self.run_hook(hook, raw("t.io/v3", {"a": 1}))
        with self.complains("say why"):
            conversion.fail("")


if __name__ == "__main__":
    unittest.main()
