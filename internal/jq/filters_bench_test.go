package jq_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/shell-operator/shell-operator/bench/objects"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// BenchmarkFilters is one object of 2 KiB, decoded and filtered.
func BenchmarkFilters(b *testing.B) {
	object, err := json.Marshal(objects.ConfigMap(1, 2048))
	if err != nil {
		b.Fatal(err)
	}
	c := jq.NewCompiler(jq.Options{})
	v, _ := jq.Decode(object)
	for _, text := range objects.Filters {
		f, err := c.Compile(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Apply(context.Background(), v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
