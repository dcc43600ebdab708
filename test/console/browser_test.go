//go:build browser

package console

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/browser"
)

// signIn opens the console in a tab.
func (c *console) signIn(b *browser.Tab) {
	c.t.Helper()
	address := c.address()
	b.Visit(address)
	b.Until(`!location.pathname.endsWith("/open")`)
	c.base = strings.TrimSuffix(strings.SplitN(address, "/open", 2)[0], "/")
}

// pages are the addresses of pages of the shop.
func (s *shop) pages(run string) []string {
	return []string{"/", "/hooks/orders.sh", "/hooks/report.sh", "/queues/orders", "/queues/orders?key=o-2", "/runs/" + run,
		"/objects/ConfigMap/" + s.namespace + "/o-2", "/parked", "/sets", "/finalizers", "/live", "/search?q=o-2",
		"/act/parked/retry?all=true", "/act/queue/retry?name=orders", "/act/hook/trigger?name=report.sh&binding=nightly"}
}

// TestConsoleInABrowser: each page is readable and accessible, no page violates the policy, and an action is done with the keyboard.
func TestConsoleInABrowser(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join(test.Root(), "bin", "tools", "axe.min.js"))
	if err != nil {
		t.Fatalf("%v: make test-browser gets it", err)
	}
	s := opened(t)
	reader := show(t, s.Command("console", "--no-browser"))
	reader.open(reader.address())
	runs := reader.runs("invoices.sh")
	if len(runs) == 0 {
		t.Fatal("no runs")
	}
	c := show(t, s.Command("console", "--no-browser", "/parked"))
	b := browser.Open(t)
	c.signIn(b)
	b.Says("the printer is out of paper")
	if at := browser.Value[string](b, "location.href"); at != c.base+"/parked" {
		t.Errorf("the address is %s", at)
	}
	if n := browser.Value[int](b, "history.length"); strings.Contains(browser.Value[string](b, "location.hash"), "#") {
		t.Errorf("the token is in the address, history of %d", n)
	}
	for _, path := range s.pages(runs[0]) {
		began := time.Now()
		b.Visit(c.base + path)
		b.Until(`document.readyState === "complete"`)
		t.Logf("%s is complete after %d ms, interactive after %.0f ms", path, time.Since(began).Milliseconds(),
			browser.Value[float64](b, `performance.getEntriesByType("navigation")[0].domInteractive`))
		if strings.Contains(b.Text(), "there is no /") {
			t.Errorf("%s: a route is missing: %s", path, b.Text())
		}
		b.Accessible(string(axe), path)
		b.Clean(path)
		const foreign = `performance.getEntriesByType("resource").filter((r) => !r.name.startsWith(location.origin)).length`
		if n := browser.Value[int](b, foreign); n > 0 {
			t.Errorf("%s requests another host", path)
		}
	}
	for _, path := range s.pages(runs[0]) { // in the window of a phone
		b.VisitIn(375, 800, c.base+path)
		b.Until(`document.readyState === "complete"`)
		if n := browser.Value[int](b, `document.documentElement.scrollWidth`); n > 375 {
			t.Errorf("%s is %d px wide in a window of 375", path, n)
		}
		const tallest = `Math.max(0, ...[...document.querySelectorAll("main tr")].map((r) => r.offsetHeight))`
		if n := browser.Value[int](b, tallest); n > 800 {
			t.Errorf("%s has a row that is %d px tall in a window of 375", path, n)
		}
		const covered = `[...document.querySelectorAll("main td, main th")].filter((c) => c.scrollHeight > c.offsetHeight + 1).length`
		if n := browser.Value[int](b, covered); n > 0 {
			t.Errorf("%s has %d cells whose text covers the next one", path, n)
		}
	}
	for path, name := range map[string]string{"/": "console-overview.png", "/runs/" + runs[0]: "console-run.png",
		"/objects/ConfigMap/" + s.namespace + "/o-2": "console-object.png"} {
		b.Visit(c.base + path)
		b.Picture(filepath.Join("docs", "how-to", name))
	}

	// With the keyboard: "/" to the search, which opens the object, and the retry of a parked task.
	b.Visit(c.base + "/")
	b.Says("Hooks")
	b.Keys("/")
	b.Keys("\b") // The driver sends the character of a key whose default is prevented, too.
	b.Keys("ConfigMap/" + s.namespace + "/o-2\r")
	b.Says("sees the object")
	s.let("printer")
	b.Visit(c.base + "/parked")
	b.Says("the printer is out of paper")
	b.TabTo("Retry")
	b.Keys("\r")
	b.Says("This would happen:")
	b.TabTo("Retry")
	b.Keys("\r")
	b.Says("Done:")
	b.Visit(c.base + "/parked")
	b.Says("no parked tasks")
	b.Clean("the action")
}

// TestFollowing: what happens is on the pages without a reload, in eight tabs; measured are a run in the overview, in live and one in
// progress.
func TestFollowing(t *testing.T) {
	s := opened(t)
	c := show(t, s.Command("console", "--no-browser"))
	first := browser.Open(t)
	c.signIn(first)
	var tabs []*browser.Tab
	for i := range 8 {
		other := first.Another()
		other.Visit(c.base + []string{"/", "/hooks/report.sh", "/live", "/queues/orders", "/parked", "/hooks/orders.sh", "/live?outcome=failed",
			"/search?q=o-2"}[i])
		other.Until(`document.readyState === "complete"`)
		tabs = append(tabs, other)
	}
	overview, hook, live := tabs[0], tabs[1], tabs[2]
	live.Until(`document.querySelector("#lost") !== null`)
	// The stream is there when an entry comes; until then runs are triggered.
	seen := `document.querySelectorAll("#entries li").length > 0`
	for range 20 {
		s.Ask("hook", "trigger", "report.sh")
		if live.Within(3*time.Second, seen) {
			break
		}
	}
	live.Says("the report is sent")
	n := browser.Value[int](live, `document.querySelectorAll("#entries li.ended").length`)
	began := time.Now()
	s.Ask("hook", "trigger", "report.sh")
	live.Until(fmt.Sprintf(`document.querySelectorAll("#entries li.ended").length > %d`, n))
	t.Logf("a run is in live %d ms after it was requested", time.Since(began).Milliseconds())
	run := browser.Value[string](live, `[...document.querySelectorAll("#entries li.ended a")].at(-1).innerText`)
	hook.Until(fmt.Sprintf(`document.body.innerText.includes(%q)`, run))
	overview.Until(fmt.Sprintf(`document.body.innerText.includes(%q)`, run))
	t.Logf("it is on the pages of the hook and the overview after %d ms", time.Since(began).Milliseconds())

	// While it is paused, nothing is added.
	browser.Value[bool](live, `document.getElementById("pause").click(), true`)
	s.Ask("hook", "trigger", "report.sh")
	const newest = `[...document.querySelectorAll("main th a")].find((a) => /^[0-9]+-1$/.test(a.innerText)).innerText`
	hook.Until(fmt.Sprintf(`!%s.includes(%q)`, newest, run))
	if got := browser.Value[string](live, `[...document.querySelectorAll("#entries li.ended a")].at(-1).innerText`); got != run {
		t.Errorf("%s came while it was paused", got)
	}
	browser.Value[bool](live, `document.getElementById("pause").click(), true`)
	live.Until(fmt.Sprintf(`[...document.querySelectorAll("#entries li.ended a")].at(-1).innerText !== %q`, run))

	// The run in progress.
	running := tabs[7]
	running.Visit(c.base + "/hooks/orders.sh")
	running.Says("▶ running")
	id := browser.Value[string](running,
		`[...document.querySelectorAll("tr")].find((r) => r.innerText.includes("running")).querySelector("a").innerText`)
	running.Visit(c.base + "/runs/" + id)
	running.Says("packing")
	began = time.Now()
	s.let("packed")
	running.Says("exit status 0")
	running.Says("shipped")
	t.Logf("the end of a run is on its page after %d ms", time.Since(began).Milliseconds())
	for _, b := range tabs {
		b.Clean(browser.Value[string](b, "location.pathname"))
	}
}

// TestOperatorEndsWhileAPageIsOpen: the page keeps what it shows, with its age, and shows the next operator by itself.
func TestOperatorEndsWhileAPageIsOpen(t *testing.T) {
	s := opened(t)
	dir := filepath.Join(t.TempDir(), "s")
	socket := filepath.Join(dir, filepath.Base(s.Socket))
	point := func() {
		t.Helper()
		_ = os.Remove(dir)
		if err := os.Symlink(filepath.Dir(s.Socket), dir); err != nil {
			t.Fatal(err)
		}
	}
	point()
	cmd := s.Command("console", "--no-browser", "/parked")
	cmd.Env = append(os.Environ(), "DEBUG_UNIX_SOCKET="+socket)
	c := show(t, cmd)
	b := browser.Open(t)
	c.signIn(b)
	b.Says("the printer is out of paper")
	s.let("packed")
	s.Signal(os.Interrupt)
	s.Wait()
	b.Says("No answer from the operator since")
	b.Says("the printer is out of paper")
	b.Until(`/\([0-9]+ s old\)/.test(document.getElementById("age").innerText)`)
	s.let("printer")
	s.Operator = s.start()
	point()
	s.UntilLog("Hook executed successfully", "hook", "invoices.sh")
	b.Says("no parked tasks")
	b.Until(`document.getElementById("lost").innerText === ""`)
	b.Clean("the restart")

	// The operator hangs, and the console ends.
	s.Signal(syscall.SIGSTOP)
	b.Says("No answer from the operator since")
	s.Signal(syscall.SIGCONT)
	b.Until(`document.getElementById("lost").innerText === ""`)
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		t.Fatal(err)
	}
	c.address()
}
