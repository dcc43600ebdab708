package security

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"maps"
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
func reviewing(t *testing.T, script string, more map[string]string) (
	op *testenv.Operator, cluster *testenv.Cluster, ns string, target *url.URL,
) {
	t.Helper()
	cluster = testenv.Shared(t)
	ns = cluster.Namespace(t)
	config := testenv.Testdata(t, "validating.sh", "NAMESPACE", ns, `"Ignore"`, `"Fail", "timeoutSeconds": 30`)
	all := map[string]string{"review.sh": config + script}
	maps.Copy(all, more)
	op = testenv.Start(t, testenv.OperatorOptions{
		HooksDir:   testenv.Hooks(t, all),
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

// announce opens a connection, announces a body of 15 MB to a path, sends a part of it, and returns the status of the response.
func announce(t *testing.T, address, path string) int {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(test.Patience))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 15000000\r\n\r\n{", path)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	res.Body.Close()
	if !res.Close {
		t.Error("the connection is kept")
	}
	return res.StatusCode
}

// headers has a begun request with headers of distinct names and values of so many bytes, without an end.
func headers(number, size int) []byte {
	text := []byte("POST / HTTP/1.1\r\nHost: x\r\n")
	for i := range number {
		text = fmt.Appendf(text, "%x:%s\r\n", i, strings.Repeat("v", size))
	}
	return text
}

// hold opens connections and keeps them until the end of the test, with the text that each sends. The server may close them.
func hold(t *testing.T, number int, at *port, text []byte) {
	t.Helper()
	var opening sync.WaitGroup
	var next atomic.Int64
	for range 20 {
		opening.Go(func() {
			for next.Add(1) <= int64(number) {
				conn, err := net.Dial("tcp", at.address)
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { _ = conn.Close() })
				_ = conn.SetDeadline(time.Now().Add(test.Patience))
				if at.secure {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
				}
				_, _ = conn.Write(text)
			}
		})
	}
	opening.Wait()
}

// Line "strangers": clients that do not know a registered path are not found, whatever they announce, on both ports. Meanwhile, and while
// others keep all connections of all ports busy, with the headers that take the most memory, the reviews of the API server are answered.
// Neither the memory nor the log grows.
func TestStrangers(t *testing.T) {
	const crd = "things.example.com"
	op, cluster, ns, target := reviewing(t, "", map[string]string{"convert.sh": `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, kubernetesCustomResourceConversion: [{name: c, crdName: ` + crd +
		`, conversions: [{fromVersion: v1, toVersion: v2}]}]}'; exit; fi
`, "serve.sh": serving})
	converting := target
	for _, r := range op.Records() {
		if at, err := url.Parse(r.Fields["url"]); err == nil && r.Has("webhook server started") && at.Host != target.Host {
			converting = at
		}
	}
	if converting == target {
		t.Fatal("there is no server of conversions")
	}
	number := 200
	if test.Long() {
		number = 1000
	}
	guesses := []struct{ address, path string }{{target.Host, target.Path}, {target.Host, target.Path + "/" + strings.Repeat("0", 64)},
		{target.Host, "/hooks/none"}, {converting.Host, "/" + crd}, {converting.Host, "/" + crd + "/" + strings.Repeat("0", 64)}}
	var clients sync.WaitGroup
	var next atomic.Int64
	for range 50 {
		clients.Go(func() {
			for n := next.Add(1); n <= int64(number); n = next.Add(1) {
				if g := guesses[n%int64(len(guesses))]; true {
					if status := announce(t, g.address, g.path); status != http.StatusNotFound {
						t.Errorf("%s: status %d", g.path, status)
					}
				}
			}
		})
	}
	review := func(when string) {
		for i := range 3 {
			if out, err := cluster.TryKubectl("", "-n", ns, "create", "configmap", fmt.Sprint(when, "-", i)); err != nil {
				t.Errorf("a review of the API server was not answered: %s", out)
			}
		}
	}
	review("beside")
	clients.Wait()
	for range 1100 { // a port has 1,000 connections
		conn, err := net.Dial("tcp", target.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	review("during")
	for _, p := range []struct {
		*port
		most, size int
	}{
		{&port{address: "127.0.0.1:" + op.UntilLog("base http server started").Fields["port"]}, 300, 110},
		{&port{address: target.Host, secure: true}, 600, 50}, {&port{address: converting.Host, secure: true}, 600, 50},
		{&port{address: op.UntilLog("HTTP hooks are served").Fields["address"]}, 300, 600},
	} {
		hold(t, p.most, p.port, headers(10_000, 0))
		hold(t, p.most, p.port, headers(95, p.size))
		review("headers-" + strings.ReplaceAll(p.address, ":", "-"))
	}
	t.Logf("peak %d MiB, log %d KiB", peak(t, op.Pid())>>20, len(op.Log())>>10)
	strangers := 0
	for _, r := range op.Records() {
		if r.Has("A request is not answered, its client does not know what is registered") || r.Has("complete", "resp_status", "404") {
			strangers++
		}
	}
	if most := 2 * (1 + int(time.Since(op.Started)/time.Minute)); strangers == 0 || strangers > most {
		t.Errorf("%d records about %d strangers, want one a minute for each port", strangers, number)
	}
	if after := peak(t, op.Pid()); after > 160<<20 {
		t.Errorf("the peak is %d MiB", after>>20)
	}
}
