package insight

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// reviewer decides by the name of the object: allow, deny, silent, patch, garbage, crash, slow.
const reviewer = `#!/bin/bash
if [[ $1 == --config ]]; then
  cat <<END
configVersion: v1
kubernetesValidating:
- name: maps.example.com
  timeoutSeconds: 10
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
kubernetesCustomResourceConversion:
- {name: things, crdName: things.NAMESPACE.example.com, conversions: [{fromVersion: v1, toVersion: v2}]}
END
  exit
fi
if grep -q '"type": *"Conversion"' "$BINDING_CONTEXT_PATH"; then exit; fi
name=$(grep -o '"name": *"verdict-[a-z]*"' "$BINDING_CONTEXT_PATH" | head -1 | sed 's/.*verdict-//; s/"//')
case $name in
allow) answer='{"allowed": true}' ;;
deny) answer='{"allowed": false, "message": "not today"}' ;;
silent) exit ;;
patch) answer='{"allowed": true, "patch": "W10="}' ;;
garbage) answer='allowed: true' ;;
crash) exit 3 ;;
slow) sleep 600 & wait ;;
esac
echo "$answer" > "$ADMISSION_RESPONSE_PATH"
`

// A review without a verdict of its hook is a failed run everywhere: in runs, in why, in the metrics, and in one record.
func TestFailedReviews(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	crd := "things." + namespace + ".example.com"
	c.KubectlInput(t, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "`+crd+`"},
  "spec": {"group": "`+namespace+`.example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things",
		"singular": "thing"}, "versions": [
    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
    {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`, "create", "-f", "-")
	hooks := t.TempDir()
	if err := os.WriteFile(filepath.Join(hooks, "review.sh"), []byte(strings.ReplaceAll(reviewer, "NAMESPACE", namespace)),
		0o700); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: c.Kubeconfig,
		Args: []string{"--validating-webhook-configuration-name", namespace}})
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "crd/"+crd, "validatingwebhookconfiguration/"+namespace+"-hooks", "--ignore-not-found")
	})
	op.UntilLog("Webhooks are registered", "kind", "ValidatingWebhookConfiguration")
	op.UntilLog("The CRD leads to the conversion hooks now")
	create := func(name string) string {
		out, _ := c.TryKubectl("", "-n", namespace, "create", "configmap", "verdict-"+name, "--from-literal=password=swordfish")
		return out
	}
	// The API server needs a moment until it calls a new webhook.
	deadline := time.Now().Add(test.Patience)
	for out := ""; !strings.Contains(out, "not today"); {
		if time.Now().After(deadline) {
			t.Fatalf("the API server does not call the webhook: %s", out)
		}
		out, _ = c.TryKubectl("", "-n", namespace, "create", "configmap", "verdict-deny", "--dry-run=server")
	}

	for _, test := range []struct{ name, user, exit, answer, failed string }{
		{"allow", "created", "exit status 0", "allowed", ""},
		{"deny", `denied the request: not today`, "exit status 0", "denied: not today", ""},
		{"silent", `Hook failed: hook "review.sh" wrote no answer`, "exit status 0, but no valid answer",
			`denied: Hook failed: hook "review.sh" wrote no answer`, "wrote no answer"},
		{"patch", `answered with an invalid patch`, "exit status 0, but no valid answer",
			"denied: Hook failed: hook \"review.sh\" answered with an invalid patch", "only kubernetesMutating bindings may return one"},
		{"garbage", `could not review the request`, "exit status 0, but no valid answer", "denied: Hook failed", "got bad validating response"},
		{"crash", `could not review the request`, "exit status 3", "denied: Hook failed", "exit status 3"},
		{"slow", `gave no answer in time`, "no answer in time", `denied: Hook failed: hook "review.sh" gave no answer in time`,
			"the hook gave no answer within 9s"},
	} {
		if got := create(test.name); !strings.Contains(got, test.user) {
			t.Errorf("%s: the user sees %s, want %q", test.name, got, test.user)
		}
		if test.failed != "" {
			op.Until("one record of the failure", func(records []testenv.Record) bool {
				last := records[len(records)-1]
				for _, r := range records {
					if r.Has("Hook failed") && strings.Contains(r.Fields["error"], test.failed) {
						last = r
					}
				}
				return last.Has("Hook failed")
			})
		}
		var runs []struct{ ID, Status, Exit string }
		if err := json.Unmarshal([]byte(op.Ask("runs", "review.sh", "-o", "json")), &runs); err != nil {
			t.Fatal(err)
		}
		status := map[bool]string{true: "failed", false: "succeeded"}[test.failed != ""]
		if runs[0].Status != status || runs[0].Exit != test.exit {
			t.Errorf("%s: the run has %+v", test.name, runs[0])
		}
		if list := op.Ask("runs", "review.sh", "--limit", "1"); !strings.Contains(list, test.exit+", "+test.answer) {
			t.Errorf("%s: runs says\n%s", test.name, list)
		}
		shown := op.Ask("runs", "show", runs[0].ID)
		subject := fmt.Sprintf("CREATE ConfigMap %s/verdict-%s (maps.example.com)", namespace, test.name)
		for _, want := range []string{subject, test.answer, test.failed} {
			if !strings.Contains(shown, want) {
				t.Errorf("%s: runs show says\n%s\nwant %q", test.name, shown, want)
			}
		}
		if strings.Contains(shown, "swordfish") {
			t.Errorf("%s: runs show has values:\n%s", test.name, shown)
		}
	}
	if why := op.Ask("why", "review.sh"); !strings.Contains(why, "failed") {
		t.Errorf("why says\n%s", why)
	}

	// The last five reviews have failed.
	if text, code := status(t, "--debug-unix-socket", op.Socket); code != 1 ||
		!strings.Contains(text, `review.sh, binding "maps.example.com": 5 of its last `) {
		t.Errorf("status: exit status %d\n%s", code, text)
	}
	if list := op.Ask("hooks"); !strings.Contains(list, "reviews fail") {
		t.Errorf("hook list:\n%s", list)
	}
	if text := op.Page("/readyz"); !strings.HasPrefix(text, "ok\n") ||
		!strings.Contains(text, `hook "review.sh", binding "maps.example.com": 5 of its last `) {
		t.Errorf("readyz: %s", text)
	}

	// The hook writes no answer for conversions either.
	c.KubectlInput(t, `{"apiVersion": "`+namespace+`.example.com/v1", "kind": "Thing", "metadata": {"name": "one"}}`, "-n", namespace,
		"create", "-f", "-")
	if out, err := c.TryKubectl("", "-n", namespace, "get", "things.v2."+namespace+".example.com", "one"); err == nil ||
		!strings.Contains(out, "it wrote no answer to the file") {
		t.Errorf("the conversion: %v: %s", err, out)
	}
	failed := op.Ask("runs", "--failed")
	for _, want := range []string{"1 objects of " + crd + " from v1 to v2", "verdict-silent", "verdict-slow"} {
		if !strings.Contains(failed, want) {
			t.Errorf("runs --failed says\n%s\nwant %q", failed, want)
		}
	}

	metrics := op.Page("/metrics")
	for _, want := range []string{
		`shell_operator_admission_reviews_total{binding="maps.example.com",hook="review.sh",result="failed"} 5`,
		`shell_operator_admission_reviews_total{binding="maps.example.com",hook="review.sh",result="allowed"} `,
		`shell_operator_admission_reviews_total{binding="maps.example.com",hook="review.sh",result="denied"} `,
		`shell_operator_admission_review_duration_seconds_count{binding="maps.example.com",hook="review.sh"} `,
		`shell_operator_hook_run_errors_total{binding="maps.example.com",hook="review.sh",queue=""} 5`,
		`shell_operator_troubles{hook="review.sh",kind="reviews"} `,
		`shell_operator_conversion_reviews_total{crd="` + crd + `",result="failed"} `,
		`shell_operator_conversion_review_duration_seconds_count{crd="` + crd + `"} `,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	for _, r := range op.Records() {
		if r.Has("A request is refused") {
			t.Errorf("a second record of a failure: %s", r.Text)
		}
	}
}
