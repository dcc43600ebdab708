package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tenantsBench compares hooks of tenants with the same hooks without.
func tenantsBench(b *bench) {
	namespace := b.tenantAccounts(100)
	b.tenantsStart(namespace, 100, 5)
	b.tenantsLimits(namespace, 400)
	b.tenantsNeighbours(namespace, 3, 100)
}

// tenantAccounts creates accounts tenant-00, tenant-01, … that may read ConfigMaps of their namespace.
func (b *bench) tenantAccounts(n int) (namespace string) {
	namespace = b.cluster.Namespace(b.T)
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: tenant-%02d}}\n---\n", i)
	}
	fmt.Fprintf(&text, `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenants}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenants}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenants}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:%s"}]
`, namespace)
	b.cluster.KubectlInput(b.T, text.String(), "-n", namespace, "apply", "-f", "-")
	b.cluster.UntilAllowed(b.T, "system:serviceaccount:"+namespace+":tenant-00", namespace, "watch", "configmaps")
	return namespace
}

// folders writes hooks by their paths, and a file of tenants; empty means none.
func (b *bench) folders(tenants string, hooks map[string]string) (dir string, flags []string) {
	b.Helper()
	dir = b.TempDir()
	for name, text := range hooks {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	if tenants == "" {
		return dir, nil
	}
	file := filepath.Join(b.TempDir(), "tenants.yaml")
	if err := os.WriteFile(file, []byte(tenants), 0o600); err != nil {
		b.Fatal(err)
	}
	return dir, []string{"--tenants", file}
}

// tenantsStart starts hooks that each have a tenant, in turns with the same hooks without: the time until each has run.
func (b *bench) tenantsStart(namespace string, n, times int) {
	hooks, entries := map[string]string{}, strings.Builder{}
	for i := range n {
		hooks[fmt.Sprintf("t%02d/hook.sh", i)] = hook(fmt.Sprintf("{configVersion: v1, kubernetes: [{kind: ConfigMap, apiVersion: v1, "+
			"queue: q%d, namespace: {nameSelector: {matchNames: [%s]}}}]}", i, namespace), "echo ran")
		fmt.Fprintf(&entries, "- {name: t%02d, folder: t%02d/, serviceAccount: %s/tenant-%02d}\n", i, i, namespace, i)
	}
	seconds := func(tenants string) float64 {
		dir, flags := b.folders(tenants, hooks)
		op := b.start(dir, flags...)
		defer op.stop()
		return op.untilCount("ran", n).At.Sub(op.Started).Seconds()
	}
	var with, without []float64
	for i := range times {
		without, with = append(without, seconds("")), append(with, seconds(entries.String()))
		b.progress("start %d of %d: %.2f s, without tenants %.2f s", i+1, times, with[i], without[i])
	}
	b.add(fmt.Sprintf("start of %d tenants", n), "s", with...).against("the same hooks without", without...).times(1.2, 0.005*float64(n))
}

const servesTenants = "{configVersion: v1, http: [{name: page, method: GET, path: /shop/page}]}"

// tenantsLimits requests pages of two operators in turns: one whose tenant has limits, and one whose tenant has none.
func (b *bench) tenantsLimits(namespace string, requests int) {
	page := func(limits string) func() float64 {
		dir, flags := b.folders(fmt.Sprintf("- {name: shop, folder: shop/, serviceAccount: %s/tenant-00%s}\n", namespace, limits),
			map[string]string{"shop/page.sh": hook(servesTenants, ":")})
		return b.page(b.start(dir, flags...))
	}
	limited := page(", limits: {memory: 256Mi, cpuTime: 60s, files: 64Mi, openFiles: 256, output: 1Mi, concurrency: 4, series: 10000}")
	free := page("")
	var with, without []float64
	for range requests {
		with, without = append(with, limited()), append(without, free())
	}
	b.add("run with limits", "ms", with...).against("a tenant without limits", without...).times(1, 0.2)
}

// tenantsNeighbours requests a page of a tenant that is alone, and beside another one that takes all it can get, in turns.
func (b *bench) tenantsNeighbours(namespace string, rounds, requests int) {
	entries := fmt.Sprintf("- {name: shop, folder: shop/, serviceAccount: %[1]s/tenant-00}\n"+
		"- {name: bank, folder: bank/, serviceAccount: %[1]s/tenant-01, limits: {memory: 64Mi, cpuTime: 5s}}\n", namespace)
	neighbours := []struct{ name, script string }{
		{"alone", ":"},
		{"a CPU loop", "echo begun; while :; do :; done"},
		{"a memory bomb", "echo begun; x=$(head -c 1000000000 /dev/zero | tr '\\0' x); echo ${#x}"},
	}
	took := make([][]float64, len(neighbours))
	for round := range rounds {
		for i, n := range neighbours {
			dir, flags := b.folders(entries, map[string]string{"shop/page.sh": hook(servesTenants, ":"),
				"bank/hook.sh": hook(`{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: bank}]}`, n.script)})
			op := b.start(dir, append(flags, "--retry-min-delay", "100ms", "--retry-max-delay", "1s")...)
			page := b.page(op)
			if i > 0 {
				op.untilCount("begun", 1)
			}
			for range requests {
				took[i] = append(took[i], page())
			}
			op.stop()
		}
		b.progress("neighbours, round %d of %d: %.1f ms alone, %.1f ms beside a CPU loop, %.1f ms beside a memory bomb", round+1, rounds,
			middle(took[0]), middle(took[1]), middle(took[2]))
	}
	for i, n := range neighbours[1:] {
		b.add("request beside "+n.name+" of another tenant", "ms", took[i+1]...).against("alone", took[0]...).times(2, 0)
	}
}

// page returns how long a request of the page of servesTenants takes, in ms. It has been answered before.
func (b *bench) page(op *operator) func() float64 {
	b.Helper()
	url := "http://" + op.untilCount("HTTP hooks are served", 1).Fields["address"] + "/shop/page"
	request := func() (status int, ms float64) {
		began := time.Now()
		res, err := http.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			b.Fatal(err)
		}
		return res.StatusCode, time.Since(began).Seconds() * 1000
	}
	const patience = 3 * time.Minute
	for began := time.Now(); ; {
		if status, _ := request(); status < http.StatusMultipleChoices {
			break
		} else if time.Since(began) > patience {
			b.Fatalf("the page of the tenant is answered with %d", status)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return func() float64 {
		status, ms := request()
		if status >= http.StatusMultipleChoices {
			b.Fatalf("the page of the tenant is answered with %d", status)
		}
		return ms
	}
}
