//go:build browser

// Package browser opens pages in a real browser, for tests with the build tag browser.
//
// A test that calls Open without a browser fails: only make test-browser and make test-site, which name it, run these tests.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// watched collects what a browser reports about a page: violations of the policy, and errors of scripts. A request that gets no answer is
// an error, too, which tests expect.
const watched = `window.problems = [];
addEventListener("securitypolicyviolation", (e) => problems.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
addEventListener("error", (e) => problems.push(String(e.message)));`

// Tab is one of a browser, which ends with the test.
type Tab struct {
	t   testing.TB
	ctx context.Context
}

// Open starts a browser with one tab.
func Open(t testing.TB) *Tab {
	t.Helper()
	path, err := exec.Command(filepath.Join(test.Root(), "scripts", "browser.sh")).Output()
	if err != nil {
		t.Fatal("this needs Chromium or Chrome: install it, for instance with apt-get install chromium, or set BROWSER to its path")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(strings.TrimSpace(string(path))),
		chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chrome refuses root otherwise
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*test.Patience)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	return (&Tab{t, ctx}).Another()
}

// Another is another tab of the same browser.
func (b *Tab) Another() *Tab {
	b.t.Helper()
	ctx, closeTab := chromedp.NewContext(b.ctx)
	b.t.Cleanup(closeTab)
	other := &Tab{b.t, ctx}
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

func (b *Tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// WithoutScripts disables JavaScript of the pages that are visited from now on.
func (b *Tab) WithoutScripts() {
	b.t.Helper()
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
}

// Colours sets the scheme that pages are asked for: light, dark, or empty for the browser's own scheme.
func (b *Tab) Colours(scheme string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{}
	if scheme != "" {
		params.Features = []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	}
	b.do(call(emulation.SetEmulatedMedia, params))
}

// Visit opens an address in a window of 1280 × 720.
func (b *Tab) Visit(address string) { b.t.Helper(); b.VisitIn(1280, 720, address) }

// VisitIn opens an address in a window of another size.
func (b *Tab) VisitIn(width, height int64, address string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
}

// Value evaluates an expression in the page.
func Value[T any](b *Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Exec runs statements in the page.
func (b *Tab) Exec(statements string) {
	b.t.Helper()
	Value[bool](b, "(() => {"+statements+"; return true})()")
}

// polling is how often a page is asked for what a test waits for.
const polling = 20 * time.Millisecond

// Until waits for a change of the page, which may be replaced by another one meanwhile.
func (b *Tab) Until(expression string) {
	b.t.Helper()
	for {
		_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(polling),
			chromedp.WithPollingTimeout(test.Patience)))
		switch {
		case err == nil:
			return
		case !strings.Contains(err.Error(), "context") && !strings.Contains(err.Error(), "navigated"), b.ctx.Err() != nil:
			b.t.Fatalf("waited for %s: %v\n%s", expression, err, b.Text())
		}
	}
}

// Within reports whether an expression is true within a time.
func (b *Tab) Within(limit time.Duration, expression string) bool {
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(polling), chromedp.WithPollingTimeout(limit)))
	return err == nil
}

// Says waits for a text in the page.
func (b *Tab) Says(text string) {
	b.t.Helper()
	b.Until(fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)", text))
}

// Text returns the text of the page. It is there without JavaScript, too.
func (b *Tab) Text() string { b.t.Helper(); return Value[string](b, "document.body?.innerText ?? ''") }

// Keys presses keys one after the other.
func (b *Tab) Keys(keys string) { b.t.Helper(); b.do(chromedp.KeyEvent(keys)) }

// TabTo moves the focus with the key Tab to an element with a text.
func (b *Tab) TabTo(text string) {
	b.t.Helper()
	for range 300 {
		b.Keys("\t")
		if strings.HasPrefix(Value[string](b, "document.activeElement?.innerText ?? ''"), text) {
			return
		}
	}
	b.t.Fatalf("Tab does not reach %q", text)
}

// Clean fails the test if the browser has reported a problem.
func (b *Tab) Clean(what string) {
	b.t.Helper()
	if problems := Value[[]string](b, "problems"); len(problems) > 0 {
		b.t.Errorf("%s: %v", what, problems)
	}
}

// Accessible runs axe-core on the page, light and dark, and checks that it fits at 200 % zoom.
func (b *Tab) Accessible(axe, what string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.Colours(scheme)
		Value[bool](b, axe+"; true")
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
	b.Colours("")
	for _, size := range [][2]int64{{1280, 720}, {640, 360}} { // the latter is 1280 × 720 at 200 %
		b.do(chromedp.EmulateViewport(size[0], size[1]))
		if over := Value[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
			b.t.Errorf("%s: at %d × %d the page is %d pixels too wide", what, size[0], size[1], over)
		}
	}
	b.do(chromedp.EmulateViewport(1280, 720))
}

// Picture writes a picture for the documentation to a path below the root, with -update or if there is none: it contains times.
func (b *Tab) Picture(path string) { b.t.Helper(); b.picture(path, chromedp.FullScreenshot(100)) }

// Screen is Picture of the part of the page that the window shows.
func (b *Tab) Screen(path string) { b.t.Helper(); b.picture(path, chromedp.CaptureScreenshot()) }

func (b *Tab) picture(path string, take chromedp.Action[[]byte]) {
	b.t.Helper()
	path = filepath.Join(test.Root(), path)
	if _, err := os.Stat(path); err == nil && !golden.Update() {
		return
	}
	image, err := chromedp.Run(b.ctx, take)
	if err != nil || len(image) < 10<<10 {
		b.t.Fatalf("no picture: %d bytes, %v", len(image), err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, image, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
