//go:build browser

package insight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/browser"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestStatusPage(t *testing.T) {
	op, namespace := started(t)
	b := browser.Open(t)
	b.VisitIn(1200, 900, op.Address())
	b.Until(`document.getElementById("live").innerText.startsWith("live")`)
	if got := browser.Value[string](b, `getComputedStyle(document.body).maxWidth`); got != "1200px" {
		t.Errorf("the style sheet does not count: %s", got)
	}
	text := b.Text()
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
	b.Picture(filepath.Join("docs", "reference", "status-page.png"))

	// It follows what happens.
	const objects = `[...document.querySelectorAll("tbody tr")].find(b => b.innerText.includes("shop/ok.sh") && ` +
		`b.innerText.includes("prices")).querySelector(".number").innerText`
	if got := browser.Value[string](b, objects); got != "1" {
		t.Errorf("%s objects", got)
	}
	testenv.Shared(t).Kubectl(t, "delete", "configmap", "prices", "-n", namespace)
	b.Until(objects + ` === "0"`)

	// A hidden page sends no requests.
	b.Exec(`Object.defineProperty(document, "hidden", { value: true, configurable: true }); ` +
		`document.dispatchEvent(new Event("visibilitychange"))`)
	b.Until(`document.getElementById("live").innerText === "paused"`)
	b.Exec(`Object.defineProperty(document, "hidden", { value: false }); document.dispatchEvent(new Event("visibilitychange"))`)
	b.Until(`document.getElementById("live").innerText.startsWith("live")`)
}

// The operator ends while the page is open.
func TestStatusPageAfterOperatorEnds(t *testing.T) {
	op, _ := started(t)
	b := browser.Open(t)
	b.VisitIn(1200, 900, op.Address())
	b.Until(`document.getElementById("live").innerText.startsWith("live")`)
	op.Signal(os.Interrupt)
	op.Wait()
	b.Until(`document.getElementById("live").innerText.startsWith("no answer from the operator since")`)
	if text := b.Text(); !strings.Contains(text, "a-stuck.sh") {
		t.Error("the last content is no longer shown")
	}
}

func TestStatusPageWithoutJavaScript(t *testing.T) {
	op, _ := started(t)
	b := browser.Open(t)
	b.WithoutScripts()
	b.VisitIn(1200, 900, op.Address())
	text := b.Text()
	for _, want := range []string{"as of 20", "a-stuck.sh", "exit status 3", "hook metrics"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
