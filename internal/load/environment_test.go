package load

import (
	"slices"
	"strings"
	"testing"
)

func TestInherited(t *testing.T) {
	const all = "PATH=/bin APP_ONE=1 APP_TOKEN=s OTHER_TOKEN=s EMPTY= URL=a=b KUBECONFIG=/k"
	for _, test := range []struct{ patterns, want string }{
		{"", all},
		{"URL", "PATH=/bin URL=a=b KUBECONFIG=/k"},
		{"APP_* EMPTY", "PATH=/bin APP_ONE=1 APP_TOKEN=s EMPTY= KUBECONFIG=/k"},
		{"APP_* !*_TOKEN", "PATH=/bin APP_ONE=1 KUBECONFIG=/k"},
		{"!*_TOKEN APP_*", "PATH=/bin APP_ONE=1 APP_TOKEN=s KUBECONFIG=/k"},
		{"!*_TOKEN", "PATH=/bin APP_ONE=1 EMPTY= URL=a=b KUBECONFIG=/k"},
		{"* !KUBECONFIG", "PATH=/bin APP_ONE=1 APP_TOKEN=s OTHER_TOKEN=s EMPTY= URL=a=b"},
		{"NO_SUCH", "PATH=/bin KUBECONFIG=/k"},
	} {
		got := Inherited(strings.Fields(all), strings.Fields(test.patterns))
		if !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%q leaves %q, not %q", test.patterns, got, test.want)
		}
	}
}
