package security

import (
	"fmt"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

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
				files[name] = testenv.Testdata(t, "writer.sh", "NAMESPACE", ns, "QUEUE", name, "COUNT", fmt.Sprint(c.operations))
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
