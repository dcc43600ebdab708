package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// What was taken for a value of a label, and the like, is an error that can be read. What real hooks write is not.
func TestMetricSizes(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	labels := func(n int) string {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, `,"l%d":"v"`, i)
		}
		return b.String()[1:]
	}
	for _, test := range []struct{ name, file, want string }{
		{"a value of 10 MB", `{"name":"a","set":1}` + "\n" + `{"name":"m","set":1,"labels":{"l":"` + text(10_000_000) + `"}}`,
			`operation 2 ("m"), labels.l is 10000000 bytes long, more than 65536`},
		{"a long value", `{"name":"m","set":1,"labels":{"l":"` + text(64<<10) + `"}}`, ""},
		{"a name of 1 MB", `{"name":"` + text(1_000_000) + `","set":1}`, `name is 1000000 bytes long, more than 1024`},
		{"a label's name of 1 MB", `{"name":"m","set":1,"labels":{"` + text(1_000_000) + `":"v"}}`,
			`a name in labels is 1000000 bytes long, more than 1024`},
		{"a wrong label's name of 1 MB", `{"name":"m","set":1,"labels":{"-` + text(1_000_000) + `":"v"}}`, `labels must not have the name "-xxx`},
		{"an action of 1 MB", `{"name":"m","action":"` + text(1_000_000) + `","value":1}`, ""},
		{"a number of 1 MB", `{"name":"m","set":1` + strings.Repeat("0", 1_000_000) + `}`, "set is too large"},
		{"a group of 1 MB", `{"name":"m","set":1,"group":"` + text(1_000_000) + `"}`, `group is 1000000 bytes long`},
		{"256 labels", `{"name":"m","set":1,"labels":{` + labels(256) + `}}`, ""},
		{"20,000 labels", `{"name":"m","set":1,"labels":{` + labels(20_000) + `}}`, `operation 1 ("m"), labels are 20000, more than 256`},
		{"20,000 buckets", `{"name":"m","action":"observe","value":1,"buckets":[1` + strings.Repeat(",1", 19_999) + `]}`,
			`buckets are 20000, more than 1000`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, warnings, err := ParseMetrics([]byte(test.file))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if (err != nil) != (test.want != "") || !strings.Contains(got, test.want) || len(got) > 3000 {
				t.Errorf("got %d bytes: %.300s", len(got), got)
			}
			for _, w := range warnings {
				if len(w.String()) > 1000 {
					t.Errorf("a warning of %d bytes", len(w.String()))
				}
			}
		})
	}
}
