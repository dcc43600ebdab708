//go:build browser

package console

import (
	"strings"
	"testing"

	real "github.com/shell-operator/shell-operator/internal/test/browser"
)

// tab is a real browser with a page of the console.
func (b *browser) tab(path string) *real.Tab {
	b.t.Helper()
	tab := real.Open(b.t)
	tab.Visit(b.console.Address(path))
	tab.Until(`!location.pathname.endsWith("/open")`)
	return tab
}

// A page whose route was late shows its content later, and works as one that had it from the beginning.
func TestLatePageInABrowser(t *testing.T) {
	b, f, _ := started(t)
	everywhere(f, "4")
	b.console.link.limit = 1e9
	f.hang(func(path string) bool { return path == "/sets/list.json" || path == "/hook/list.json" })
	sets := b.tab("/sets")
	sets.Says("No answer from the operator since")
	sets.Says("Waiting for the operator.")
	live := sets.Another()
	live.Visit("http://" + b.console.access.host + b.console.access.base + "/live")
	live.Says("Waiting for the operator.")
	f.hang(nil)
	sets.Says("Read from the API server")
	sets.Until(`document.getElementById("lost").innerText === ""`)
	live.Says("keeps 500 entries")
	live.Exec(`document.getElementById("pause").click()`)
	live.Until(`document.getElementById("pause").innerText === "Continue"`)
	for _, tab := range []*real.Tab{sets, live} {
		if text := tab.Text(); strings.Contains(text, "Waiting") {
			t.Errorf("it still waits:\n%s", text)
		}
		tab.Clean("late")
	}
}

// The page of a run that has ended meanwhile is loaded again.
func TestRunEndsInABrowser(t *testing.T) {
	b, f, _ := started(t)
	everywhere(f, "4")
	f.set("/run/list.json?hook=a.sh", []any{})
	f.set("/run/1-1.json", map[string]any{"id": "1-1", "hook": "a.sh", "status": "running", "output": "first line\n"})
	f.mu.Lock()
	f.next = map[string]any{"/run/1-1.json": map[string]any{"id": "1-1", "hook": "a.sh", "status": "succeeded", "exit": "exit status 0"}}
	f.mu.Unlock()
	tab := b.tab("/runs/1-1")
	tab.Says("exit status 0")
	tab.Clean("the run")
}

// A page does not send what is typed into its forms before that is sent.
func TestPollsSendNoForms(t *testing.T) {
	b, f, _ := started(t)
	everywhere(f, "4")
	tab := b.tab("/queues/4")
	tab.Says("Key contains")
	tab.Exec(`document.getElementById("key").focus()`)
	tab.Keys("abc")
	tab.Exec(`window.seen = document.getElementById("time").dateTime`)
	tab.Until(`performance.getEntriesByType("resource").filter((r) => r.initiatorType === "fetch").length > 1`)
	f.mu.Lock()
	for _, path := range f.gets {
		if strings.Contains(path, "abc") {
			t.Errorf("it has requested %s", path)
		}
	}
	f.mu.Unlock()
	tab.Clean("the queue")
}
