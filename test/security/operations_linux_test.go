package security

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// writer writes COUNT operations of 900 kB each. The API server reads each of them and has no object for it, so etcd stays as it is.
const writer = `#!/bin/sh
if [ "$1" = --config ]; then cat <<'YAML'
configVersion: v1
settings: {maxFileBytes: 268435456}
kubernetes: [{name: maps, kind: ConfigMap, queue: "QUEUE", executeHookOnEvent: [], namespace: {nameSelector: {matchNames: [NAMESPACE]}}, nameSelector: {matchNames: [none]}}]
YAML
exit; fi
text=$(head -c 900000 /dev/zero | tr '\0' x)
for i in $(seq COUNT); do
  printf '{"operation": "MergePatch", "kind": "ConfigMap", "namespace": "NAMESPACE", "name": "none-%s", "ignoreMissingObject": true, "mergePatch": {"data": {"text": "%s"}}}\n' "$i" "$text"
done > "$KUBERNETES_PATCH_PATH"
`

// Line "operations": a run with 200 MB of operations, and ten of them at once, keep the memory of the operator within bounds.
func TestOperationsInMemory(t *testing.T) {
	cluster := testenv.Shared(t)
	cases := []struct{ runs, operations, most int }{{1, 60, 200}}
	if test.Long() {
		cases = []struct{ runs, operations, most int }{{1, 222, 200}, {10, 222, 400}}
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("runs=%d", c.runs), func(t *testing.T) {
			ns, files := cluster.Namespace(t), map[string]string{}
			for i := range c.runs {
				name := fmt.Sprintf("h%d.sh", i)
				files[name] = strings.NewReplacer("NAMESPACE", ns, "QUEUE", name, "COUNT", fmt.Sprint(c.operations)).Replace(writer)
			}
			op := testenv.Start(t, testenv.OperatorOptions{
				Binary: testenv.Released(t), HooksDir: testenv.Hooks(t, files), Kubeconfig: cluster.Kubeconfig,
			})
			for name := range files {
				op.UntilLog("Hook executed successfully", "hook", name)
			}
			at := peak(t, op.Pid()) >> 20
			if t.Logf("%d MB in each of %d runs: peak %d MiB", c.operations*900_000/1_000_000, c.runs, at); at > c.most {
				t.Errorf("the peak is %d MiB, more than %d", at, c.most)
			}
		})
	}
}
