package apply

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// A divided hook syncs the sets of its own shard; requests sync all, and their sets are restored by their own shard.
func TestSetsOfShards(t *testing.T) {
	const uid = "8f3c1e7e-5d6b-4c1a-9a51-0a7f3d1c2b4e"
	shardOf := func(by shard.By, uid, namespace string) (own, other shard.Shard) {
		for i := range 3 {
			if s := (shard.Shard{Index: i, Count: 3}); s.Part(by).Has(uid, namespace) {
				own = s
			} else {
				other = s
			}
		}
		return own, other
	}
	ownUID, otherUID := shardOf(shard.ByObject, uid, "")
	ownNS, otherNS := shardOf(shard.ByNamespace, "", "team-1")
	ownAll, otherAll := shardOf(shard.ByNamespace, "", "")
	first, second, waits := shard.Shard{Count: 3}, shard.Shard{Index: 1, Count: 3}, shard.Shard{Index: shard.Waiting, Count: 3}
	inNS := &effect.Owner{APIVersion: "v1", Kind: "ConfigMap", Namespace: "team-1", Name: "a"}
	withUID := &effect.Owner{APIVersion: "v1", Kind: "ConfigMap", Namespace: "team-1", Name: "a", UID: uid}
	known := func(group, kind, _, name string) (string, int64) {
		if group == "" && kind == "ConfigMap" && name == "a" {
			return uid, 1
		}
		return "", 0
	}
	for _, test := range []struct {
		name     string
		shard    shard.Shard
		by       shard.By
		owner    *effect.Owner
		identify func(group, kind, namespace, name string) (string, int64)
		problem  string
	}{
		{"no shards", shard.Shard{}, shard.ByObject, nil, nil, ""},
		{"not divided", first, shard.None, nil, nil, ""},
		{"not divided, request", second, shard.None, nil, nil, "belong to shard 0"},
		{"no owner", first, shard.ByNamespace, nil, nil, "it has no owner, and settings.shardBy is namespace"},
		{"own namespace", ownNS, shard.ByNamespace, inNS, nil, ""},
		{"foreign namespace", otherNS, shard.ByNamespace, inNS, nil, "its owner ConfigMap/a belongs to another shard"},
		{"own Namespace", ownNS, shard.ByNamespace, &effect.Owner{APIVersion: "v1", Kind: "Namespace", Name: "team-1"}, nil, ""},
		{"foreign Namespace", otherNS, shard.ByNamespace, &effect.Owner{APIVersion: "v1", Kind: "Namespace", Name: "team-1"}, nil,
			"another shard"},
		{"own cluster-scoped", ownAll, shard.ByNamespace, &effect.Owner{APIVersion: "v1", Kind: "Node", Name: "team-1"}, nil, ""},
		{"foreign cluster-scoped", otherAll, shard.ByNamespace, &effect.Owner{APIVersion: "v1", Kind: "Node", Name: "a"}, nil, "another shard"},
		{"own uid", ownUID, shard.ByObject, withUID, nil, ""},
		{"own uid of contexts", ownUID, shard.ByObject, inNS, known, ""},
		{"foreign uid", otherUID, shard.ByObject, withUID, nil, "another shard"},
		{"foreign uid of contexts", otherUID, shard.ByObject, inNS, known, "another shard"},
		{"unknown uid", ownUID, shard.ByObject, inNS, nil, "write owner.uid"},
		{"standby", waits, shard.ByNamespace, inNS, nil, "has no shard"},
	} {
		h := &hook.Hook{Name: "h", Settings: hook.Settings{ShardBy: test.by}}
		for _, isRequest := range []bool{false, true} {
			set := &effect.ObjectSet{Name: "s", Owner: test.owner, Restore: true}
			err := checkShard(test.shard, h, []effect.Patch{{}, {Set: set}}, isRequest, test.identify)
			switch {
			case isRequest && (err != nil || set.Restore != (test.problem == "")):
				t.Errorf("%s: a request gets %v, restored %t", test.name, err, set.Restore)
			case isRequest:
			case test.problem == "" && err != nil, test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
				t.Errorf("%s: got %v, want %q", test.name, err, test.problem)
			}
		}
	}
}
