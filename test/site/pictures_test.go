//go:build browser

package site

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestPictures checks that README, as the start page of the site, and a how-to fit a screen and a telephone, in light and in dark, and that
// their pictures are loaded. With -update, it writes what it sees to docs/pictures.
func TestPictures(t *testing.T) {
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
	for _, picture := range []struct {
		name, page, colours string
		width, height       int64
	}{
		{"readme", "index.html", "light", 1300, 1500},
		{"readme-dark", "index.html", "dark", 1300, 1500},
		{"site", "how-to/test-hooks.html", "light", 1300, 900},
		{"", "index.html", "light", 390, 800},
		{"", "how-to/install-with-helm.html", "dark", 390, 800},
	} {
		url := "file://" + filepath.Join(testenv.Root(), "bin", "site", "main", picture.page)
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(picture.width, picture.height)); err != nil {
			t.Fatal(err)
		}
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: picture.colours}}}); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
			t.Fatal(err)
		}
		const loaded = `[...document.images].every((i) => i.complete)`
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](loaded, chromedp.WithPollingMutation())); err != nil {
			t.Fatal(err)
		}
		missing, err := chromedp.Run(ctx, chromedp.Evaluate[int]("[...document.images].filter((i) => i.naturalWidth == 0).length"))
		if err != nil || missing > 0 {
			t.Errorf("%s: %d images are missing: %v", picture.page, missing, err)
		}
		wide, err := chromedp.Run(ctx, chromedp.Evaluate[int]("document.documentElement.scrollWidth"))
		if err != nil || wide > int(picture.width) {
			t.Errorf("%s is %d wide on a screen of %d: %v", picture.page, wide, picture.width, err)
		}
		if !golden.Update() || picture.name == "" {
			continue
		}
		data, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(testenv.Root(), "docs", "pictures", fmt.Sprintf("%s.png", picture.name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
