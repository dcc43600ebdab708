package security

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

var registeredToken = regexp.MustCompile(`/[0-9a-f]{64}$`)

// forge sends a review, as any Pod can, and returns the status and the response.
func forge(t *testing.T, url, namespace, name string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	review := fmt.Sprintf(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE",
  "kind": {"version": "v1", "kind": "Secret"}, "resource": {"version": "v1", "resource": "secrets"}, "namespace": %q, "name": %q,
  "userInfo": {"username": "system:admin"}}}`, namespace, name)
	res, err := client.Post(url, "application/json", strings.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// Line "reviews": a client that does not know the registered path is not found; a dry run gets a verdict, and changes nothing.
// What the operator shows of itself has no token.
func TestForgedReviews(t *testing.T) {
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir:   testenv.Hooks(t, map[string]string{"count.sh": testenv.Testdata(t, "counting.sh", "NAMESPACE", ns)}),
		Kubeconfig: cluster.Kubeconfig,
		Args:       []string{"--validating-webhook-configuration-name", ns, "--record", "all", "--log-level", "debug"},
	})
	op.UntilLog("Webhooks are registered")
	url := strings.TrimSpace(cluster.Kubectl(t, "get", "validatingwebhookconfiguration", ns+"-hooks", "-o",
		"jsonpath={.webhooks[0].clientConfig.url}"))
	token := registeredToken.FindString(url)
	if token == "" {
		t.Fatalf("registered is %s, without a token", url)
	}
	create := func(name string, args ...string) string {
		out, _ := cluster.TryKubectl("", append([]string{"-n", ns, "create", "secret", "generic", name}, args...)...)
		return out
	}
	// The API server applies the registration a moment later.
	for late := time.Now().Add(test.Patience); !strings.Contains(create("known"), "known is denied"); cluster.Kubectl(t, "-n", ns, "delete",
		"secret", "known", "--ignore-not-found") {
		if time.Now().After(late) {
			t.Fatal("there is no review")
		}
	}
	if out := create("dry", "--dry-run=server"); !strings.Contains(out, "dry is denied") {
		t.Errorf("the dry run: %s", out)
	}
	plain := strings.TrimSuffix(url, token)
	for name, target := range map[string]string{"forged": plain, "guessed": plain + "/" + strings.Repeat("0", 64),
		"upstream": plain[:strings.Index(plain, "/validating/")] + "/" + ns + "-example-com"} {
		if status, text := forge(t, target, ns, name); status != 404 || strings.Contains(text, "denied") {
			t.Errorf("%s: %d %s", target, status, text)
		}
	}
	if made := cluster.Kubectl(t, "-n", ns, "get", "configmaps", "-o", "name"); !strings.Contains(made, "denied-known") ||
		regexp.MustCompile("denied-(dry|forged|guessed|upstream)").MatchString(made) {
		t.Errorf("made by reviews: %s", made)
	}
	shown := map[string]string{
		"log": op.Log(), "hook config": op.Ask("hook", "config", "count.sh"), "status": op.Ask("status", "-o", "json"),
		"runs": op.Ask("runs", "-o", "json"),
		"why":  op.Ask("why", "count.sh"), "debug API": op.Ask("raw", "/hook/list.json"),
	}
	for what, text := range shown {
		if strings.Contains(text, token[1:33]) {
			t.Errorf("%s has the token:\n%s", what, text)
		}
	}
	metrics := op.Page("/metrics/hooks")
	if !strings.Contains(metrics, `name="known"`) || regexp.MustCompile(`name="(dry|forged|guessed|upstream)"`).MatchString(metrics) {
		t.Errorf("metrics of reviews:\n%s", metrics)
	}
	if strings.Contains(metrics+op.Page("/metrics")+op.Page("/"), token[1:33]) {
		t.Error("a page has the token")
	}
}

// Line "reviews": as many as an API server has in flight are answered, if they begin at the same moment.
func TestReviewsBeginTogether(t *testing.T) {
	number := 300
	if test.Long() {
		number = 600
	}
	_, cluster, ns, _ := reviewing(t, "", nil)
	client := testenv.Client(t, cluster.Config(t))
	var all sync.WaitGroup
	for range number {
		all.Go(func() {
			err := client.Post().AbsPath("/api/v1/namespaces", ns, "configmaps").SetHeader("Content-Type", "application/json").
				Body([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "together-"}}`)).Do(t.Context()).Error()
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
