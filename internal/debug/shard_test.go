package debug

import (
	"testing"
	"time"
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
