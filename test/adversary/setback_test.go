package adversary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// setBack restores a backup of etcd, which was made before the change that caused a write, when that write has been answered. All is the
// past then, and versions are used again. The operator has to notice that; it ends by itself when it is ten minutes old, so it is restarted
// here, as `status` says. The change is made again after that, as a person would.
type setBack struct {
	atPlace
	step     int
	restored bool
}

func (d *setBack) missed() string {
	if d.restored {
		return ""
	}
	return "there was no write " + d.at.String() + " during its step"
}

func (d *setBack) write(_ *replica, p place, _ *request, send func() *answer) *answer {
	a := send()
	d.first(p)
	return a
}

const noticed = "The API server was set back"

func (d *setBack) change(w *world, number int, do func()) {
	if number != d.step {
		do()
		return
	}
	restore := backup(w.t, w.cluster)
	for i := range 500 { // versions go on by more than a control plane writes when it starts
		w.do(step{Do: "patch", Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name": "default", "annotations": map[string]any{"filler": fmt.Sprint(i)}}}})
	}
	do()
	if !w.await(patience, func() bool { return d.met.Load() }) {
		return
	}
	watching := slices.DeleteFunc(w.replicas(), func(r *replica) bool { return r.watches.Load() == 0 }) // the others see nothing of the past
	restore()
	d.restored = true
	if !w.await(2*patience, func() bool {
		for _, r := range watching { // one that has lost its Lease meanwhile has ended before
			if !r.dead.Load() && !strings.Contains(r.op.Log(), noticed) {
				return false
			}
		}
		return true
	}) {
		w.t.Error("a replica does not notice that the API server was set back")
	}
	for _, r := range w.replicas() {
		out, err := r.op.Command("status").CombinedOutput()
		if slices.Contains(watching, r) && !r.dead.Load() && (err == nil || !strings.Contains(string(out), "restart it")) {
			w.t.Errorf("status does not show that the API server was set back:\n%s", out)
		}
		r.expected.Store(true)
		r.op.Signal(syscall.SIGTERM)
	}
	do()
}

// backup copies the files of etcd, and returns what restores them.
func backup(t *testing.T, c *testenv.Cluster) (restore func()) {
	t.Helper()
	is, kept := filepath.Join(c.Dir, "etcd"), filepath.Join(t.TempDir(), "etcd")
	c.Pause(t, "etcd")
	out, err := exec.Command("cp", "-r", is, kept).CombinedOutput()
	c.Continue(t, "etcd")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return func() {
		for _, component := range []string{"kube-controller-manager", "kube-apiserver", "etcd"} {
			c.Kill(t, component)
		}
		if err := os.RemoveAll(is); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(is, os.DirFS(kept)); err != nil {
			t.Fatal(err)
		}
		for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
			c.Restart(t, component)
		}
	}
}
