package patch

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
)

func TestConditionPatch(t *testing.T) {
	now := time.Date(2024, 5, 6, 7, 8, 9, 0, time.FixedZone("", 3600))
	ready := effect.Condition{Type: "Ready", Status: "True", Reason: "Done", Message: "m"}
	const head = `{"metadata": {"uid": "u", "resourceVersion": "5", "generation": 3}`
	const tests = `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/resourceVersion","value":"5"},`
	const fresh = `{"type":"Ready","status":"True","observedGeneration":3,"lastTransitionTime":"2024-05-06T06:08:09Z","reason":"Done",` +
		`"message":"m"}`
	for name, c := range map[string]struct{ object, want string }{
		"no status": {head + `}`, tests + `{"op":"add","path":"/status","value":{"conditions":[` + fresh + `]}}]`},
		"no conditions": {head + `, "status": {"conditions": null}}`, tests + `{"op":"add","path":"/status/conditions","value":[` +
			fresh + `]}]`},
		"another one": {
			head + `, "status": {"conditions": [{"type": "Paid", "status": "True"}]}}`,
			tests + `{"op":"add","path":"/status/conditions/-","value":` + fresh + `}]`,
		},
		"another status": {
			head + `, "status": {"conditions": [{"type": "Paid"}, {"type": "Ready", "status": "False", ` +
				`"lastTransitionTime": "2020-01-01T00:00:00Z"}]}}`,
			tests + `{"op":"replace","path":"/status/conditions/1","value":` + fresh + `}]`,
		},
		"another message": {
			head + `, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Done", ` +
				`"lastTransitionTime": "2020-01-01T00:00:00Z"}]}}`,
			tests + `{"op":"replace","path":"/status/conditions/0","value":{"type":"Ready","status":"True","observedGeneration":3,` +
				`"lastTransitionTime":"2020-01-01T00:00:00Z","reason":"Done","message":"m"}}]`,
		},
		"all but the time is equal": {
			head + `, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "m", "observedGeneration": 3,
				"lastTransitionTime": "2020-01-01T00:00:00Z"}]}}`, "",
		},
	} {
		var live conditioned
		if err := json.Unmarshal([]byte(c.object), &live); err != nil {
			t.Fatal(err)
		}
		want := ready
		want.ObservedGeneration = live.observed("", 0, effect.Known{})
		got, err := live.patch(want, now)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.want)
		}
	}
}

// The generation that a hook has seen is that of its context, and behind it changes by the hook only.
func TestObservedGeneration(t *testing.T) {
	live := conditioned{}
	live.Metadata.UID, live.Metadata.Generation, live.Metadata.ResourceVersion = "u", 4, "9"
	for _, row := range []struct {
		name, uid string
		inContext int64
		own       effect.Known
		want      int64
	}{
		{"the object is in no context", "", 0, effect.Known{}, 4},
		{"in a context", "u", 2, effect.Known{}, 2},
		{"the context has another object of the name", "old", 58, effect.Known{}, 4},
		{"own changes since", "u", 2, effect.Known{Version: "9", Generation: 2}, 4},
		{"own changes since an earlier run", "u", 3, effect.Known{Version: "9", Generation: 2}, 4},
		{"changes of others before", "u", 1, effect.Known{Version: "9", Generation: 2}, 1},
		{"changes of others since", "u", 2, effect.Known{Version: "8", Generation: 2}, 2},
		{"the binding lacks the object", "u", 2, effect.Known{Version: "9"}, 2},
	} {
		if got := live.observed(row.uid, row.inContext, row.own); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
}
