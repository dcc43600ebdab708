package script

import (
	"slices"
	"testing"
)

func TestSources(t *testing.T) {
	for _, test := range []struct {
		name, path, text string
		want             []string
	}{
		{"beside it", "h.sh", `. "$(dirname "$0")/lib.sh"`, []string{"/lib.sh"}},
		{"in a directory", "h.sh", "source ./lib/a.sh\n. lib/b.sh", []string{"./lib/a.sh", "lib/b.sh"}},
		{"a variable", "h", "#!/bin/sh\nif true; then . \"${HERE}/../common\"; fi", []string{"/../common"}},
		{"computed", "h.sh", `for f in *.sh; do . "$f"; done; . "$SHELL_OPERATOR_LIB"`, nil},
		{"other commands", "h.sh", `cat state.json > state.new; echo . lib.sh`, nil},
		{"no script", "h", "\x7fELF", nil},
		{"broken", "h.sh", `. lib.sh "`, nil},
		{"python", "h.py", "import json, helpers.web as w\nfrom lib import names\n    from . import x\nprint('import y')",
			[]string{"json.py", "json/__init__.py", "helpers/web.py", "helpers/web/__init__.py", "lib.py", "lib/__init__.py", "lib/names.py",
				"lib/names/__init__.py", "x.py", "x/__init__.py"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Sources(Source{Path: test.path, Text: []byte(test.text)}); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
