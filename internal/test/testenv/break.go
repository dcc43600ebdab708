package testenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What tests do to a control plane of their own.

// Kill ends a component immediately; it stays dead until Restart.
func (c *Cluster) Kill(t testing.TB, component string) {
	t.Helper()
	c.signal(t, component, syscall.SIGKILL)
}

// Pause stops a component: its connections stay open without an answer. Continue ends that.
func (c *Cluster) Pause(t testing.TB, component string) {
	t.Helper()
	c.signal(t, component, syscall.SIGSTOP)
}

// Continue resumes a paused component.
func (c *Cluster) Continue(t testing.TB, component string) {
	t.Helper()
	c.signal(t, component, syscall.SIGCONT)
}

func (c *Cluster) signal(t testing.TB, component string, s syscall.Signal) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Dir, component+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// Restart starts a component and returns when it is healthy.
func (c *Cluster) Restart(t testing.TB, component string) {
	t.Helper()
	if out, err := exec.Command(testclusterBinary(), "restart", "--dir", c.Dir, component).CombinedOutput(); err != nil {
		t.Fatalf("restart %s: %s", component, out)
	}
}

// Compact makes etcd forget the history of all objects: watches that begin in the past are refused from now on, once
// the API server has forgotten it as well, at its next start.
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Dir, "etcd.address"))
	if err != nil {
		t.Fatal(err)
	}
	etcd := "http://" + strings.TrimSpace(string(text))
	var now struct{ Header struct{ Revision string } }
	// "AA==" is not the key of any component.
	ask(t, etcd+"/v3/kv/range", `{"key":"AA=="}`, &now)
	ask(t, etcd+"/v3/kv/compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, now.Header.Revision), new(any))
}

func ask(t testing.TB, url, question string, answer any) {
	t.Helper()
	res, err := http.Post(url, "application/json", bytes.NewBufferString(question))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %s", res.Status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		t.Fatalf("etcd: %v", err)
	}
}
