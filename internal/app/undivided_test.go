package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// Shards that divide nothing are reported once.
func TestShardsThatDivideNothing(t *testing.T) {
	divided := []*hook.Hook{{Name: "a"}, {Name: "b", Settings: hook.Settings{ShardBy: shard.ByObject}}}
	for _, test := range []struct {
		name  string
		count int
		hooks []*hook.Hook
		want  int
	}{{"none", 3, divided[:1], 1}, {"one", 3, divided, 0}, {"no hooks", 3, nil, 0}, {"no shards", 0, divided[:1], 0}} {
		var log bytes.Buffer
		s := newShards(test.count, nil, slog.New(slog.NewTextHandler(&log, nil)))
		for range 2 {
			s.warnOfNoShards(test.hooks)
		}
		if n := strings.Count(log.String(), "--shards divides nothing"); n != test.want {
			t.Errorf("%s: %d warnings", test.name, n)
		}
	}
}
