package hook

import (
	"fmt"
	"slices"
	"testing"
)

func TestBindings(t *testing.T) {
	order := 1
	rules := []Rule{{Resources: []string{"pods", "jobs"}}}
	h := &Hook{
		OnStartup: &order, Schedules: []Schedule{{Binding: Binding{Name: "tick"}, Queue: "q", Crontab: "* * * * *", AllowFailure: true}},
		Kubernetes: []Kubernetes{{Binding: Binding{Name: "a"}, Queue: MainQueue, Kind: "Pod"},
			{Binding: Binding{Name: "b", Group: "g"}, Queue: "q", Kind: "Job"}},
		Validating: []Admission{{Binding: Binding{Name: "v"}, Rules: rules}}, Mutating: []Admission{{Binding: Binding{Name: "m"}, Rules: rules}},
		Conversions: []Conversion{{Binding: Binding{Name: "c"}, CRDName: "things.example.com"}},
		HTTP:        []HTTP{{Binding: Binding{Name: "get"}, Method: "GET", Path: "/x"}},
	}
	var got []string
	for a, b := range h.Bindings() {
		got = append(got, fmt.Sprintln(a.Kind, a.Index, b.Name, b.Group, b.Queue, b.AllowFailure, h.About(a), a.Kind.Caller()))
		b.Name += "!" // Bindings yields the bindings themselves, not copies
	}
	want := []string{
		"onStartup 0 onStartup  main false [] \n",
		"schedule 0 tick  q true [* * * * *] \n",
		"kubernetes 0 a  main false [Pod] \n",
		"kubernetes 1 b g q false [Job] \n",
		"kubernetesValidating 0 v   false [pods jobs] the API server\n",
		"kubernetesMutating 0 m   false [pods jobs] the API server\n",
		"kubernetesCustomResourceConversion 0 c   false [things.example.com] the API server\n",
		"http 0 get   false [GET /x] a client\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if h.HTTP[0].Name != "get!" || h.Schedules[0].Name != "tick!" {
		t.Error("Bindings yields copies")
	}
	for range h.Bindings() {
		break // ends early
	}
}
