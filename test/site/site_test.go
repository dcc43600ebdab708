//go:build browser

// Package site reads the site that make site builds, in a real browser and from the disk: without a server.
package site

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestSite searches, and goes to a result and to the page after it. Which addresses pages request is checked by make site.
func TestSite(t *testing.T) {
	path, err := exec.Command(filepath.Join(testenv.Root(), "scripts", "browser.sh")).Output()
	if err != nil {
		t.Fatal("this needs Chromium or Chrome: install it, for instance with apt-get install chromium, or set BROWSER to its path")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(strings.TrimSpace(string(path))),
		chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chrome refuses root otherwise
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.Patience)
	defer cancel()
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	defer end()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	do := func(expression string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("(() => {"+expression+"; return true})()")); err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
	}
	until := func(expression string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingMutation())); err != nil {
			t.Fatalf("waited for %s: %v", expression, err)
		}
	}
	first := "file://" + filepath.Join(testenv.Root(), "bin", "site", "main", "index.html")
	visit := func(url string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(1300, 900), chromedp.Navigate(url)); err != nil {
			t.Fatal(err)
		}
	}
	href := func(selector string) string {
		t.Helper()
		url, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("`+selector+`").href`))
		if err != nil {
			t.Fatal(err)
		}
		return url
	}
	visit(first)
	until(`document.querySelector("h1")?.innerText === "shell-operator"`)
	do(`window.box = document.querySelector(".nav-container .search-input"); box.focus()`)
	for _, search := range []struct{ query, page string }{
		{"limit how often", "limit-and-retry-runs.html"}, {"kopf", "comparison.html"}, {"throttle", "limit-and-retry-runs.html"},
		{"debounce", "limit-and-retry-runs.html"}, {"argo cd", "install-with-helm.html"}, {"several teams", "install-with-helm.html"},
		{"faq", "faq.html"}, {"SHELL_OPERATOR_HOOKS_DIR", "command-line.html"},
	} {
		do(`box.value = "` + search.query + `"; box.dispatchEvent(new Event("input"))`)
		until(`[...document.querySelectorAll(".nav-container .search-results a")].slice(0, 5)` +
			`.some((a) => a.href.includes("` + search.page + `"))`)
	}
	if golden.Update() {
		picture(t, ctx)
	}
	visit(href(".nav-container .search-results a[href*=command-line]"))
	until(`document.querySelector("h1").innerText === "Command line"`)
	visit(href("main > div:last-of-type > a:last-of-type")) // the next page
	until(`document.querySelector("h1").innerText === "Images"`)
	visit(href(".versions a"))
	until(`location.pathname.endsWith("/main/reference/image.html")`)
}

func picture(t *testing.T, ctx context.Context) {
	t.Helper()
	data, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(testenv.Root(), "bin", "site.png"), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
