package security

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// metricsFlood is a hook that writes 9,000 series with labels of 60 KB, and one that writes many short ones.
const metricsFlood = `#!/bin/sh
if [ "$1" = --config ]; then echo '{"configVersion": "v1", "onStartup": 1, "settings": {"maxFileBytes": 134217728}}'; exit; fi
awk -v n=N -v size=SIZE 'BEGIN {
  for (l = "x"; length(l) < size; l = l l); l = substr(l, 1, size)
  for (i = 0; i < n; i++)
    print "{\"name\":\"NAME\",\"set\":1,\"labels\":{\"i\":\"" i "\",\"l\":\"" l "\"}}" }' > "$METRICS_PATH"
`

// TestSlowScrapers: hooks that write very many long series, and scrapers that do not read, cannot exhaust the memory, and others still
// scrape.
func TestSlowScrapers(t *testing.T) {
	c := testenv.Shared(t)
	hooks, many := t.TempDir(), "50000"
	if test.Long() {
		many = "200000"
	}
	for name, with := range map[string][]string{"long.sh": {"N", "1500", "SIZE", "60000", "NAME", "long"},
		"many.sh": {"N", many, "SIZE", "10", "NAME", "many"}, "small.sh": {"N", "10", "SIZE", "10", "NAME", "small"}} {
		text := metricsFlood
		for i := 0; i < len(with); i += 2 {
			text = strings.ReplaceAll(text, "="+with[i]+" ", "="+with[i+1]+" ")
			text = strings.ReplaceAll(text, `"`+with[i]+`\"`, `"`+with[i+1]+`\"`)
		}
		testenv.Script(t, hooks, name, text)
	}
	op := testenv.Start(t, testenv.OperatorOptions{Binary: testenv.Released(t), HooksDir: hooks, Kubeconfig: c.Kubeconfig})
	for _, hook := range []string{"long.sh", "many.sh", "small.sh"} {
		op.UntilLog("Hook executed successfully", "hook", hook)
	}
	address := strings.TrimPrefix(op.Address(), "http://")
	for range 20 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /metrics/hooks HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	// The other path has places of its own. On this one, the slow scrapers are cut off.
	if status, text := testenv.Get(t, op.Address()+"/metrics"); status != http.StatusOK ||
		!strings.Contains(text, `shell_operator_hook_metric_series{hook="small.sh"} 10`) {
		t.Errorf("/metrics: status %d", status)
	}
	op.UntilLog("A scrape was not read to its end")
	if status, text := testenv.Get(t, op.Address()+"/metrics/hooks"); status != http.StatusOK || strings.Count(text, "small{") != 10 {
		t.Errorf("/metrics/hooks: status %d, %d series of the small hook", status, strings.Count(text, "small{"))
	}
	if log := op.Log(); strings.Contains(log, "Some metrics cannot be shown") || !strings.Contains(log, "as much memory as they may") {
		t.Errorf("the log has an error for each metric, or none of the limit")
	}
	if peak := memory(t, op.Pid(), "VmHWM"); peak > 900 {
		t.Errorf("the operator had %d MiB at its peak, more than the limit of the chart allows", peak)
	} else {
		t.Logf("peak: %d MiB", peak)
	}
}
