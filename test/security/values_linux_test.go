package security

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/test/otlp"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Every value in this test begins with the marker. Its length makes the base64 text of all of them begin alike.
const marker = "M4RKER"

var encodedMarker = base64.StdEncoding.EncodeToString([]byte(marker))

// failing are the operations that can fail: an Event never does.
func failing() []string {
	return slices.DeleteFunc(effect.Operations(), func(word string) bool { return word == effect.RecordEvent.String() })
}

// rejections are documents of one operation that the API server rejects, each for another reason. live, frozen and
// denied are Secrets of the operation's own; in nowhere there is no namespace.
func rejections(op effect.Operation, ns string) []map[string]any {
	type fields = map[string]any
	own := func(name string) string { return name + "-" + strings.ToLower(op.String()) }
	long := strings.Repeat(marker, 300_000) // more than a Secret may have
	encoded := encodedMarker + encodedMarker
	var all []fields
	switch {
	case op.HasObject():
		add := func(kind, namespace, name string, labels, more fields) {
			object := fields{"apiVersion": "v1", "kind": kind, "metadata": fields{"name": name, "namespace": namespace, "labels": labels}}
			for key, value := range more {
				object[key] = value
			}
			all = append(all, fields{"object": object})
		}
		data := fields{"stringData": fields{"a": marker}}
		add("Secret", ns, own("new"), fields{"a": marker + " !"}, data)
		add("Secret", ns, own("new"), nil, fields{"data": fields{"a": marker}})
		add("Secret", ns, own("new"), nil, fields{"data": []string{marker}})
		add("Secret", ns, own("new"), nil, fields{"data": fields{"a": 12345678}})
		add("Secret", ns, own("new"), nil, fields{"immutable": marker})
		add("Secret", ns, own("new"), nil, fields{"type": "kubernetes.io/dockerconfigjson", "stringData": fields{".dockerconfigjson": marker}})
		add("Secret", ns, own("new"), nil, fields{"stringData": fields{"a": long}})
		add("Secret", "nowhere", own("new"), nil, data)
		add("ConfigMap", ns, own("new"), nil, fields{"data": fields{"a": marker}})
		if op != effect.CreateIfNotExists { // of objects that exist
			add("Secret", ns, own("denied"), nil, fields{"data": fields{"a": encoded}})
			add("Secret", ns, own("frozen"), nil, fields{"data": fields{"a": encoded}})
		}
		if op == effect.Create || op == effect.ServerSideApply {
			add("Secret", ns, own("live"), nil, fields{"data": fields{"a": encoded}})
		}
	case op == effect.SetCondition:
		for _, object := range [][2]string{{"Secret", own("live")}, {"Secret", own("missing")}, {"ConfigMap", own("live")}} {
			all = append(all, fields{"kind": object[0], "namespace": ns, "name": object[1], "type": "Ready", "status": "True", "reason": "Ready",
				"message": marker})
		}
	case op == effect.Sync:
		// The parents of the sets are in a namespace where they are permitted.
		owner := fields{"apiVersion": "v1", "kind": "ConfigMap", "namespace": ns + "-sets", "name": "owner"}
		add := func(kind, name string, rest fields) {
			object := fields{"apiVersion": "v1", "kind": kind, "metadata": fields{"namespace": ns, "name": name}}
			maps.Copy(object, rest)
			all = append(all, fields{"set": fmt.Sprintf("s%d", len(all)), "owner": owner, "force": true, "objects": []fields{object}})
		}
		add("Secret", own("new0"), fields{"data": fields{"a": marker}})
		add("Secret", own("new1"), fields{"data": []string{marker}})
		add("Secret", own("new2"), fields{"immutable": marker})
		add("Secret", own("live"), fields{"type": marker})
		add("Secret", own("denied"), fields{"data": fields{"a": encoded}})
		add("Secret", own("frozen"), fields{"data": fields{"a": encoded}})
		add("ConfigMap", own("new"), fields{"data": fields{"a": marker}})
	case op.Deletes():
		all = []fields{
			{"kind": "ConfigMap", "namespace": ns, "name": own("live")},
			{"kind": "Secret", "namespace": ns, "name": own("denied")},
		}
	default:
		add := func(kind, name, subresource string, path []string, value any) {
			doc := fields{"kind": kind, "namespace": ns, "name": name}
			if subresource != "" {
				doc["subresource"] = subresource
			}
			switch op {
			case effect.MergePatch:
				for i := len(path) - 1; i >= 0; i-- {
					value = fields{path[i]: value}
				}
				doc["mergePatch"] = value
			case effect.JSONPatch:
				doc["jsonPatch"] = []fields{{"op": "add", "path": "/" + strings.Join(path, "/"), "value": value}}
			case effect.JQPatch:
				text, _ := json.Marshal(value)
				doc["jqFilter"] = "." + strings.Join(path, ".") + " = " + string(text)
			default:
				doc = nil // a new operation: the test fails, because nothing is rejected
			}
			all = append(all, doc)
		}
		add("Secret", own("live"), "", []string{"metadata", "labels"}, fields{"a": marker + " !"})
		add("Secret", own("live"), "", []string{"metadata", "creationTimestamp"}, marker)
		add("Secret", own("live"), "", []string{"metadata", "resourceVersion"}, "1")
		add("Secret", own("live"), "", []string{"immutable"}, marker)
		add("Secret", own("live"), "", []string{"type"}, marker)
		add("Secret", own("live"), "", []string{"data", "a"}, marker)
		add("Secret", own("live"), "", []string{"data", "a"}, 12345678)
		add("Secret", own("live"), "", []string{"data"}, []string{marker})
		add("Secret", own("live"), "", []string{"data", "b"}, long)
		add("Secret", own("live"), "status", []string{"data", "a"}, encoded)
		add("Secret", own("denied"), "", []string{"data", "b"}, encoded)
		add("Secret", own("frozen"), "", []string{"data", "a"}, encoded)
		add("Secret", own("missing"), "", []string{"data", "a"}, encoded)
		add("ConfigMap", own("live"), "", []string{"data", "a"}, marker)
	}
	for _, doc := range all {
		doc["operation"] = op.String()
	}
	return all
}

// rejecting starts an operator whose hooks, one for each operation, ask for changes that the API server rejects.
func rejecting(t *testing.T, cluster *testenv.Cluster, ns string, receiver *otlp.Receiver) *testenv.Operator {
	t.Helper()
	// The user of this kubeconfig has the permissions above, and no others.
	text, err := os.ReadFile(cluster.KubeconfigFor(t, cluster.Kubeconfig, ns))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(strings.Replace(string(text), "    token:", "    as: "+ns+"\n    token:", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	files, documents := map[string]string{}, t.TempDir()
	var secrets strings.Builder
	for i, word := range failing() {
		op := effect.ParseOperation(word)
		for _, name := range []string{"live", "frozen", "denied"} {
			fmt.Fprintf(&secrets,
				"---\n{apiVersion: v1, kind: Secret, metadata: {name: %s-%s, namespace: %s}, immutable: %v, stringData: {a: %s-live}}\n",
				name, strings.ToLower(word), ns, name == "frozen", marker)
		}
		docs := filepath.Join(documents, word)
		var all strings.Builder
		for _, doc := range rejections(op, ns) {
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(string(text) + "\n")
		}
		if err := os.WriteFile(docs, []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		files[word+".sh"] = fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, schedule: [{crontab: \"* * * * * "+
			"*\", queue: q%d}]}'; exit; fi\ncat %s >\"$KUBERNETES_PATCH_PATH\"\n", i, docs)
	}
	cluster.KubectlInput(t, secrets.String(), "apply", "-f", "-")
	cluster.KubectlInput(t, testenv.Testdata(t, "policy.yaml", "NAMESPACE", ns), "apply", "-f", "-")
	t.Cleanup(func() {
		cluster.Kubectl(t, "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy,clusterrole,clusterrolebinding", ns,
			"--wait=false")
		cluster.Kubectl(t, "delete", "namespace", ns+"-sets", "--wait=false")
	})
	cluster.UntilAllowed(t, ns, ns, "create", "secrets")
	cluster.Kubectl(t, "-n", ns, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	cluster.Kubectl(t, "-n", ns, "run", "operator-0", "--image=operator", "--overrides", `{"spec":{"automountServiceAccountToken":false}}`)
	until(t, cluster, ns)
	return testenv.Start(t, testenv.OperatorOptions{
		HooksDir: testenv.Hooks(t, files), Kubeconfig: kubeconfig,
		Env: []string{"POD_NAME=operator-0", "TRACING_OTLP_ENDPOINT=" + receiver.Address, "TRACING_OTLP_CA=" + receiver.CA},
		// TestScripts/recordings checks recordings. Those of the largest documents take long with the race detector.
		Args: []string{"--log-level", "debug", "--retry-min-delay", "1h", "--retry-max-delay", "1h", "--record=none"},
	})
}

// until waits until the policy denies a Secret.
func until(t *testing.T, cluster *testenv.Cluster, ns string) {
	t.Helper()
	for range 1000 {
		out, err := cluster.TryKubectl("", "-n", ns, "create", "secret", "generic", "probe", "--from-literal=a=b", "--dry-run=server")
		if err != nil && strings.Contains(out, "is known") {
			return
		}
	}
	t.Fatal("the policy denies nothing")
}

// Line "values": errors of the API server do not carry values of objects to any output of the operator.
func TestErrorsHaveNoValues(t *testing.T) {
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	receiver := otlp.NewReceiver(t, true)
	op := rejecting(t, cluster, ns, receiver)
	outputs := map[string]string{}
	for _, word := range failing() {
		failed := op.UntilLog("Hook failed. Will retry after delay.", "hook", word+".sh")
		for i := range rejections(effect.ParseOperation(word), ns) {
			if !strings.Contains(failed.Fields["error"], fmt.Sprintf("(document %d): ", i+1)) {
				t.Errorf("document %d of %s is not rejected: %s", i+1, word, failed.Fields["error"])
			}
		}
	}
	run := func(line string) {
		out, err := op.Command(strings.Fields(line)...).CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Errorf("%s: %v", line, err)
		}
		outputs[line] = string(out)
	}
	for _, line := range []string{"queue list -o json", "queue main", "hook list", "runs", "runs --failed -o json", "raw /status.json"} {
		run(line)
	}
	for i, word := range failing() {
		run("why " + word + ".sh -o json")
		run(fmt.Sprintf("runs show %d -o json", i+1))
	}
	for _, path := range []string{"/", "/status.json", "/readyz", "/healthz", "/metrics", "/metrics/hooks"} {
		outputs[path] = op.Page(path)
	}
	spans := receiver.Until(t, "a span of each operation", func(all []otlp.Span) bool {
		n := 0
		for _, s := range all {
			if s.Name == "patch" {
				n++
			}
		}
		return n >= len(failing())
	})
	for i, s := range spans {
		outputs[fmt.Sprintf("span %d", i)] = fmt.Sprintf("%+v %v", s.Span, s.Attributes)
	}
	op.Signal(os.Interrupt) // sends the last Events
	op.Wait()
	outputs["log"] = op.Log() + op.Errors.String()
	outputs["Events"] = cluster.Kubectl(t, "-n", ns, "get", "events.events.k8s.io", "-o", "yaml")
	for _, word := range failing() {
		if !strings.Contains(outputs["Events"], word+".sh") {
			t.Errorf("there is no Event about %s.sh", word)
		}
	}
	for name, text := range outputs {
		for _, value := range []string{marker, encodedMarker, "12345678"} {
			if at := strings.Index(text, value); at >= 0 {
				t.Errorf("%s has a value: %s", name, text[max(0, at-300):min(len(text), at+50)])
			}
		}
	}
}
