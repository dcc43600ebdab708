package failover

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Two owners and a standby: what features do with shards.
func TestShardsFeatures(t *testing.T) {
	cluster := testenv.Shared(t)
	ns, dir, hooks := cluster.Namespace(t), t.TempDir(), t.TempDir()
	kubectl := func(args ...string) string {
		t.Helper()
		return cluster.Kubectl(t, append([]string{"-n", ns}, args...)...)
	}
	testenv.Script(t, hooks, "parts.sh", testenv.Testdata(t, "parted.sh", "$NS", ns, "$DIR", dir, "$SHARDBY", "object"))
	testenv.Script(t, hooks, "asked.sh", testenv.Testdata(t, "asked.sh", "$NS", ns))
	var of [2][]string // the names of the objects of each shard
	for i := 0; len(of[0]) < 2 || len(of[1]) < 2; i++ {
		name := fmt.Sprint("map-", i)
		uid := cluster.KubectlInput(t,
			fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q, "labels": {"part-of": %q}}}`,
				name, ns), "-n", ns, "create", "-f", "-", "-o", "jsonpath={.metadata.uid}")
		s := 0
		if (shard.Shard{Index: 1, Count: 2}).Part(shard.ByObject).Has(uid, ns) {
			s = 1
		}
		of[s] = append(of[s], name)
	}
	t.Cleanup(func() { // without an operator, finalizers would keep the namespace
		for _, name := range slices.Concat(of[0], of[1]) {
			_, _ = cluster.TryKubectl("", "-n", ns, "patch", "configmap", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		}
	})
	var all []*testenv.Operator
	for i := range 3 {
		all = append(all, testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig,
			Env: []string{fmt.Sprint("POD_NAME=r", i)}, Args: []string{"--shards", "2", "--namespace", ns, "--watch-hooks",
				"--kubernetes-events=false",
				"--validating-webhook-configuration-name", ns, "--leader-election-lease-duration", "6s"}}))
	}

	// The finalizers.
	kubectl("wait", "--for=jsonpath={.metadata.finalizers[0]}="+ns+".example.com/parts", "configmap", "-l", "part-of="+ns, "--timeout=170s")
	kubectl("delete", "configmap", of[0][0], of[1][0], "--timeout=170s")
	cleaned, err := os.ReadFile(filepath.Join(dir, "deleting"))
	lines := strings.Split(strings.TrimSpace(string(cleaned)), "\n")
	want := []string{of[0][0] + " 0/2", of[1][0] + " 1/2"}
	if slices.Sort(lines); err != nil || !slices.Equal(lines, slices.Sorted(slices.Values(want))) {
		t.Errorf("runs for deleted objects: %q, want %q; %v", lines, want, err)
	}
	left := slices.Sorted(slices.Values(slices.Concat(of[0][1:], of[1][1:])))

	// Sets.
	mine, foreign := of[0][1], of[1][1]
	owner := fmt.Sprintf(`{"data":{"owner":%q,"uid":%q}}`, mine, kubectl("get", "configmap", mine, "-o", "jsonpath={.metadata.uid}"))
	kubectl("patch", "configmap", mine, "--type=merge", "-p", owner)
	kubectl("wait", "--for=create", "configmap/child-of-"+mine, "--timeout=170s")
	kubectl("patch", "configmap", foreign, "--type=merge", "-p", owner)
	var failed bool
	for late := time.Now().Add(test.Patience); !failed && time.Now().Before(late); time.Sleep(50 * time.Millisecond) {
		for _, op := range all {
			failed = failed || slices.ContainsFunc(op.Records(), func(r testenv.Record) bool {
				return strings.Contains(r.Text, "belongs to another shard")
			})
		}
	}
	if !failed {
		t.Error("no run failed because of the owner of its set")
	}
	if got := kubectl("get", "configmap", "child-of-"+foreign, "--ignore-not-found", "-o", "name"); got != "" {
		t.Errorf("a run has changed a set of another shard: %s", got)
	}

	// Requests.
	var owners, standbys int
	registered := func() string {
		return kubectl("get", "validatingwebhookconfiguration", "-o",
			`jsonpath={.items[?(@.metadata.name=="`+ns+`-hooks")].webhooks[0].clientConfig.url}`)
	}
	for i, op := range all {
		if op.Count("This replica serves a shard") > 0 {
			owners++
		} else {
			standbys++
			op.UntilLog("This replica is a standby")
		}
		answers(t, fmt.Sprintf("HTTP, replica %d", i), strings.Join(left, " "), func() (string, error) {
			return body(http.Get("http://" + op.UntilLog("HTTP hooks are served").Fields["address"] + "/maps"))
		})
		answers(t, fmt.Sprintf("admission, replica %d", i), strings.Join(left, " "), func() (string, error) {
			return review(op.UntilLog("webhook server started").Fields["url"], registered())
		})
		first := op.Count("This replica serves a shard", "shard", "0/2") > 0
		if at := op.UntilLog("webhook server started").Fields["url"]; strings.HasPrefix(registered(), at) != first {
			t.Errorf("registered is %s; shard 0 is served by the replica at %s: %t", registered(), at, first)
		}
	}
	if owners != 2 || standbys != 1 {
		t.Errorf("%d replicas serve a shard, %d are standbys", owners, standbys)
	}

	// A reload.
	testenv.Script(t, hooks, "parts.sh", testenv.Testdata(t, "parted.sh", "$NS", ns, "$DIR", dir, "$SHARDBY", "namespace"))
	for i, op := range all {
		if status := op.Wait(); status != 0 {
			t.Errorf("replica %d ended with status %d", i, status)
		}
		op.UntilLog("The hooks divide the work in another way, this replica ends and starts with the new division")
	}
}

// answers waits until an answer is the one that is wanted: snapshots may not be complete yet.
func answers(t *testing.T, what, want string, ask func() (string, error)) {
	t.Helper()
	for late := time.Now().Add(test.Patience); ; time.Sleep(100 * time.Millisecond) {
		got, err := ask()
		if err == nil && got == want {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%s: the answer is %q, %v, want %q", what, got, err, want)
		}
	}
}

func body(res *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

// review asks a replica as the API server does, by the path that is registered.
func review(server, registered string) (message string, err error) {
	path, err := url.Parse(strings.TrimSpace(registered))
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	text, err := body(client.Post(strings.TrimSuffix(server, "/")+path.Path, "application/json",
		strings.NewReader(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE",
		"kind": {"group": "", "version": "v1", "kind": "Secret"}, "resource": {"group": "", "version": "v1", "resource": "secrets"},
		"name": "x", "namespace": "default", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}}}`)))
	var answer struct {
		Response struct{ Status struct{ Message string } }
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	return answer.Response.Status.Message, err
}
