package stream

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/shard"
)

// A foreign object costs a look at its metadata, and no memory.
func TestForeignObjectsCostNoMemory(t *testing.T) {
	raw := []byte(sampleObject)
	own, foreign := -1, -1
	for i := range 3 {
		if (shard.Shard{Index: i, Count: 3}).Part(shard.ByObject).Has("8f3c1e7e-5d6b-4c1a-9a51-0a7f3d1c2b4e", "") {
			own = i
		} else {
			foreign = i
		}
	}
	x := newIndexer(false)
	x.part = Part{shard.Shard{Index: own, Count: 3}.Part(shard.ByObject), false}
	if o, _, err := x.scan(raw); err != nil || o.Name != "a" || o.Namespace != "team-17" || o.Kind != "ConfigMap" ||
		o.ResourceVersion != "77" {
		t.Errorf("got %+v, %v", o, err)
	}
	x.part = Part{shard.Shard{Index: foreign, Count: 3}.Part(shard.ByObject), false}
	if n := testing.AllocsPerRun(100, func() { _, _, _ = x.scan(raw) }); n != 0 {
		t.Errorf("a foreign object costs %v allocations", n)
	}
	if string(x.foreign) != "77" || x.spare.Kind != "ConfigMap" {
		t.Errorf("version %q, kind %q", x.foreign, x.spare.Kind)
	}
}

var sampleObject = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"team-17",` +
	`"uid":"8f3c1e7e-5d6b-4c1a-9a51-0a7f3d1c2b4e","resourceVersion":"77","labels":{"a":"b"}},"data":{"text":"` +
	strings.Repeat("x", 2000) + `"}}`
