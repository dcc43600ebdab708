#!/usr/bin/env python3
"""Flux on a laptop: serves the charts beside this file, names each in an ExternalArtifact, and runs helm-controller until Ctrl-C.

In a cluster Flux runs as always, and an OCIRepository or a HelmRepository has the charts. Needs kubectl, and helm-controller of make addons.
"""
import argparse
import datetime
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile
import threading

CHARTS = pathlib.Path(__file__).parent / "charts"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", type=int, default=0, help="of the charts, on 127.0.0.1; 0: any free one")
parser.add_argument("--namespace", default="addons", help="of the releases")
arguments = parser.parse_args()


def kubectl(*command: str, stdin: str = "") -> None:
    subprocess.run(["kubectl", "-n", arguments.namespace, *command], input=stdin, text=True, check=True, stdout=subprocess.DEVNULL)


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def publish(chart: pathlib.Path, directory: str, url: str) -> None:
    file = f"{chart.name}-1.0.0.tgz"
    with tarfile.open(f"{directory}/{file}", "w:gz") as archive:
        archive.add(chart, arcname=chart.name)
    data = pathlib.Path(directory, file).read_bytes()
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "reason": "Published", "message": "published", "lastTransitionTime": now}
    artifact = {
        "url": f"{url}/{file}",
        "path": file,
        "revision": "1.0.0",
        "digest": "sha256:" + hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "lastUpdateTime": now,
    }
    source = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact", "metadata": {"name": chart.name}}
    kubectl("apply", "-f", "-", stdin=json.dumps(source))
    status = json.dumps({"status": {"artifact": artifact, "conditions": [ready]}})
    kubectl("patch", "externalartifact", chart.name, "--subresource=status", "--type=merge", "-p", status)


with tempfile.TemporaryDirectory() as directory:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), lambda *a: Files(*a, directory=directory))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for chart in sorted(CHARTS.iterdir()):
        publish(chart, directory, f"http://127.0.0.1:{server.server_port}")
    controller = subprocess.Popen(
        ["helm-controller", "--feature-gates=ExternalArtifact=true", "--enable-leader-election=false", "--requeue-dependency=1s",
         "--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0"],
        env={"RUNTIME_NAMESPACE": arguments.namespace, **os.environ},
    )
    print(f"helm-controller runs, the charts are at http://127.0.0.1:{server.server_port}", flush=True)
    try:
        controller.wait()
    except KeyboardInterrupt:
        controller.terminate()
        controller.wait()
