// Package console opens the console of a running operator: its pages as HTML in all tests, and in a real browser in the tests of
// make test-browser.
package console

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// shop is an operator with orders: one whose lane waits for its next attempt, one that runs, one that has been shipped, and an invoice that
// is parked.
type shop struct {
	*testenv.Operator
	t         testing.TB
	namespace string
	// dir has files that let hooks succeed.
	dir   string
	start func() *testenv.Operator
}

func opened(t *testing.T) *shop {
	cluster := testenv.Shared(t)
	s := &shop{t: t, namespace: cluster.Namespace(t), dir: t.TempDir()}
	if golden.Update() { // a namespace with a name for pictures
		s.namespace = "eu"
		_, _ = cluster.TryKubectl("", "create", "namespace", s.namespace)
	}
	hooks, err := filepath.Abs("testdata/hooks")
	if err != nil {
		t.Fatal(err)
	}
	s.start = func() *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig,
			Env: []string{"CONSOLE_NAMESPACE=" + s.namespace, "CONSOLE_DIR=" + s.dir, "TZ=UTC"}})
	}
	s.order("o-1", "order", "paid")
	s.order("o-2", "order", "unpaid")
	s.order("o-3", "order", "slow")
	s.order("i-1", "invoice", "paid")
	s.Operator = s.start()
	t.Cleanup(func() { s.let("packed") }) // no hook runs when the operator is ended
	s.settle()
	return s
}

// settle waits until the operator is in the state that shop describes.
func (s *shop) settle() {
	s.UntilLog("Hook failed. Will retry after delay.", "hook", "orders.sh")
	s.UntilLog("Hook executed successfully", "hook", "orders.sh")
	s.UntilLog("Hook failed. No attempt is left, its contexts are parked.", "hook", "invoices.sh")
}

// order creates an object.
func (s *shop) order(name, app, state string) {
	s.t.Helper()
	manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {app: %s}}\ndata: {state: %s}\n", name, app, state)
	testenv.Shared(s.t).KubectlInput(s.t, manifest, "apply", "-n", s.namespace, "-f", "-")
}

// let makes hooks succeed.
func (s *shop) let(what string) {
	if err := os.WriteFile(filepath.Join(s.dir, what), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// console is a running console.
type console struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	t    testing.TB
	http *http.Client
	// base is the address of its pages, after open.
	base string
}

// show starts the console of an operator.
func show(t testing.TB, cmd *exec.Cmd) *console {
	t.Helper()
	c := &console{cmd: cmd, t: t}
	out, err := cmd.StdoutPipe()
	if err == nil {
		c.in, err = cmd.StdinPipe()
	}
	cmd.Stderr = os.Stderr
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	t.Cleanup(func() {
		ended := cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil && ended == nil {
			t.Errorf("the console: %v", err)
		}
	})
	return c
}

// address reads the next address that the console prints.
func (c *console) address() string {
	c.t.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			c.t.Fatalf("no address: %v", err)
		}
		if text, ok := strings.CutPrefix(line, "Open "); ok {
			return strings.TrimSpace(text)
		}
	}
}

// open is what the browser does with an address.
func (c *console) open(address string) {
	c.t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		c.t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	c.http = &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	c.base = "http://" + at.Host + strings.TrimSuffix(at.Path, "/open")
	res, err := c.http.PostForm(c.base+"/open", url.Values{"token": {at.Fragment}})
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		c.t.Fatalf("%s: %s", address, res.Status)
	}
}

// page returns a page as HTML.
func (c *console) page(path string) string {
	c.t.Helper()
	res, err := c.http.Get(c.base + path)
	return c.body(res, err)
}

func (c *console) body(res *http.Response, err error) string {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s: %v: %s", res.Request.URL, res.Status, err, text)
	}
	return string(text)
}

// runs are the ids of the runs of a hook that the console shows, the latest first.
func (c *console) runs(hook string) (ids []string) {
	for _, m := range regexp.MustCompile(`/runs/([0-9]+-[0-9]+)"`).FindAllStringSubmatch(c.page("/hooks/"+hook), -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// TestPages: each page shows what the operator knows, as HTML.
func TestPages(t *testing.T) {
	s := opened(t)
	c := show(t, s.Command("console", "--no-browser"))
	c.open(c.address())
	runs := c.runs("invoices.sh")
	if len(runs) == 0 {
		t.Fatalf("no runs on\n%s", c.page("/hooks/invoices.sh"))
	}
	object := "ConfigMap/" + s.namespace + "/o-2"
	for path, want := range map[string][]string{
		"/": {"queue &#34;orders&#34;", "problems</a>", "only replica", "/act/parked/retry?hook=invoices.sh",
			"invoices.sh, queue", "1 task parked"},
		"/hooks/orders.sh": {object, "ConfigMap", "MergePatch", ">patch</td>", "Follow its runs", "waited</th>"},
		"/hooks/report.sh": {"0 3 1 1 *", "/act/hook/trigger?binding=nightly"},
		"/queues/orders":   {object, "sleeping", "✕", "/act/queue/skip?key=ConfigMap%2F"},
		"/runs/" + runs[0]: {"the printer is out of paper", "exit status 1", "Context 1 · invoices", "runs save " + runs[0],
			"applying"},
		"/objects/" + object:         {"orders.sh", "sees the object", "has failed once", "1 event of it"},
		"/parked":                    {"invoices.sh", "/i-1", "Retry", "Drop"},
		"/sets":                      {"no sets"},
		"/finalizers":                {"no finalizers"},
		"/search?q=o-2":              {"/objects/" + object},
		"/act/parked/retry?all=true": {"This would happen:", "is queued again", "shell-operator parked retry --all"},
	} {
		text := c.page(path)
		for _, w := range append(want, "<title>", "shell-operator console ") {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is missing in\n%s", path, w, text)
			}
		}
		if strings.Contains(text, "there is no /") {
			t.Errorf("%s: a route is missing:\n%s", path, text)
		}
	}
	// An action, from its form to its effect.
	s.let("printer")
	form := regexp.MustCompile(`action="([^"]*)/act/([^"]*)"`).FindStringSubmatch(c.page("/act/parked/retry?all=true"))
	if text := c.body(c.http.PostForm(c.base+"/act/"+html.UnescapeString(form[2]), url.Values{})); !strings.Contains(text, "Done") {
		t.Errorf("%s", text)
	}
	s.UntilLog("Hook executed successfully", "hook", "invoices.sh")
	s.UntilLog("A command has changed the operator", "command", "parked/retry")
}
