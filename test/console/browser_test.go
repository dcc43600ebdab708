//go:build browser

package console

import (
	"os"
	"path/filepath"
	"strings"
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
