package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestParseResult reads testdata/result.txt: after "# KIND" of a run, blocks of a file and, below dashes, what comes of it. The runs
// contain the object a/b and the cluster-scoped object c.
func TestParseResult(t *testing.T) {
	contains := func(namespace, name string) bool { return namespace+"/"+name == "a/b" || namespace+"/"+name == "/c" }
	rules := map[string]ResultRules{
		"succeeded":         {Contains: contains},
		"failed":            {Failed: true, Contains: contains},
		"a tick":            {},
		"onStartup":         {MessageOnly: "an onStartup run"},
		"onStartup, failed": {MessageOnly: "an onStartup run", Failed: true},
		"deleting":          {Contains: contains, Deleting: func(yield func(string, string) bool) { _ = yield("a", "b") && yield("", "c") }},
		"unlisted":          {Unlisted: "orders", UnlistedDeleting: "orders", Contains: contains},
	}
	golden.Scripts(t, "testdata/result.txt", func(t *testing.T, text string) string {
		var out strings.Builder
		var r ResultRules
		for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
			if i > 0 {
				out.WriteString("\n")
			}
			input, _, _ := strings.Cut(block+"\n", "----\n")
			out.WriteString(input)
			if kind, ok := strings.CutPrefix(strings.TrimSpace(input), "# "); ok {
				if r, ok = rules[kind]; !ok {
					t.Fatalf("there is no run %q", kind)
				}
				continue
			}
			result, err := ParseResult([]byte(unquoted(strings.TrimSpace(input))), r)
			fmt.Fprintf(&out, "----\n%s\n", describeResult(result, err))
		}
		return out.String()
	})
}

func describeResult(r effect.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	var parts []string
	add := func(name string, value any) { parts = append(parts, fmt.Sprintf("%s %v", name, value)) }
	if r.RequeueAfter.Duration > 0 {
		add("RequeueAfter", r.RequeueAfter.Duration)
	}
	for _, q := range r.Requeue {
		add("Requeue", []any{q.Namespace, q.Name, q.After.Duration})
	}
	if r.KeepFinalizer {
		add("KeepFinalizer", true)
	}
	if r.RetryAfter != nil {
		add("RetryAfter", r.RetryAfter.Duration)
	}
	if r.GiveUp != "" {
		add("GiveUp", r.GiveUp)
	}
	if r.Message != "" {
		add("Message", r.Message)
	}
	return strings.Join(append(parts, "accepted"), "; ")
}

// Long texts are cut between characters; long files and lists are rejected.
func TestResultBounds(t *testing.T) {
	text := strings.Repeat("x", effect.MaxMessage-1)
	for message, want := range map[string]string{text + "x": text + "x", text + "xy": text + "x", text + "é": text} {
		r, err := ParseResult(fmt.Appendf(nil, "{message: %q, giveUp: %q}", message, message), ResultRules{Failed: true})
		if err != nil || r.Message != want || r.GiveUp != want {
			t.Errorf("%d bytes become %d: %v", len(message), len(r.Message), err)
		}
	}
	list := "requeue:" + strings.Repeat("\n- {name: c, after: 1m}", 1000)
	everything := ResultRules{Contains: func(string, string) bool { return true }}
	if r, err := ParseResult([]byte(list), everything); err != nil || len(r.Requeue) != 1000 ||
		r.Requeue[0].Name != "c" || r.Requeue[0].After.Duration != time.Minute {
		t.Errorf("%d objects: %v", len(r.Requeue), err)
	}
	for text, want := range map[string]string{
		list + "\n- {name: c, after: 1m}":                     "requeue has 1001 items: list at most 1000, and use requeueAfter for the rest",
		"message: " + strings.Repeat("x", maxResult):          "it has more than 1048576 bytes: write one short mapping",
		"message: a\n---\nmessage: b\n":                       "only the first YAML document is read",
		"message: a\nmessage: b\n":                            "message duplicate key, in lines 1 and 2: the last one counts",
		"a: &a [x, x]\nb: [*a, *a]\nmessage: &m y\n" + "c: 1": "a is an unknown key",
	} {
		if _, err := ParseResult([]byte(text), everything); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
