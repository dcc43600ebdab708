package security

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/otlp"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// printing are hooks that fail with the marker as the cause.
var printing = map[string]string{
	"plain.sh": `#!/bin/sh
if [ "$1" = --config ]; then cat <<'YAML'
CONFIG
YAML
exit; fi
echo "the password is M4RKER" >&2
exit 3
`,
	"library.bash": `#!/usr/bin/env bash
source "$SHELL_LIB"
__config__() { cat <<'YAML'
CONFIG
YAML
}
__on_kubernetes::things() { grep -q M4RKER <<<""; }
hook::run "$@"
`,
	"python.py": `#!/usr/bin/env python3
from shell_operator_hook import Hook
hook = Hook("""CONFIG""")
@hook.on_kubernetes("things")
def handle(context):
    raise RuntimeError("the password is M4RKER")
hook.run()
`,
}

// Line "output": what a failed hook has printed is in no span, condition, Event or public page; recordings are files of the operator's
// user.
func TestOutputIsPrivate(t *testing.T) {
	cluster := testenv.Either(t)
	ns := cluster.Namespace(t)
	cluster.KubectlInput(t, strings.ReplaceAll(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: things.GROUP}, spec: {group: GROUP, scope: Namespaced, names: {plural: things, singular: thing, kind: Thing}, versions: [
  {name: v1, served: true, storage: true, subresources: {status: {}},
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, "GROUP", ns+".io"), "apply", "-f", "-")
	cluster.Kubectl(t, "wait", "--for=condition=Established", "crd/things."+ns+".io", "--timeout=60s")
	files := map[string]string{}
	for name, script := range printing {
		files[name] = strings.Replace(script, "CONFIG", fmt.Sprintf(`{configVersion: v1,
  settings: {retry: {limit: 2, minDelay: 100ms, maxDelay: 100ms}}, kubernetes: [{name: things, apiVersion: %s.io/v1, kind: Thing,
   namespace: {nameSelector: {matchNames: [%[1]s]}}, initialObjects: added, jqFilter: .spec,
   queue: {name: %[2]s, key: object}, conditions: %[3]s}]}`, ns, name, strings.ToUpper(name[:1])+name[1:3]), 1)
	}
	receiver, tmp := otlp.NewReceiver(t, true), filepath.Join(t.TempDir(), "tmp")
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: testenv.Hooks(t, files), Kubeconfig: cluster.Kubeconfig, TmpDir: tmp,
		Env: []string{"TRACING_OTLP_ENDPOINT=" + receiver.Address, "TRACING_OTLP_CA=" + receiver.CA}})
	op.UntilCount(len(files), "Kubernetes bindings for hook are enabled successfully")
	cluster.KubectlInput(t, fmt.Sprintf("{apiVersion: %s.io/v1, kind: Thing, metadata: {name: soup, namespace: %[1]s}}", ns),
		"create", "-f", "-")
	op.UntilCount(len(files), "Hook failed. No attempt is left, its contexts are parked.")
	if text := op.Log() + op.Ask("why", "--object", "Thing/"+ns+"/soup"); strings.Count(text, marker) < 4*len(files) {
		t.Errorf("the log and why lack what the hooks have printed: %s", text)
	}
	outputs := map[string]string{}
	for _, path := range []string{"/", "/status.json", "/readyz", "/healthz", "/metrics", "/metrics/hooks"} {
		outputs[path] = op.Page(path)
	}
	for i, s := range receiver.Until(t, "the spans of all attempts", func(all []otlp.Span) bool {
		runs := 0
		for _, s := range all {
			if s.Tracer == "hook" {
				runs++
			}
		}
		return runs >= 2*len(files)
	}) {
		outputs[fmt.Sprintf("span %d", i)] = fmt.Sprintf("%+v %v", s.Span, s.Attributes)
	}
	recordings, err := filepath.Glob(filepath.Join(tmp, "operator-*", "recordings", "*"))
	if err != nil || len(recordings) != len(files) {
		t.Errorf("the recordings are %q (%v)", recordings, err)
	}
	for _, path := range recordings {
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %s (%v)", path, info.Mode(), err)
		}
	}
	op.Signal(os.Interrupt) // sends the last Events
	op.Wait()
	outputs["the object"] = cluster.Kubectl(t, "-n", ns, "get", "things."+ns+".io", "soup", "-o", "json", "--show-managed-fields")
	outputs["Events"] = cluster.Kubectl(t, "-n", ns, "get", "events.events.k8s.io", "-o", "json")
	for name, where := range map[string]string{"the object": "attempt 2 of 2: exit status", "Events": "has no attempt left after 2 attempts"} {
		if strings.Count(outputs[name], where) != len(files) {
			t.Errorf("%s has not %q of each hook: %s", name, where, outputs[name])
		}
	}
	for name, text := range outputs {
		if at := strings.Index(text, marker); at >= 0 {
			t.Errorf("%s has what a hook has printed: %s", name, text[max(0, at-300):min(len(text), at+50)])
		}
	}
}
