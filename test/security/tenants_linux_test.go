package security

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const tenantsFile = `
- name: shop
  folder: shop/
  serviceAccount: %[1]s/shop
  limits: {memory: 256Mi, cpuTime: 60s, files: 64Mi, openFiles: 256, output: 1Mi, concurrency: 1, series: 2}
- name: bank
  folder: bank/
  serviceAccount: %[1]s/bank
  limits: {memory: 64Mi, cpuTime: 1s, files: 1Mi, openFiles: 64, output: 1Ki}
- name: stuck
  folder: stuck/
  serviceAccount: %[1]s/bank
  limits: {openFiles: 64}
`

// everySecond is a hook that runs each second in a queue of its own.
func everySecond(name, script string) string {
	return fmt.Sprintf(`#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: %s}]}'
  exit
fi
set -e
%s
`, name, script)
}

const atStart = `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
`

// Processes of a tenant that take all they can get fail by its limits, and the hooks of another one, and of none, continue. Its environment
// has nothing of the operator's account.
func TestTenants(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	for _, name := range []string{"shop", "bank"} {
		cluster.Kubectl(t, "-n", namespace, "create", "serviceaccount", name)
	}
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	dir := hooks(t, map[string]string{
		"plain.sh":     everySecond("main", `echo "plain goes on"`),
		"shop/tick.sh": everySecond("tick", `echo "shop goes on"`),
		"shop/env.sh": atStart + `echo "names $(env | cut -d= -f1 | sort | tr '\n' ' ')"; echo "am $(kubectl auth whoami -o ` +
			`'jsonpath={.status.userInfo.username}')"; stat -c "mode %a" "$KUBECONFIG"`,
		"shop/home.sh":   atStart + `echo kept >>~/kept`,
		"shop/later.sh":  strings.Replace(atStart, "onStartup: 1", "onStartup: 2", 1) + `echo "home $(cat ~/kept)"`,
		"bank/memory.sh": everySecond("memory", `x=$(head -c 1000000000 /dev/zero | tr '\0' x); echo ${#x}`),
		"bank/output.sh": everySecond("output", `echo first; head -c 3000000 /dev/zero | tr '\0' '\n'; yes | head -c 3000000; echo "the end"`),
		"bank/file.sh":   everySecond("file", `head -c 10G /dev/zero >file`),
		"bank/cpu.sh":    everySecond("cpu", `while :; do :; done`),
		"stuck/stuck.sh": atStart + `exit 1`,
	})
	if err := os.WriteFile(file, fmt.Appendf(nil, tenantsFile, namespace), 0o600); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: dir, Kubeconfig: cluster.Kubeconfig,
		// A run of bank/cpu.sh ends with its CPU time, which takes long on a busy machine.
		Args: []string{"--tenants", file, "--hook-env", "NAMED,TEST_*", "--retry-min-delay", "1s", "--shutdown-timeout", "2m"},
		Env:  []string{"NAMED=1", "TEST_TOKEN=1", "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=1"},
	})
	const failed = "Hook failed. Will retry after delay."
	errorOf := func(hook string) string {
		t.Helper()
		return op.UntilLog(failed, "hook", hook).Fields["error"]
	}
	const held = "(limits of tenant bank: memory 64Mi, cpuTime 1s, files 1Mi, openFiles 64)"
	for hook, want := range map[string]string{
		"bank/memory.sh": "", "bank/cpu.sh": "exceeded limits.cpuTime of its tenant, 1s",
		"bank/file.sh": "exceeded limits.files of its tenant, 1Mi",
	} {
		if got := errorOf(hook); !strings.Contains(got, want) || !strings.Contains(got, held) {
			t.Errorf("the error of %s is %q, want %q %q", hook, got, want, held)
		}
	}
	op.UntilLog("The hook has printed more than its tenant allows, the rest is dropped", "hook", "bank/output.sh")
	if got := errorOf("stuck/stuck.sh"); !strings.HasSuffix(got, "(limits of tenant stuck: openFiles 64)") {
		t.Errorf("the error is %q", got)
	}
	// The hooks of one tenant wait for its onStartup run; no others do.
	op.UntilLog("shop goes on", "queue", "shop/tick")
	op.UntilLog("plain goes on", "queue", "main")
	op.UntilLog("am system:serviceaccount:"+namespace+":shop", "hook", "shop/env.sh")
	op.UntilLog("mode 600", "hook", "shop/env.sh")
	op.UntilLog("home kept", "hook", "shop/later.sh")
	names := op.UntilLog("names ").Fields["msg"] + " "
	for _, name := range strings.Fields(names) {
		if strings.HasPrefix(name, "KUBERNETES_SERVICE") || name == "TEST_TOKEN" {
			t.Errorf("the environment has %s", name)
		}
	}
	for _, name := range []string{"NAMED", "HOME", "KUBECONFIG", "PATH", "SHELL_LIB", "BINDING_CONTEXT_PATH"} {
		if !strings.Contains(names, " "+name+" ") {
			t.Errorf("the environment lacks %s: %s", name, names)
		}
	}
	if runs := op.Ask("runs", "shop/env.sh", "-o", "json"); !strings.Contains(strings.ReplaceAll(runs, " ", ""), `"tenant":"shop"`) {
		t.Errorf("the runs name no tenant:\n%s", runs)
	}
}
