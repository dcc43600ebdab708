package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"jqfilter", "jqFilter", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {"queue", "queues", 1},
	} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("from %q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
