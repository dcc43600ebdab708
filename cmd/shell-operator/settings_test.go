package main

import "testing"

// maxSettings falls. Before it rises, look for two settings that bound one thing, and for one without a documented situation in which a
// person changes it: it is a constant.
const maxSettings = 87

func TestNumberOfSettings(t *testing.T) {
	if n := len(newSettings(nil).list); n > maxSettings {
		t.Errorf("there are %d settings: at most %d", n, maxSettings)
	}
}
