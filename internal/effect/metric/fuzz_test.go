package metric_test

import (
	"log/slog"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect/metric"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Whatever two hooks write, if it is accepted, Prometheus can read it.
func FuzzScrape(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"name":"a","set":1}`, `{"name":"a","add":1}`},
		{`{"name":"a","group":"g","action":"observe","value":1,"buckets":[1,2],"labels":{"b":"\n\"\\"}}`,
			`{"name":"a","action":"observe","value":1e308,"buckets":[3]}`},
		{`{"name":"a","add":1e308}{"name":"a","add":1e308}`, `{"group":"g","action":"expire"}`},
		{`{"name":"a_bucket","set":1}{"name":"a_sum","set":1}`, `{"name":"a","action":"observe","value":1,"buckets":[1]}`},
		{`{"name":"a","set":1,"labels":{"le":"1"}}`, `{"name":"a","set":2,"labels":{"hook":"x","__x":"1","quantile":"1"}}`},
		{`{"name":"{PREFIX}a","set":1}`, `{"name":"go_goroutines","set":-0}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		store := metric.New(metric.Options{Log: slog.New(slog.DiscardHandler)})
		handler := handlerOf(store)
		for i, file := range [][]byte{one, two, one} {
			ops, _, err := wire.ParseMetrics(file)
			if err != nil {
				continue
			}
			store.Apply([]string{"one.sh", "t\"wo\n\xff.sh", "one.sh"}[i], ops)
			_, text := scrape(t, handler)
			checkScrape(t, text)
		}
	})
}
