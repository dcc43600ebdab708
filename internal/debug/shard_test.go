package debug

import (
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

func TestShardText(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	one := 1
	for _, test := range []struct {
		status ShardStatus
		want   string
	}{
		{ShardStatus{Shard: &one, Shards: 3, Division: "1a2b3c4d", Serving: true, Since: now.Add(-time.Minute)},
			"shard 1/3 of division 1a2b3c4d, for 60s"},
		{ShardStatus{Shard: &one, Shards: 2, Division: "1a2b3c4d", Waits: "the end of 15s, because its Lease is new",
			Since:   now.Add(-time.Second),
			Holders: []string{"operator-1", ""}},
			"shard 1/2 of division 1a2b3c4d, waits for the end of 15s, because its Lease is new, for 1s; owners of shards: 0 operator-1, 1 none"},
		{ShardStatus{Shards: 2, Division: "1a2b3c4d", Waits: "a Lease that is free", Since: now, Holders: []string{"operator-1", "operator-2"}},
			"standby of division 1a2b3c4d, waits for a Lease that is free, for 0s; owners of shards: 0 operator-1, 1 operator-2"},
	} {
		if got := test.status.Text(now); got != test.want {
			t.Errorf("got\n%s\nwant\n%s", got, test.want)
		}
	}
}

// Commands act on one replica: with shards, answers and errors of what may be on another one name it.
func TestCommandsOfShards(t *testing.T) {
	one := 1
	for text, s := range map[string]*ShardStatus{"": nil, "this replica is a standby of 2 shards": {Shards: 2},
		"this replica has shard 1/2": {Shard: &one, Shards: 2}} {
		f := theOperator()
		f.hooks = append(f.hooks, &hook.Hook{Name: "other.sh", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "b"}, Kind: "Order"}}})
		f.bindings["other.sh"] = []watch.State{{Objects: objects{{}}, Complete: true, Unlocked: true}}
		f.sights = map[string]Sight{"other.sh 0 eu/foreign": {Elsewhere: "it belongs to shard 0/2"},
			"other.sh 0 eu/seen": {ObjectBinding: ObjectBinding{Sees: true}, Elsewhere: "it belongs to shard 0/2"}}
		api := operate(f).api()
		api.o.Shard = func() *ShardStatus { return s }
		for _, c := range []struct{ method, path, has string }{
			{"POST", "/hook/shop%2Fwatch.sh/pause", "; " + text},
			{"POST", "/queue/none/retry", text + ", kubectl exec in another Pod asks another one"},
			{"POST", "/finalizers/remove", ""},
			{"GET", "/object/Order/eu/foreign", "does not see it: it belongs to shard 0/2: why --object in its Pod"},
			{"GET", "/object/Order/eu/seen", "sees it: it belongs to shard 0/2: why"},
		} {
			body := ask(fromSocket(api), c.method, c.path, nil).Body.String()
			if c.has == "" && strings.Contains(body, "this replica") {
				t.Errorf("%s: %s", c.path, body)
			}
			if s != nil && !strings.Contains(body, c.has) || s == nil && strings.Contains(body, "this replica") {
				t.Errorf("%s with %q: %s", c.path, text, body)
			}
		}
	}
}
