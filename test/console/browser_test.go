//go:build browser

package console

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// watched collects what a browser reports about a page: violations of the policy, and errors of scripts. A request that gets no answer is
// an error, too, which tests expect.
const watched = `window.problems = [];
addEventListener("securitypolicyviolation", (e) => problems.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
addEventListener("error", (e) => problems.push(String(e.message)));`

// tab is one of a real browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// browser returns a tab. Without a browser the test fails: who asks for it wants to see it.
func browser(t *testing.T) *tab {
	t.Helper()
	path, err := exec.Command(filepath.Join(testenv.Root(), "scripts", "browser.sh")).Output()
	if err != nil {
		t.Fatal("this needs Chromium or Chrome: install it, for instance with apt-get install chromium, or set BROWSER to its path")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(strings.TrimSpace(string(path))),
		chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chrome refuses root otherwise
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*testenv.Patience)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	return (&tab{t, ctx}).another()
}

// another is another tab of the same browser.
func (b *tab) another() *tab {
	b.t.Helper()
	ctx, closeTab := chromedp.NewContext(b.ctx)
	b.t.Cleanup(closeTab)
	other := &tab{b.t, ctx}
	other.do(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watched}))
	return other
}

// call is a command of the protocol.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// visit opens an address.
func (b *tab) visit(address string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(1280, 720), chromedp.Navigate(address))
}

// value evaluates an expression in the page.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for a change of the page, which may be replaced by another one meanwhile.
func (b *tab) until(expression string) {
	b.t.Helper()
	for {
		_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond)))
		switch {
		case err == nil:
			return
		case !strings.Contains(err.Error(), "context") && !strings.Contains(err.Error(), "navigated"), b.ctx.Err() != nil:
			b.t.Fatalf("waited for %s: %v\n%s", expression, err, b.text())
		}
	}
}

// says waits for a text in the page.
func (b *tab) says(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)", text))
}

func (b *tab) text() string { return value[string](b, "document.body?.innerText ?? ''") }

// keys presses keys one after the other.
func (b *tab) keys(keys string) { b.t.Helper(); b.do(chromedp.KeyEvent(keys)) }

// tabTo moves the focus with the key Tab to an element with a text.
func (b *tab) tabTo(text string) {
	b.t.Helper()
	for range 300 {
		b.keys("\t")
		if strings.HasPrefix(value[string](b, "document.activeElement?.innerText ?? ''"), text) {
			return
		}
	}
	b.t.Fatalf("Tab does not reach %q", text)
}

// clean fails the test if the browser has reported a problem.
func (b *tab) clean(what string) {
	b.t.Helper()
	if problems := value[[]string](b, "problems"); len(problems) > 0 {
		b.t.Errorf("%s: %v", what, problems)
	}
}

// accessible runs axe-core on the page, light and dark, and checks that it fits at 200 % zoom.
func (b *tab) accessible(axe, what string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
		value[bool](b, axe+"; true")
		const run = `axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, ` +
			`3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")))`
		found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise))
		if err != nil {
			b.t.Fatalf("%s: axe-core: %v", what, err)
		}
		for _, violation := range found {
			b.t.Errorf("%s, %s: %s", what, scheme, violation)
		}
	}
	b.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}))
	for _, size := range [][2]int64{{1280, 720}, {640, 360}} { // the latter is 1280 × 720 at 200 %
		b.do(chromedp.EmulateViewport(size[0], size[1]))
		if over := value[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
			b.t.Errorf("%s: at %d × %d the page is %d pixels too wide", what, size[0], size[1], over)
		}
	}
	b.do(chromedp.EmulateViewport(1280, 720))
}

// picture writes a picture for the documentation, with -update: it contains times.
func (b *tab) picture(name string) {
	b.t.Helper()
	path := filepath.Join(testenv.Root(), "docs", "how-to", name)
	if _, err := os.Stat(path); err == nil && !golden.Update() {
		return
	}
	image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil || len(image) < 10<<10 {
		b.t.Fatalf("no picture: %d bytes, %v", len(image), err)
	}
	if err := os.WriteFile(path, image, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// signIn opens the console in a tab.
func (b *tab) signIn(c *console) {
	b.t.Helper()
	address := c.address()
	b.visit(address)
	b.until(`!location.pathname.endsWith("/open")`)
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
	axe, err := os.ReadFile(filepath.Join(testenv.Root(), "bin", "tools", "axe.min.js"))
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
	b := browser(t)
	b.signIn(c)
	b.says("the printer is out of paper")
	if at := value[string](b, "location.href"); at != c.base+"/parked" {
		t.Errorf("the address is %s", at)
	}
	if n := value[int](b, "history.length"); strings.Contains(value[string](b, "location.hash"), "#") {
		t.Errorf("the token is in the address, history of %d", n)
	}
	for _, path := range s.pages(runs[0]) {
		began := time.Now()
		b.visit(c.base + path)
		b.until(`document.readyState === "complete"`)
		t.Logf("%s is complete after %d ms, interactive after %.0f ms", path, time.Since(began).Milliseconds(),
			value[float64](b, `performance.getEntriesByType("navigation")[0].domInteractive`))
		if strings.Contains(b.text(), "has no /") {
			t.Errorf("%s: a route is missing: %s", path, b.text())
		}
		b.accessible(string(axe), path)
		b.clean(path)
		if n := value[int](b, `performance.getEntriesByType("resource").filter((r) => !r.name.startsWith(location.origin)).length`); n > 0 {
			t.Errorf("%s requests another host", path)
		}
	}
	for path, name := range map[string]string{"/": "console-overview.png", "/runs/" + runs[0]: "console-run.png",
		"/objects/ConfigMap/" + s.namespace + "/o-2": "console-object.png"} {
		b.visit(c.base + path)
		b.picture(name)
	}

	// With the keyboard: "/" to the search, then to the object, and the retry of a parked task.
	b.visit(c.base + "/")
	b.says("Hooks")
	b.keys("/")
	b.keys("o-2\r")
	b.says("Lanes of queue orders")
	b.tabTo("ConfigMap/")
	b.keys("\r")
	b.says("sees the object")
	s.let("printer")
	b.visit(c.base + "/parked")
	b.says("the printer is out of paper")
	b.tabTo("Retry all")
	b.keys("\r")
	b.says("This would happen:")
	b.tabTo("Queue it again")
	b.keys("\r")
	b.says("Done:")
	b.visit(c.base + "/parked")
	b.says("no parked tasks")
	b.clean("the action")
}

// TestFollowing: what happens is on the pages without a reload, in eight tabs; measured are a run in the overview, in live and one in
// progress.
func TestFollowing(t *testing.T) {
	s := opened(t)
	c := show(t, s.Command("console", "--no-browser"))
	first := browser(t)
	first.signIn(c)
	var tabs []*tab
	for i := range 8 {
		other := first.another()
		other.visit(c.base + []string{"/", "/hooks/report.sh", "/live", "/queues/orders", "/parked", "/hooks/orders.sh", "/live?outcome=failed",
			"/search?q=o-2"}[i])
		other.until(`document.readyState === "complete"`)
		tabs = append(tabs, other)
	}
	overview, hook, live := tabs[0], tabs[1], tabs[2]
	live.until(`document.querySelector("#lost") !== null`)
	// The stream is there when an entry comes; until then runs are triggered.
	seen := `document.querySelectorAll("#entries li").length > 0`
	for range 20 {
		s.Ask("hook", "trigger", "report.sh")
		if _, err := chromedp.Run(live.ctx, chromedp.Poll[bool](seen, chromedp.WithPollingTimeout(3*time.Second))); err == nil {
			break
		}
	}
	live.says("the report is sent")
	n := value[int](live, `document.querySelectorAll("#entries li.ended").length`)
	began := time.Now()
	s.Ask("hook", "trigger", "report.sh")
	live.until(fmt.Sprintf(`document.querySelectorAll("#entries li.ended").length > %d`, n))
	t.Logf("a run is in live %d ms after it was requested", time.Since(began).Milliseconds())
	run := value[string](live, `[...document.querySelectorAll("#entries li.ended a")].at(-1).innerText`)
	hook.until(fmt.Sprintf(`document.body.innerText.includes(%q)`, run))
	overview.until(fmt.Sprintf(`document.body.innerText.includes(%q)`, run))
	t.Logf("it is on the pages of the hook and the overview after %d ms", time.Since(began).Milliseconds())

	// While it is paused, nothing is added.
	value[bool](live, `document.getElementById("pause").click(), true`)
	s.Ask("hook", "trigger", "report.sh")
	hook.until(fmt.Sprintf(`!document.querySelector(".runs tbody th").innerText.includes(%q)`, run))
	if got := value[string](live, `[...document.querySelectorAll("#entries li.ended a")].at(-1).innerText`); got != run {
		t.Errorf("%s came while it was paused", got)
	}
	value[bool](live, `document.getElementById("pause").click(), true`)
	live.until(fmt.Sprintf(`[...document.querySelectorAll("#entries li.ended a")].at(-1).innerText !== %q`, run))

	// The run in progress.
	running := tabs[7]
	running.visit(c.base + "/hooks/orders.sh")
	running.says("▶ running")
	id := value[string](running,
		`[...document.querySelectorAll("tr")].find((r) => r.innerText.includes("running")).querySelector("a").innerText`)
	running.visit(c.base + "/runs/" + id)
	running.says("packing")
	began = time.Now()
	s.let("packed")
	running.says("exit status 0")
	running.says("shipped")
	t.Logf("the end of a run is on its page after %d ms", time.Since(began).Milliseconds())
	for _, b := range tabs {
		b.clean(value[string](b, "location.pathname"))
	}
}

// TestOperatorEndsWhileAPageIsOpen: the page keeps what it shows, with its age, and shows the next operator by itself.
func TestOperatorEndsWhileAPageIsOpen(t *testing.T) {
	s := opened(t)
	socket := filepath.Join(t.TempDir(), "s")
	point := func() {
		t.Helper()
		_ = os.Remove(socket)
		if err := os.Symlink(s.Socket, socket); err != nil {
			t.Fatal(err)
		}
	}
	point()
	cmd := s.Command("console", "--no-browser", "/parked")
	cmd.Env = append(os.Environ(), "DEBUG_UNIX_SOCKET="+socket)
	c := show(t, cmd)
	b := browser(t)
	b.signIn(c)
	b.says("the printer is out of paper")
	s.let("packed")
	s.Signal(os.Interrupt)
	s.Wait()
	b.says("No answer from the operator since")
	b.says("the printer is out of paper")
	b.until(`/\([0-9]+ s old\)/.test(document.getElementById("age").innerText)`)
	s.let("printer")
	s.Operator = s.start()
	point()
	s.UntilLog("Hook executed successfully", "hook", "invoices.sh")
	b.says("no parked tasks")
	b.until(`document.getElementById("lost").innerText === ""`)
	b.clean("the restart")

	// The operator hangs, and the console ends.
	s.Signal(syscall.SIGSTOP)
	b.says("No answer from the operator since")
	s.Signal(syscall.SIGCONT)
	b.until(`document.getElementById("lost").innerText === ""`)
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		t.Fatal(err)
	}
	c.address()
}

// TestHostileHook: a hook whose name and output are traps for browsers.
func TestHostileHook(t *testing.T) {
	dir := t.TempDir()
	const name = `<img src=x onerror="document.title='caught'"><b hx-get=x hx-trigger=load hx-on:click="alert(1)">.sh`
	hook := "#!/bin/sh\n[ \"$1\" = --config ] && { echo '{\"configVersion\": \"v1\", \"onStartup\": 1}'; exit; }\n" +
		"printf '<script>document.title=\"caught\"</script><hx-partial hx-target=\"#content\">gone</hx-partial>\\033[31m\\n'\n" +
		"head -c 1048576 /dev/zero | tr '\\0' x\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: testenv.Shared(t).Kubeconfig})
	op.UntilLog("Hook executed successfully")
	c := show(t, op.Command("console", "--no-browser"))
	b := browser(t)
	b.signIn(c)
	b.says("<img src=x")
	value[bool](b, `[...document.querySelectorAll("a")].find((a) => a.innerText.startsWith("<img")).click(), true`)
	b.says("Why")
	value[bool](b, `[...document.querySelectorAll("main a")].find((a) => /^[0-9]+-1$/.test(a.innerText)).click(), true`)
	b.says("xxxxxxxx")
	if title := value[string](b, "document.title"); title == "caught" {
		t.Errorf("title %q", title)
	}
	if n := value[int](b, `document.querySelectorAll("main img, main b, main script, hx-partial").length`); n != 0 {
		t.Errorf("%d elements came from names or output", n)
	}
	b.clean("the run")
	live := b.another()
	live.visit(c.base + "/live")
	live.says("Filter")
	live.clean("live")
}
