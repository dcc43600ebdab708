package hook

import (
	"testing"
	"time"
)

func TestPolicy(t *testing.T) {
	const s = time.Second
	d := func(d time.Duration) *time.Duration { return &d }
	n := func(n int) *int { return &n }
	const operatorMin, operatorMax = 5 * s, 32 * s
	for _, c := range []struct {
		name              string
		settings, binding *Retry
		allowFailure      bool
		want              Policy
	}{
		{name: "none", want: Policy{MinDelay: 5 * s, MaxDelay: 32 * s, Exhausted: Park}},
		{name: "none, may fail", allowFailure: true, want: Policy{MinDelay: 5 * s, MaxDelay: 32 * s, Limit: 1, Exhausted: Drop}},
		{name: "empty", binding: &Retry{}, want: Policy{true, 5 * s, 32 * s, 0, Park}},
		{name: "min above the operator's max", binding: &Retry{MinDelay: d(60 * s)}, want: Policy{true, 60 * s, 60 * s, 0, Park}},
		{name: "max below the operator's min", binding: &Retry{MaxDelay: d(s)}, want: Policy{true, s, s, 0, Park}},
		{name: "of the hook", settings: &Retry{d(s), d(300 * s), n(10), Drop}, want: Policy{true, s, 300 * s, 10, Drop}},
		{name: "one field overrides", settings: &Retry{d(s), d(300 * s), n(10), Drop}, binding: &Retry{Limit: n(3)},
			want: Policy{true, s, 300 * s, 3, Drop}},
		{name: "all fields override", settings: &Retry{d(s), d(300 * s), n(10), Drop}, binding: &Retry{d(2 * s), d(3 * s), n(0), Park},
			want: Policy{true, 2 * s, 3 * s, 0, Park}},
		{name: "of the hook, may fail", settings: &Retry{MinDelay: d(s), Limit: n(10), Exhausted: Park}, allowFailure: true,
			want: Policy{true, s, 32 * s, 1, Drop}},
	} {
		h := &Hook{Settings: Settings{Retry: c.settings}, OnStartup: n(1),
			Kubernetes: []Kubernetes{{Retry: c.binding, AllowFailure: c.allowFailure}},
			Schedules:  []Schedule{{Retry: c.binding, AllowFailure: c.allowFailure}}}
		for _, kind := range []Kind{OnKubernetes, OnSchedule} {
			if got := h.Policy(Address{Kind: kind}, operatorMin, operatorMax); got != c.want {
				t.Errorf("%s, %s: %+v, want %+v", c.name, kind, got, c.want)
			}
		}
		startup := h.Policy(Address{Kind: OnStart}, operatorMin, operatorMax)
		if startup.Limit != 0 || startup.Exhausted != Park || c.settings != nil && startup.MinDelay != c.want.MinDelay && c.binding == nil {
			t.Errorf("%s: onStartup has %+v", c.name, startup)
		}
	}
}

func TestLanesOf(t *testing.T) {
	byObject := Lanes{Key: ByObject, Concurrency: 8}
	keyed := LanesOf([]*Hook{
		{Kubernetes: []Kubernetes{{Queue: MainQueue}, {Queue: "orders", Lanes: byObject}}},
		{Kubernetes: []Kubernetes{{Queue: "orders", Lanes: byObject}, {Queue: "plain"}}},
	})
	if len(keyed) != 1 || keyed["orders"] != byObject {
		t.Errorf("got %v", keyed)
	}
	if Key(".spec").Filter() != ".spec" || ByObject.Filter()+ByNamespace.Filter()+Key("").Filter() != "" {
		t.Error("only a jq key has a filter")
	}
}
