package security

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Line "planted links": the private directory for the socket of a user without write access to /var/run is not a link, even
// if another user has planted one there.
func TestPlantedDebugFolder(t *testing.T) {
	cluster := testenv.Shared(t)
	root, err := os.MkdirTemp("", "security-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	const nobody = 65534
	victim, runtime, tmp := filepath.Join(root, "victim"), filepath.Join(root, "runtime"), filepath.Join(root, "tmp")
	kubeconfig, binary, wrapper := filepath.Join(root, "kubeconfig"), filepath.Join(root, "shell-operator"), filepath.Join(root, "start")
	config, err := os.ReadFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(testenv.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	// The socket is not chosen: testenv's choice is left out. Root could write to /var/run, so it becomes another user.
	become := ""
	if os.Geteuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("root needs setpriv, of util-linux, to become another user")
		}
		become = fmt.Sprintf("setpriv --reuid %d --regid %d --clear-groups ", nobody, nobody)
	}
	script := fmt.Sprintf("#!/bin/sh\nshift 3\nexec %s%s start \"$@\"\n", become, binary)
	for _, err := range []error{
		os.Chmod(root, 0o755), os.Mkdir(victim, 0o700), os.Mkdir(runtime, 0o700), os.Mkdir(tmp, 0o700),
		os.WriteFile(kubeconfig, config, 0o600), os.WriteFile(binary, program, 0o755), os.WriteFile(wrapper, []byte(script), 0o755),
		os.Symlink(victim, filepath.Join(runtime, "shell-operator")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if become != "" {
		for _, path := range []string{victim, runtime, tmp, kubeconfig} {
			if err := os.Chown(path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := filepath.Join(root, "hooks")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	testenv.Script(t, dir, "a.sh", startup)
	op := testenv.Start(t, testenv.OperatorOptions{
		Binary: wrapper, HooksDir: dir, Kubeconfig: kubeconfig, TmpDir: filepath.Join(tmp, "operator"),
		Env: []string{"XDG_RUNTIME_DIR=" + runtime, "HOME=" + tmp},
	})
	r := op.UntilLog("There is no debug socket: name one with --debug-unix-socket")
	if !strings.Contains(r.Fields["error"], "is not a directory") {
		t.Errorf("the reason is %q", r.Fields["error"])
	}
	op.UntilLog("Hook executed successfully")
	if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
		t.Errorf("the link was followed: %v %v", left, err)
	}
}
