//go:build browser

package site

import (
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/browser"
)

// TestPictures checks that README, as the start page of the site, and a how-to fit a screen and a telephone, in light and in dark, and that
// their pictures are loaded. With -update, it writes what it sees to docs/pictures.
func TestPictures(t *testing.T) {
	b := browser.Open(t)
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
		b.Colours(picture.colours)
		b.VisitIn(picture.width, picture.height, address(picture.page))
		b.Until(`[...document.images].every((i) => i.complete)`)
		if missing := browser.Value[int](b, "[...document.images].filter((i) => i.naturalWidth == 0).length"); missing > 0 {
			t.Errorf("%s: %d images are missing", picture.page, missing)
		}
		if wide := browser.Value[int](b, "document.documentElement.scrollWidth"); wide > int(picture.width) {
			t.Errorf("%s is %d wide on a screen of %d", picture.page, wide, picture.width)
		}
		if picture.name != "" {
			b.Screen(filepath.Join("docs", "pictures", picture.name+".png"))
		}
	}
}
