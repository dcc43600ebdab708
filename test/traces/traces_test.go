// Package traces follows events through a real operator by the spans that it sends.
package traces

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/otlp"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The hook prints the trace that it belongs to, and requests a change. It waits for the file that its context names, so that
// events can gather.
const hookText = `#!/bin/bash
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{kind: Secret, executeHookOnEvent: [Added], executeHookOnSynchronization: false,
    queue: {name: teams, key: namespace}, namespace: {nameSelector: {matchNames: [%[1]s]}}}]}'
  exit
fi
echo "traceparent $TRACEPARENT"
status=4
[ -e %[2]s/gathered ] || { status=0; mkfifo %[2]s/gate; echo waiting; read <%[2]s/gate; }
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap",
  "metadata": {"name": "made", "namespace": "%[1]s"}}}' >>"$KUBERNETES_PATCH_PATH"
exit $status
`

// find returns the spans of a name, whose attribute has a value.
func find(all []otlp.Span, name, attribute, value string) []otlp.Span {
	var found []otlp.Span
	for _, s := range all {
		if s.Name == name && (attribute == "" || s.Attributes[attribute] == value) {
			found = append(found, s)
		}
	}
	return found
}

func childOf(all []otlp.Span, parent otlp.Span, name string) *otlp.Span {
	for _, s := range all {
		if s.Name == name && string(s.ParentSpanId) == string(parent.SpanId) && string(s.TraceId) == string(parent.TraceId) {
			return &s
		}
	}
	return nil
}

func TestTraces(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	receiver := otlp.NewReceiver(t, true)
	hooks, files := t.TempDir(), t.TempDir()
	testenv.Script(t, hooks, "hook.sh", fmt.Sprintf(hookText, namespace, files))
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: hooks, Kubeconfig: cluster.Kubeconfig,
		Env:  []string{"TRACING_OTLP_ENDPOINT=" + receiver.Address, "TRACING_OTLP_AUTH_TOKEN=sesame", "TRACING_OTLP_CA=" + receiver.CA},
		Args: []string{"--retry-min-delay", "10m", "--retry-max-delay", "10m"},
	})
	op.UntilLog("Unlock kubernetes.Event tasks")
	create := func(name string) { cluster.Kubectl(t, "-n", namespace, "create", "secret", "generic", name) }
	create("one")
	op.UntilLog("waiting")
	create("two")
	create("three")
	op.UntilCount(3, "queue task", "binding", "kubernetes")
	if err := os.WriteFile(filepath.Join(files, "gathered"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "gate"), []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	op.UntilLog("Hook failed. Will retry after delay.")
	op.Signal(syscall.SIGTERM)
	op.Wait() // the rest is sent at the end

	all := receiver.Until(t, "the spans of two runs", func(all []otlp.Span) bool { return len(find(all, "RunAndLogLines", "", "")) == 2 })
	if got := receiver.Authorization(); got != "Bearer sesame" {
		t.Errorf("the token is %q", got)
	}
	if len(find(all, "taskHandleEnableKubernetesBindings", "hook", "hook.sh")) != 1 {
		t.Error("enabling has no span")
	}

	// The first event, all the way to the patch.
	event := one(t, all, "one")
	queue, run := childOf(all, event, "queue"), childOf(all, event, "taskHandleHookRun")
	if queue == nil || run == nil {
		t.Fatalf("the event has no queue or run in %v", all)
	}
	if run.StartTimeUnixNano < queue.EndTimeUnixNano {
		t.Error("the run began before the wait had ended")
	}
	if run.Attributes["key"] != namespace {
		t.Errorf("the key of the run is %q", run.Attributes["key"])
	}
	hook := childOf(all, *run, "Run")
	if hook == nil || hook.Tracer != "hook" || hook.Attributes["name"] != "hook.sh" {
		t.Fatalf("the run's hook is %v", hook)
	}
	process, patch := childOf(all, *hook, "RunAndLogLines"), childOf(all, *hook, "patch")
	if process == nil || process.Tracer != "executor" || patch == nil {
		t.Fatalf("process %v, patch %v", process, patch)
	}
	if parent := "traceparent 00-" + hex.EncodeToString(process.TraceId) + "-" + hex.EncodeToString(process.SpanId) +
		"-01"; !strings.Contains(op.Log(), parent) {
		t.Errorf("the hook did not print %q", parent)
	}

	// The other two went into one run, which failed.
	event = one(t, all, "two")
	run = childOf(all, event, "taskHandleHookRun")
	if run == nil || len(run.Links) != 1 || string(run.Links[0].SpanId) != string(one(t, all, "three").SpanId) {
		t.Fatalf("the merged run is %v", run)
	}
	if run.Status.GetMessage() != "exit status 4" || run.Status.GetCode().String() != "STATUS_CODE_ERROR" {
		t.Errorf("its status is %v", run.Status)
	}
	if hook := childOf(all, *run, "Run"); hook == nil || childOf(all, *hook, "patch") != nil {
		t.Errorf("a failed hook has a patch: %v", hook)
	}
	if trace := hex.EncodeToString(run.TraceId); !strings.Contains(op.Log(), `"trace.id":"`+trace+`"`) {
		t.Errorf("no record has the trace's id %s", trace)
	}
}

func one(t *testing.T, all []otlp.Span, object string) otlp.Span {
	t.Helper()
	found := find(all, "event", "object.name", object)
	if len(found) != 1 {
		t.Fatalf("%d events for %q", len(found), object)
	}
	return found[0]
}

const workerText = `#!/usr/bin/env bash
source "$SHELL_LIB"
__config__() { echo '{configVersion: v1, onStartup: 1, settings: {worker: true}}'; }
__on_startup() { echo "attempt $HOOK_ATTEMPT: traceparent $TRACEPARENT state ${TRACESTATE-none}"; [[ $HOOK_ATTEMPT == 2 ]]; }
hook::run "$@"
`

// A worker serves two runs. Each has the trace of its own process span, which names the worker.
func TestTracesOfWorkers(t *testing.T) {
	cluster := testenv.Shared(t)
	receiver := otlp.NewReceiver(t, true)
	hooks := t.TempDir()
	testenv.Script(t, hooks, "hook.sh", workerText)
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: hooks, Kubeconfig: cluster.Kubeconfig,
		Env:  []string{"TRACING_OTLP_ENDPOINT=" + receiver.Address, "TRACING_OTLP_CA=" + receiver.CA},
		Args: []string{"--retry-min-delay", "10ms", "--retry-max-delay", "10ms"},
	})
	op.UntilLog("Hook executed successfully")
	op.Signal(syscall.SIGTERM)
	op.Wait() // the rest is sent at the end
	all := receiver.Until(t, "the spans of two runs", func(all []otlp.Span) bool { return len(find(all, "RunAndLogLines", "", "")) == 2 })
	for n := 1; n <= 2; n++ {
		found := find(all, "RunAndLogLines", "worker.run", fmt.Sprint(n))
		if len(found) != 1 || found[0].Attributes["worker"] != "1" || found[0].Attributes["worker.start_seconds"] == "" {
			t.Fatalf("run %d of the worker: %v", n, found)
		}
		want := fmt.Sprintf("attempt %d: traceparent 00-%s-%s-01 state none", n, hex.EncodeToString(found[0].TraceId),
			hex.EncodeToString(found[0].SpanId))
		if !strings.Contains(op.Log(), want) {
			t.Errorf("no run printed %q", want)
		}
	}
}
