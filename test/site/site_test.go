//go:build browser

// Package site reads the site that make site builds, in a real browser and from the disk: without a server.
package site

import (
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/browser"
)

// address returns the URL of a page of the newest version.
func address(page string) string {
	return "file://" + filepath.Join(test.Root(), "bin", "site", "main", page)
}

// TestSite searches, and goes to a result and to the page after it. Which addresses pages request is checked by make site.
func TestSite(t *testing.T) {
	b := browser.Open(t)
	follow := func(selector string) {
		t.Helper()
		b.VisitIn(1300, 900, browser.Value[string](b, `document.querySelector("`+selector+`").href`))
	}
	b.VisitIn(1300, 900, address("index.html"))
	b.Until(`document.querySelector("h1")?.innerText === "shell-operator"`)
	b.Exec(`window.box = document.querySelector(".nav-container .search-input"); box.focus()`)
	for _, search := range []struct{ query, page string }{
		{"limit how often", "limit-and-retry-runs.html"}, {"kopf", "comparison.html"}, {"throttle", "limit-and-retry-runs.html"},
		{"debounce", "limit-and-retry-runs.html"}, {"argo cd", "install-with-helm.html"}, {"several teams", "install-with-helm.html"},
		{"faq", "faq.html"}, {"SHELL_OPERATOR_HOOKS_DIR", "command-line.html"},
	} {
		b.Exec(`box.value = "` + search.query + `"; box.dispatchEvent(new Event("input"))`)
		b.Until(`[...document.querySelectorAll(".nav-container .search-results a")].slice(0, 5)` +
			`.some((a) => a.href.includes("` + search.page + `"))`)
	}
	b.Picture(filepath.Join("bin", "site.png"))
	follow(".nav-container .search-results a[href*=command-line]")
	b.Until(`document.querySelector("h1").innerText === "Command line"`)
	follow("main > div:last-of-type > a:last-of-type") // the next page
	b.Until(`document.querySelector("h1").innerText === "Images"`)
	follow(".versions a")
	b.Until(`location.pathname.endsWith("/main/reference/image.html")`)
}
