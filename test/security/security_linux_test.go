// Package security tests the claims of docs/explanation/security.md. Each test names its line.
package security

import (
	"bufio"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const startup = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
`

const serving = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, http: [{name: soup, method: GET, path: /soup}]}'; exit; fi
`

// Line "listeners": the operator listens where the documentation says, and nowhere else.
func TestListeners(t *testing.T) {
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	t.Run("without webhooks", func(t *testing.T) {
		hooks := testenv.Hooks(t, map[string]string{"a.sh": startup})
		op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig})
		pages := op.UntilLog("base http server started")
		op.UntilLog("Hook executed successfully")
		wantListeners(t, op.Pid(), pages.Fields["port"])
	})
	t.Run("with webhooks", func(t *testing.T) {
		op := testenv.Start(t, testenv.OperatorOptions{
			HooksDir:   testenv.Hooks(t, map[string]string{"a.sh": testenv.Testdata(t, "validating.sh", "NAMESPACE", ns)}),
			Kubeconfig: cluster.Kubeconfig, Args: []string{"--validating-webhook-configuration-name", ns},
		})
		pages := op.UntilLog("base http server started")
		webhooks := op.UntilLog("webhook server started")
		op.UntilLog("Webhooks are registered")
		_, port, err := net.SplitHostPort(webhooks.Fields["address"])
		if err != nil {
			t.Fatal(err)
		}
		wantListeners(t, op.Pid(), pages.Fields["port"], port)
		reviewsOnly(t, cluster.Kubectl(t, "get", "validatingwebhookconfiguration", ns+"-hooks", "-o", "jsonpath={.webhooks[0].clientConfig.url}"))
		for _, r := range op.Records() {
			if r.Has("Execute hook") {
				t.Errorf("a hook was run: %s", r.Text)
			}
		}
	})
	t.Run("with HTTP hooks", func(t *testing.T) {
		hooks := testenv.Hooks(t, map[string]string{"a.sh": serving})
		op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig})
		pages := op.UntilLog("base http server started")
		served := op.UntilLog("HTTP hooks are served")
		_, port, err := net.SplitHostPort(served.Fields["address"])
		if err != nil {
			t.Fatal(err)
		}
		wantListeners(t, op.Pid(), pages.Fields["port"], port)
	})
	t.Run("with the debug API on TCP", func(t *testing.T) {
		op := testenv.Start(t, testenv.OperatorOptions{
			HooksDir: testenv.Hooks(t, map[string]string{"a.sh": startup}), Kubeconfig: cluster.Kubeconfig,
			Args: []string{"--debug-http-addr", ":0"},
		})
		pages := op.UntilLog("base http server started")
		op.UntilLog("Hook executed successfully")
		if got := listeners(t, op.Pid()); len(got) != 2 || !slices.Contains(got, "127.0.0.1:"+pages.Fields["port"]) ||
			!strings.HasPrefix(got[0], "127.0.0.1:") || !strings.HasPrefix(got[1], "127.0.0.1:") {
			t.Errorf("the operator listens on %q", got)
		}
	})
}

// reviewsOnly sends other requests than reviews to the port of webhooks.
func reviewsOnly(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for _, body := range []string{"", "{}", "not JSON", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		`{"apiVersion":"v1","kind":"ConfigMap"}`} {
		res, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode < 400 || res.StatusCode >= 500 {
			t.Errorf("%q gets status %d", body, res.StatusCode)
		}
	}
}

func wantListeners(t *testing.T, pid int, ports ...string) {
	t.Helper()
	slices.Sort(ports)
	var want []string
	for _, port := range ports {
		want = append(want, "127.0.0.1:"+port)
	}
	got := listeners(t, pid)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the operator listens on %q, want %q", got, want)
	}
}

// listeners returns the TCP addresses that a process listens on.
func listeners(t *testing.T, pid int) []string {
	t.Helper()
	own := map[string]bool{}
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if _, denied := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); errors.Is(denied, fs.ErrPermission) {
		t.Skip("the operator is not dumpable: its open files are for root with CAP_SYS_PTRACE")
	}
	if err != nil || len(descriptors) == 0 {
		t.Fatalf("no open files of process %d: %v", pid, err)
	}
	for _, descriptor := range descriptors {
		target, _ := os.Readlink(descriptor)
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var all []string
	for _, table := range []string{"tcp", "tcp6"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // no IPv6
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			const listening = "0A"
			if f := strings.Fields(lines.Text()); len(f) > 9 && f[3] == listening && own[f[9]] {
				all = append(all, address(t, f[1]))
			}
		}
	}
	return all
}

// address reads an address as the kernel prints it: hexadecimal, in words of the machine's byte order.
func address(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	ip, err := hex.DecodeString(host)
	n, errPort := strconv.ParseUint(port, 16, 16)
	if err := errors.Join(err, errPort); err != nil {
		t.Fatal(err)
	}
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	return net.JoinHostPort(net.IP(ip).String(), strconv.FormatUint(n, 10))
}

// TestScripts runs the scripts in testdata/script.
func TestScripts(t *testing.T) { scripts.Run(t, scripts.Options{Dir: "testdata/script"}) }
