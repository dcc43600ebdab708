//go:build browser

package insight

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// picture is the page in the documentation. It is only taken again with -update, because it contains times.
const picture = "../../docs/reference/status-page.png"

// browser returns a tab of a real browser. Without one the test fails: who asks for it wants to see it.
func browser(t *testing.T) context.Context {
	t.Helper()
	options := chromedp.DefaultExecAllocatorOptions[:]
	path := os.Getenv("BROWSER")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Fatal("this needs Chromium or Chrome: install it, for instance with apt-get install chromium, or set BROWSER to its path")
	}
	options = append(options, chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chrome refuses root otherwise
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.Patience)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	return ctx
}

func page(op *testenv.Operator) string {
	r := op.UntilLog("base http server started")
	return "http://" + net.JoinHostPort(r.Fields["address"], r.Fields["port"]) + "/"
}

// value evaluates an expression in the page.
func value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for a change of the page.
func until(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingMutation())); err != nil {
		t.Fatalf("waited for %s: %v\n%s", expression, err, value[string](t, ctx, "document.body.innerText"))
	}
}

func visit(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
}

func TestStatusPage(t *testing.T) {
	op, namespace := started(t)
	ctx := browser(t)
	visit(t, ctx, page(op))
	until(t, ctx, `document.getElementById("live").innerText.startsWith("live")`)
	if got := value[string](t, ctx, `getComputedStyle(document.body).maxWidth`); got != "1200px" {
		t.Errorf("the style sheet does not count: %s", got)
	}
	text := value[string](t, ctx, "document.body.innerText")
	for _, want := range []string{"Shell operator", "a-stuck.sh · kubernetes · namespaces", "insight.example.com/v1", "0 3 1 1 *",
		"exit status 3", "shop/ok.sh", "shell-operator runs show RUN"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, never := range []string{"disk is full", "secret-value", "prices have changed"} {
		if strings.Contains(text, never) {
			t.Errorf("%q is on the page", never)
		}
	}
	image, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil || len(image) < 10<<10 {
		t.Fatalf("no screenshot: %d bytes, %v", len(image), err)
	}
	if _, err := os.Stat(picture); golden.Update() || err != nil {
		if err := os.WriteFile(picture, image, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	// It follows what happens.
	const objects = `[...document.querySelectorAll("tbody")].find(b => b.innerText.includes("shop/ok.sh") && ` +
		`b.innerText.includes("prices")).querySelector(".number").innerText`
	if got := value[string](t, ctx, objects); got != "1" {
		t.Errorf("%s objects", got)
	}
	testenv.Shared(t).Kubectl(t, "delete", "configmap", "prices", "-n", namespace)
	until(t, ctx, objects+` === "0"`)

	// A hidden page sends no requests.
	value[bool](t, ctx, `(() => { Object.defineProperty(document, "hidden", { value: true, configurable: true }); `+
		`document.dispatchEvent(new Event("visibilitychange")); return true })()`)
	until(t, ctx, `document.getElementById("live").innerText === "paused"`)
	value[bool](t, ctx,
		`(() => { Object.defineProperty(document, "hidden", { value: false }); document.dispatchEvent(new Event("visibilitychange")); `+
			`return true })()`)
	until(t, ctx, `document.getElementById("live").innerText.startsWith("live")`)
}

// The operator ends while the page is open.
func TestStatusPageAfterOperatorEnds(t *testing.T) {
	op, _ := started(t)
	ctx := browser(t)
	visit(t, ctx, page(op))
	until(t, ctx, `document.getElementById("live").innerText.startsWith("live")`)
	op.Signal(os.Interrupt)
	op.Wait()
	until(t, ctx, `document.getElementById("live").innerText.startsWith("no answer from the operator since")`)
	if text := value[string](t, ctx, "document.body.innerText"); !strings.Contains(text, "a-stuck.sh") {
		t.Error("the last content is no longer shown")
	}
}

func TestStatusPageWithoutJavaScript(t *testing.T) {
	op, _ := started(t)
	ctx := browser(t)
	disable := chromedp.Action[chromedp.Void](func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return chromedp.Void{}, err
	})
	if err := chromedp.Do(ctx, disable, chromedp.Navigate(page(op))); err != nil {
		t.Fatal(err)
	}
	text, err := chromedp.Run(ctx, chromedp.Text("body"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"as of 20", "a-stuck.sh", "exit status 3", "hook metrics"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// A hook whose name is a trap for browsers.
func TestStatusPageEscapes(t *testing.T) {
	dir := t.TempDir()
	const name = `<img src=x onerror="document.title='caught'"><script>document.title='caught'<!--.sh`
	hook := "#!/bin/sh\n[ \"$1\" = --config ] && echo '{\"configVersion\": \"v1\", \"schedule\": [{\"name\": \"<b>bold</b>\", " +
		"\"crontab\": \"0 3 1 1 *\"}]}'\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: testenv.Shared(t).Kubeconfig})
	op.UntilLog("Schedule binding for hook enabled successfully")
	ctx := browser(t)
	visit(t, ctx, page(op))
	until(t, ctx, `document.getElementById("live").innerText.startsWith("live")`) // it has been replaced once
	if title := value[string](t, ctx, "document.title"); title != "Shell operator" {
		t.Errorf("title %q", title)
	}
	if n := value[int](t, ctx, `document.querySelectorAll("img, b, main script").length`); n != 0 {
		t.Errorf("%d elements came from names", n)
	}
	if text := value[string](t, ctx, "document.body.innerText"); !strings.Contains(text, name) || !strings.Contains(text, "<b>bold</b>") {
		t.Errorf("the names are not there: %s", text)
	}
}
