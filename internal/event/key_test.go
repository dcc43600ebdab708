package event

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

func TestKeyOf(t *testing.T) {
	order := ObjectName{Group: "shop.io", Kind: "Order", Namespace: "eu", Name: "o-1"}
	node := ObjectName{Kind: "Node", Name: "n1"}
	const hash = "sha256:"
	for _, c := range []struct {
		key    hook.Key
		of     ObjectName
		result string
		want   string
	}{
		{key: hook.ByObject, of: order, want: "Order.shop.io/eu/o-1"},
		{key: hook.ByObject, of: node, want: "Node/n1"},
		{key: hook.ByObject, of: ObjectName{Group: "shop.io", Kind: "Region", Name: "eu"}, want: "Region.shop.io/eu"},
		{key: hook.ByObject, of: ObjectName{Kind: "Pod", Namespace: "eu", Name: "p"}, want: "Pod/eu/p"},
		{key: hook.ByNamespace, of: order, want: "eu"},
		{key: hook.ByNamespace, of: node, want: "Node/n1"},
		{key: ".x", of: order, result: `"customer 7"`, want: "customer 7"},
		{key: ".x", of: order, result: `"\u00e9\u2603"`, want: "é☃"},
		{key: ".x", of: order, result: `12.50`, want: "12.50"},
		{key: ".x", of: order, result: `-1e3`, want: "-1e3"},
		{key: ".x", of: order, result: `true`, want: "true"},
		{key: ".x", of: order, result: `false`, want: "false"},
		{key: ".x", of: order, result: ``, want: "Order.shop.io/eu/o-1"}, // the filter has failed
		{key: ".x", of: order, result: `null`, want: "Order.shop.io/eu/o-1"},
		{key: ".x", of: order, result: `""`, want: "Order.shop.io/eu/o-1"},
		{key: ".x", of: order, result: `["a"]`, want: "Order.shop.io/eu/o-1"},
		{key: ".x", of: node, result: `{"a":1}`, want: "Node/n1"},
		{key: ".x", of: order, result: `"` + strings.Repeat("a", 256) + `"`, want: strings.Repeat("a", 256)},
		{key: ".x", of: order, result: `"` + strings.Repeat("a", 257) + `"`,
			want: hash + "e8d95cc2b4bc198c54b40bd214df958afb65f5e73d2c2eafe0593cf5c635c1f0"},
		{key: ".x", of: order, result: `"a\nb"`, want: hash + "7e18f737311b2dc3b2f269dd78396b0351f14fb66efa879f768cb23181883c78"},
		{key: ".x", of: order, result: `"\u007f"`, want: hash + "620bfdaa346b088fb49998d92f19a7eaf6bfc2fb0aee015753966da1028cb731"},
		{key: ".x", of: order, result: `"\u0085"`, want: hash + "f7e0ef1c73a0bb196477a2fa9a5de1d790b0a32c6c8ea20e72e2b7e092bf1985"},
		{key: ".x", of: order, result: `"@hook/tick"`, want: hash + "849b0dae76b3f177109fa285e40b1196bf5e877ba88774999e292b4debd2cab1"},
		{key: ".x", of: order, result: strings.Repeat("1", 257), want: hash + "409339361ec2c199ca6a3b2c1134e268ad96880bf73b3a3ef4184ba18805a206"},
	} {
		if got := KeyOf(c.key, c.of, KeyText([]byte(c.result))); got != c.want {
			t.Errorf("KeyOf(%q, %v, %.40s) is %q, want %q", c.key, c.of, c.result, got, c.want)
		}
	}
}

func TestLaneKey(t *testing.T) {
	h := &hook.Hook{
		Name: "dir/orders.sh", Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "tick"}, Queue: "q"}},
		Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "orders"}}, {Binding: hook.Binding{Name: "stock", Group: "all"}}},
	}
	keyed := hook.Lanes{Key: hook.ByObject, Concurrency: 8}
	for _, c := range []struct {
		event Event
		want  string
	}{
		{Event{Type: Change, Hook: h, Key: "Order/a"}, "Order/a"},
		{Event{Type: Synchronization, Hook: h}, "@dir/orders.sh/orders"},
		{Event{Type: Tick, Hook: h}, "@dir/orders.sh/tick"},
		{Event{Type: Change, Hook: h, Index: 1}, "@dir/orders.sh/all"},
		{Event{Type: Synchronization, Hook: h, Index: 1}, "@dir/orders.sh/all"},
	} {
		if got := c.event.LaneKey(keyed); got != c.want {
			t.Errorf("%v of binding %d: %q, want %q", c.event.Type, c.event.Index, got, c.want)
		}
		if got := c.event.LaneKey(hook.Lanes{}); got != "" {
			t.Errorf("%v in a FIFO queue: %q", c.event.Type, got)
		}
	}
}
