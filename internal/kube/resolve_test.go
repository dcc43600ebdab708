package kube

import "testing"

func TestOneEdit(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"podd", "pod", true}, {"pd", "pod", true}, {"pid", "pod", true}, {"deploymnet", "deployment", true}, {"opd", "pod", true},
		{"pod", "pod", false}, {"node", "pod", false}, {"", "a", true}, {"", "", false}, {"ab", "ba", true}, {"abc", "cab", false}, {"a", "", true},
	} {
		if got := OneEdit(test.a, test.b); got != test.want {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
}
