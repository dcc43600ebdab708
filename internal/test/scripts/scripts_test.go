package scripts

import (
	"strings"
	"testing"
)

func TestHead(t *testing.T) {
	for _, test := range []struct{ text, reason, err string }{
		{"# A comment.\noperator\n", "", ""},
		{"# A comment.\n# Its end.\nneeds webhooks: objects are reviewed\noperator\n", "webhooks: objects are reviewed", ""},
		{"needs kubectl: describe\n-- file --\nskip\n", "kubectl: describe", ""},
		{"-- file --\nskip\n", "", ""},
		{"# A comment.\nneeds webhooks\n", "", "is not TOPIC: REASON"},
		{"# A comment.\nneeds webhooks:\n", "", "is not TOPIC: REASON"},
		{"# A comment.\nneeds time: none is left\n", "", "is not TOPIC: REASON"},
		{"operator\nneeds webhooks: objects are reviewed\n", "", "leaves a script out, and nothing else"},
		{"# A comment.\nskip\n", "", "leaves a script out"},
		{"operator\n[memory] skip 'webhooks'\n", "", "leaves a script out"},
		{"operator\n[unix] [memory] stop\n", "", "leaves a script out"},
		{"operator\nstop\nlog more", "", "leaves a script out"},
	} {
		reason, err := head(test.text)
		if err != nil && (test.err == "" || !strings.Contains(err.Error(), test.err)) || err == nil && (reason != test.reason || test.err != "") {
			t.Errorf("%q: %q, %v", test.text, reason, err)
		}
	}
}
