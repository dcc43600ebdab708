package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/test"
)

// pairs is how often each call is made with either kubectl, in turns. A long list takes seconds.
const pairs, listPairs = 30, 8

// kubectlCalls measures calls of hooks with the trimmed kubectl, in turns with the complete one.
func kubectlCalls(b *bench) {
	namespace := b.cluster.Namespace(b.T)
	b.cluster.Kubectl(b.T, "-n", namespace, "create", "cm", "x", "--from-literal=a=b")
	const manifest = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"n": "%d"}}`
	for _, call := range []struct {
		// %d is the number of the call.
		args, stdin string
		limit       float64
	}{
		{"get cm x -o json", "", 0.45},
		{"label cm x n=%d --overwrite", "", 0.45},
		{`patch cm x -p {"data":{"n":"%d"}}`, "", 0.45},
		{"delete cm none-%d --wait=false --ignore-not-found", "", 0.45},
		{"apply -f -", manifest, 0.8},
		{"apply --server-side -f - --force-conflicts", manifest, 0.8},
		{"explain configmap", "", 0}, // the complete kubectl in both cases
	} {
		name, _, _ := strings.Cut(call.args, " -p")
		b.alternate(strings.ReplaceAll(name, "=%d", "=…"), pairs, call.limit, func(n int) *exec.Cmd {
			args := append([]string{"-n", namespace}, strings.Fields(numbered(call.args, n))...)
			if call.limit == 0 { // the name of the command decides
				args = strings.Fields(call.args)
			}
			cmd := exec.Command("kubectl", args...)
			if call.stdin != "" {
				cmd.Stdin = strings.NewReader(numbered(call.stdin, n))
			}
			return cmd
		})
	}
}

// kubectlList measures a call that takes much longer than the start of kubectl.
func kubectlList(b *bench) {
	b.fill("Pod", 10_000)
	b.alternate("get pods -A -o json, 10,000 Pods", listPairs, 1.03, func(int) *exec.Cmd {
		return exec.Command("kubectl", "get", "pods", "-A", "-o", "json")
	})
}

// typicalHook measures a hook as published ones are.
func typicalHook(b *bench) {
	namespace := b.cluster.Namespace(b.T)
	b.cluster.Kubectl(b.T, "-n", namespace, "create", "cm", "x", "--from-literal=mode=fast")
	contexts := filepath.Join(b.TempDir(), "contexts.json")
	script := `set -eu
name=$(jq -r '.[0].object.metadata.name' <"$1")
size=$(jq -r '.[0].object.data | length' <"$1")
mode=$(kubectl -n "$2" get cm x -o json | jq -r .data.mode)
kubectl -n "$2" apply -f - <<END
{apiVersion: v1, kind: ConfigMap, metadata: {name: result}, data: {name: "$name", size: "$size", mode: "$mode", run: "$3"}}
END`
	context := `[{"binding": "kubernetes", "type": "Event", "watchEvent": "Added", "object": {"kind": "ConfigMap", ` +
		`"metadata": {"name": "one"}, "data": {"a": "1"}}}]`
	if err := os.WriteFile(contexts, []byte(context), 0o600); err != nil {
		b.Fatal(err)
	}
	b.alternate("bash, 3 jq, get, apply", pairs, 0.8, func(n int) *exec.Cmd {
		return exec.Command("bash", "-c", script, "hook", contexts, namespace, fmt.Sprint(n))
	})
}

func numbered(text string, n int) string { return strings.ReplaceAll(text, "%d", fmt.Sprint(n)) }

// alternate measures a command with either kubectl in its PATH. Its CPU time includes that of its children.
func (b *bench) alternate(name string, pairs int, limit float64, command func(n int) *exec.Cmd) {
	b.Helper()
	dirs := map[string]string{kubectl.Process: test.Tools(b.T), kubectl.Auto: filepath.Join(test.Root(), "bin", "kubectl-trimmed")}
	environments, err := kubectl.Environments([]string{
		"PATH=" + dirs[kubectl.Process] + ":" + os.Getenv("PATH"), "KUBECONFIG=" + b.cluster.Kubeconfig, "HOME=" + b.TempDir(),
	}, kubectl.Auto, dirs[kubectl.Auto])
	if err != nil {
		b.Fatal(err)
	}
	wall, cpu, calls := map[string][]float64{}, map[string][]float64{}, 0
	for n := range pairs + 1 {
		for _, kind := range []string{kubectl.Process, kubectl.Auto} {
			calls++
			cmd := command(calls)
			cmd.Env = environments[kind]
			if cmd.Args[0] == "kubectl" { // exec searches in the PATH of this process
				cmd.Path, cmd.Err = filepath.Join(dirs[kind], "kubectl"), nil
			}
			var output bytes.Buffer
			cmd.Stdout, cmd.Stderr = &output, &output
			started := time.Now()
			if err := cmd.Run(); err != nil {
				b.Fatalf("%s: %v\n%s", name, err, output.String())
			}
			took := time.Since(started)
			if n > 0 { // the first pair fills the caches
				wall[kind] = append(wall[kind], milliseconds(took))
				cpu[kind] = append(cpu[kind], milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
			}
		}
	}
	for _, f := range []*figure{
		b.add(name+", CPU", "ms", cpu[kubectl.Auto]...).against("complete kubectl", cpu[kubectl.Process]...),
		b.add(name+", wall", "ms", wall[kubectl.Auto]...).against("complete kubectl", wall[kubectl.Process]...),
	} {
		if limit > 0 {
			f.times(limit, 0)
		} else {
			f.times(1, 5)
		}
	}
}
