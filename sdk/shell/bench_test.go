package shell

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/wire"
	"github.com/shell-operator/shell-operator/sdk"
)

// Both hooks of the benchmark print namespace, name and phase of the Pod of each event.
const (
	withLibrary = `source "$SHELL_LIB"
__on_kubernetes::pods() {
  namespace=$(context::get object.metadata.namespace)
  name=$(context::get object.metadata.name)
  phase=$(context::get object.status.phase)
  echo "$namespace/$name: $phase"
}
hook::run "$@"
`
	// The same with a query that needs jq.
	withQuestion = `source "$SHELL_LIB"
__on_kubernetes::pods() {
  namespace=$(context::get object.metadata.namespace)
  name=$(context::get object.metadata.name)
  phase=$(context::jq -r '.object.status.conditions[] | select(.type == "Ready") | if .status == "True" then "Running" else "Waiting" end')
  echo "$namespace/$name: $phase"
}
hook::run "$@"
`
	withJq = `set -euo pipefail
jq -r '.[] | select(.binding == "pods") | .object | "\(.metadata.namespace)/\(.metadata.name): \(.status.phase)"' "$BINDING_CONTEXT_PATH"
`
)

// TestCost prints the CPU time of one Event context, and its limit: BENCH=1 go test -v -run TestCost ./sdk/shell
func TestCost(t *testing.T) {
	if os.Getenv("BENCH") == "" {
		t.Skip("measures: set BENCH=1")
	}
	const limit = 25 // milliseconds
	for name, jq := range jqs(t) {
		one, hundred, alone := events(t, 1, true), events(t, 100, true), events(t, 1, false)
		plain, library, question := cpu(t, jq, withJq, one, 41), cpu(t, jq, withLibrary, one, 41), cpu(t, jq, withQuestion, one, 41)
		more, without := (cpu(t, jq, withLibrary, hundred, 5)-library)/99, cpu(t, jq, withLibrary, alone, 41)
		figure := func(what string, got time.Duration, verdict string) {
			fmt.Printf("%-52s %6.2f ms CPU %s\n", name+": one event, "+what, float64(got)/1e6, verdict)
		}
		verdict := ""
		if name == "gojq" { // The limit is for the jq of the image. jq 1.6 alone takes 15 ms to start.
			verdict = fmt.Sprintf("(at most %d) ok", limit)
			if library > limit*time.Millisecond {
				verdict = fmt.Sprintf("(at most %d) TOO MUCH", limit)
				t.Fail()
			}
		}
		figure("a hook that is one jq", plain, "")
		figure("shell library", library, verdict)
		figure("shell library without heads", without, "")
		figure("shell library, one question for jq", question, "")
		figure("shell library, each further event", more, "")
	}
}

// cpu is the median of several runs.
func cpu(t testing.TB, jq, hook, contexts string, runs int) time.Duration {
	run := prepare(t, jq, hook, contexts)
	times := make([]time.Duration, runs)
	for i := range times {
		times[i] = run()
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// prepare returns a function that runs the hook once and returns the CPU time of it and its children.
func prepare(t testing.TB, jq, hook, contexts string) func() time.Duration {
	dir := t.TempDir()
	lib, err := sdk.UnpackShell(filepath.Join(dir, "lib"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "hook.sh")
	if err := os.WriteFile(file, []byte(hook), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PATH="+jq+string(filepath.ListSeparator)+os.Getenv("PATH"), "SHELL_LIB="+lib,
		"BINDING_CONTEXT_PATH="+contexts)
	return func() time.Duration {
		cmd := exec.Command("bash", file)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "shop/web-0: Running\n") {
			t.Fatalf("the hook ended with %v:\n%s", err, out)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
}

// events writes a file with Event contexts of n Pods as a cluster has them, and their heads.
func events(t testing.TB, n int, withHeads bool) string {
	type object = map[string]any
	contexts := make([]object, n)
	for i := range contexts {
		fields := object{}
		for j := range 60 {
			fields[fmt.Sprintf("f:field-%d", j)] = object{".": object{}, "f:value": object{}}
		}
		condition := func(kind string) object {
			return object{"type": kind, "status": "True", "lastProbeTime": nil, "lastTransitionTime": "2026-01-02T03:04:05Z"}
		}
		contexts[i] = object{"binding": "pods", "type": "Event", "watchEvent": "Modified", "object": object{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": object{
				"name": fmt.Sprintf("web-%d", i), "namespace": "shop", "uid": "8f1c3b5e-5f0c-4d0b-9a9e-0c8f2a2f6d11",
				"resourceVersion": "123456", "creationTimestamp": "2026-01-02T03:04:05Z",
				"labels":        object{"app.kubernetes.io/name": "web", "pod-template-hash": "7c5d8f9b6"},
				"managedFields": []object{{"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}},
			},
			"spec": object{"nodeName": "node-1", "containers": []object{{
				"name": "web", "image": "registry.example.com/web:1.2.3", "imagePullPolicy": "IfNotPresent",
				"ports":     []object{{"containerPort": 8080, "protocol": "TCP"}},
				"resources": object{"requests": object{"cpu": "100m", "memory": "128Mi"}},
			}}},
			"status": object{
				"phase": "Running", "podIP": "10.0.0.7", "hostIP": "192.168.0.3",
				"conditions": []object{condition("Initialized"), condition("Ready"), condition("PodScheduled")},
			},
		}}
	}
	text, err := json.Marshal(contexts)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "contexts.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if withHeads {
		if err := os.WriteFile(strings.TrimSuffix(file, ".json")+".heads", wire.HeadsOf(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}
