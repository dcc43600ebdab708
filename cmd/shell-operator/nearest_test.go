package main

import "testing"

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"jqfilter", "jqFilter", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {"queue", "queues", 1},
	} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("from %q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
