package spelling

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"kubernetes", "schedule", "onStartup"}
	for text, want := range map[string]string{
		"kubernets": "kubernetes", "SCHEDUEL": "schedule", "scedule": "schedule", "onstartup": "onStartup",
		"kuberne": "kubernetes", "startups": "onStartup", "ku": "", "x": "", "": "",
	} {
		if got := Nearest(text, names); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
