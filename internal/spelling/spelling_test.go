package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"jqfilter", "jqFilter", 1}, {"kitten", "sitting", 3}, {"queue", "queues", 1},
		{"pid", "pod", 1}, {"ab", "ba", 1}, {"deploymnet", "deployment", 1}, {"opd", "pod", 1}, {"abc", "cab", 2}, {"node", "pod", 2},
	} {
		if got := Distance(test.a, test.b); got != test.want {
			t.Errorf("from %q to %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"kubernetes", "schedule", "onStartup"}
	for text, want := range map[string]string{
		"kubernets": "kubernetes", "SCHEDUEL": "schedule", "onstartup": "onStartup", "kuberne": "", "x": "", "": "",
	} {
		if got := Nearest(text, names); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
