package security

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Line "large conversions": a review of the API server above the budget of bodies is converted within the limit of memory, and others are
// answered while its hook runs.
func TestLargeKnownConversion(t *testing.T) {
	const size, number = 1_300_000, 52
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	group := ns + ".example.com"
	cluster.KubectlInput(t, testenv.Testdata(t, "things.yaml", "GROUP", group), "create", "-f", "-")
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "crd", "things."+group, "--wait=false") })
	cluster.Kubectl(t, "wait", "--for=condition=Established", "crd/things."+group)
	cluster.KubectlInput(t, `{"apiVersion": "`+group+`/v1", "kind": "Thing", "metadata": {"name": "small", "namespace": "`+ns+`"}}`,
		"create", "-f", "-")
	release := filepath.Join(t.TempDir(), "release")
	op := testenv.Start(t, testenv.OperatorOptions{
		Binary:     testenv.Released(t),
		HooksDir:   testenv.Hooks(t, map[string]string{"convert.py": testenv.Testdata(t, "convert.py", "GROUP", group)}),
		Kubeconfig: cluster.Kubeconfig,
		Env:        []string{"RELEASE=" + release, "GOMEMLIMIT=900MiB"}, // as the chart sets it
	})
	op.UntilLog("The CRD leads to the conversion hooks now")
	url := cluster.Kubectl(t, "get", "crd", "things."+group, "-o", "jsonpath={.spec.conversion.webhook.clientConfig.url}")
	before := peak(t, op.Pid())
	var review strings.Builder
	fmt.Fprintf(&review, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {"uid": "1", `+
		`"desiredAPIVersion": "%s/v2", "objects": [`, group)
	text := strings.Repeat("x", size)
	for i := range number {
		if i > 0 {
			review.WriteString(",")
		}
		fmt.Fprintf(&review, `{"apiVersion": "%s/v1", "kind": "Thing", "metadata": {"name": "t%d", "namespace": %q}, "text": %q}`, group,
			i, ns, text)
	}
	review.WriteString("]}}")
	converted := make(chan error, 1)
	started := time.Now()
	go func() {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		defer client.CloseIdleConnections()
		res, err := client.Post(url, "application/json", strings.NewReader(review.String()))
		if err != nil {
			converted <- err
			return
		}
		defer res.Body.Close()
		var answer struct {
			Response struct {
				Result           struct{ Status, Message string }
				ConvertedObjects []struct{ APIVersion string }
			}
		}
		if err = json.NewDecoder(res.Body).Decode(&answer); err == nil && (len(answer.Response.ConvertedObjects) != number ||
			answer.Response.ConvertedObjects[number-1].APIVersion != group+"/v2") {
			err = fmt.Errorf("%d objects are converted: %s %s", len(answer.Response.ConvertedObjects), answer.Response.Result.Status,
				answer.Response.Result.Message)
		}
		converted <- err
	}()
	op.UntilLog("Handle kubernetesCustomResourceConversion event for crd", "len", strconv.Itoa(number))
	cluster.Kubectl(t, "-n", ns, "get", "things.v2."+group, "small")
	if len(converted) > 0 {
		t.Error("the large review has ended before its hook")
	}
	single := time.Since(started)
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := test.Receive(t, converted, "answer"); err != nil {
		t.Error(err)
	}
	after := peak(t, op.Pid())
	t.Logf("a review of %d MiB in %s, a small one after %s; peak %d MiB before, %d MiB after", review.Len()>>20,
		time.Since(started).Round(time.Millisecond), single.Round(time.Millisecond), before>>20, after>>20)
	if after > 900<<20 {
		t.Errorf("the peak is %d MiB, more than the limit of the chart allows", after>>20)
	}
}
