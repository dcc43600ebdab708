package security

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// enough is half of the chart's memory limit.
const enough = 512 << 20

// peak is the largest resident size of a process so far, in bytes.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no VmHWM:\n%s", status)
	return 0
}

// reviewing starts an operator whose hook reviews ConfigMaps of a namespace, and returns the URL as any client can guess it.
func reviewing(t *testing.T, script string) (op *testenv.Operator, cluster *testenv.Cluster, ns string, target *url.URL) {
	t.Helper()
	cluster = testenv.Shared(t)
	ns = cluster.Namespace(t)
	op = testenv.Start(t, testenv.OperatorOptions{
		HooksDir: hooks(t,
			map[string]string{"review.sh": strings.ReplaceAll(fmt.Sprintf(validating, ns+".example.com", ns), `"failurePolicy": "Ignore"`,
				`"failurePolicy": "Fail"`) + script}),
		Kubeconfig: cluster.Kubeconfig, Args: []string{"--validating-webhook-configuration-name", ns},
	})
	op.UntilLog("Webhooks are registered")
	registered := strings.TrimSpace(cluster.Kubectl(t, "get", "validatingwebhookconfiguration", ns+"-hooks", "-o",
		"jsonpath={.webhooks[0].clientConfig.url}"))
	target, err := url.Parse(strings.TrimSuffix(registered, registeredToken.FindString(registered)))
	if err != nil {
		t.Fatal(err)
	}
	// The API server applies the registration a moment later.
	for late := time.Now().Add(test.Patience); ; {
		cluster.Kubectl(t, "-n", ns, "create", "configmap", "first")
		cluster.Kubectl(t, "-n", ns, "delete", "configmap", "first")
		reviewed := false
		for _, r := range op.Records() {
			reviewed = reviewed || r.Has("AdmissionResponse from hook")
		}
		if reviewed {
			return op, cluster, ns, target
		}
		if time.Now().After(late) {
			t.Fatal("there is no review")
		}
	}
}

// hold opens a connection that announces size bytes, and sends all but the last one.
func hold(t *testing.T, target *url.URL, size int, piece []byte) net.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", target.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", target.Path, size)
	for sent := 0; sent < size-1; {
		_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second)) // an operator that does not read is as good
		n, err := conn.Write(piece[:min(len(piece), size-1-sent)])
		if sent += n; err != nil {
			break
		}
	}
	return conn
}

// Line "held bodies": clients that send large reviews but for the last byte do not exhaust the memory, and the API server's
// reviews are answered.
func TestHeldBodies(t *testing.T) {
	op, cluster, ns, target := reviewing(t, "")
	before := peak(t, op.Pid())
	piece := bytes.Repeat([]byte(" "), 1<<20)
	var clients sync.WaitGroup
	for range 60 {
		clients.Go(func() { hold(t, target, 15_900_000, piece) })
	}
	for i := range 3 {
		cluster.Kubectl(t, "-n", ns, "create", "configmap", fmt.Sprint("during-", i), "--from-literal", "a="+strings.Repeat("x", 100_000))
	}
	clients.Wait()
	cluster.Kubectl(t, "-n", ns, "create", "configmap", "after")
	after := peak(t, op.Pid())
	t.Logf("peak: %d MiB before, %d MiB after", before>>20, after>>20)
	if after > enough {
		t.Errorf("the peak is %d MiB", after>>20)
	}
}

// Line "unknown CRDs": a body for a path without hooks is not read.
func TestLargeBodiesForUnknownCRDs(t *testing.T) {
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: hooks(t, map[string]string{"convert.sh": `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, kubernetesCustomResourceConversion: [{name: c, crdName: things.` + ns + `.example.com, conversions: [{fromVersion: v1, toVersion: v2}]}]}'; exit; fi
`}), Kubeconfig: cluster.Kubeconfig,
	})
	address := op.UntilLog("webhook server started").Fields["url"]
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	var clients sync.WaitGroup
	for _, path := range []string{"/no-such-crd", "/no-such-crd", "/no-such-crd/" + strings.Repeat("0", 64), "/things." + ns + ".example.com",
		"/things." + ns + ".example.com"} {
		for range 3 {
			clients.Go(func() {
				res, err := client.Post(address+path, "application/json", io.LimitReader(spaces{}, 90_000_000))
				if err == nil {
					res.Body.Close()
					if res.StatusCode < 400 {
						t.Errorf("%s: %s", path, res.Status)
					}
				}
			})
		}
	}
	clients.Wait()
	after := peak(t, op.Pid())
	t.Logf("peak: %d MiB", after>>20)
	if after > enough {
		t.Errorf("the peak is %d MiB", after>>20)
	}
}

// spaces is an endless body.
type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// Line "floods": while clients that are not known send reviews without a pause, each review of the API server is answered by
// the hook, and the log does not grow with the flood.
func TestFloodOfReviews(t *testing.T) {
	op, cluster, ns, target := reviewing(t, "sleep 0.3\n")
	review := fmt.Sprintf(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", `+
		`"namespace": %q, "name": "forged"}}`, ns)
	var answered, refused atomic.Int64
	end, flooding := make(chan struct{}), make(chan struct{})
	var clients sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 150}}
	defer client.CloseIdleConnections()
	for range 150 {
		clients.Go(func() {
			for range 2000 {
				select {
				case <-end:
					return
				default:
				}
				res, err := client.Post(target.String(), "application/json", strings.NewReader(review))
				if err != nil {
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					answered.Add(1)
				} else if refused.Add(1) == 500 {
					close(flooding)
				}
			}
		})
	}
	select {
	case <-flooding:
	case <-time.After(test.Patience):
		t.Errorf("%d are refused: is there a flood?", refused.Load())
	}
	for i := range 8 {
		if out, err := cluster.TryKubectl("", "-n", ns, "create", "configmap", fmt.Sprint("during-", i)); err != nil {
			t.Errorf("a review of the API server was not answered: %s", out)
		}
	}
	close(end)
	clients.Wait()
	t.Logf("strangers: %d answered, %d refused; peak %d MiB, log %d KiB", answered.Load(), refused.Load(), peak(t, op.Pid())>>20,
		len(op.Log())>>10)
	refusals := 0
	for _, r := range op.Records() {
		if strings.Contains(r.Text, "A review is refused") || r.Has("complete", "resp_status", "503") {
			refusals++
		}
	}
	if most := 2 * (2 + int(time.Since(op.Started)/time.Minute)); refusals == 0 || refusals > most {
		t.Errorf("%d records about %d refused reviews, want one of each kind a minute", refusals, refused.Load())
	}
	if after := peak(t, op.Pid()); after > enough {
		t.Errorf("the peak is %d MiB", after>>20)
	}
}
