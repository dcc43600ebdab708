package http

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

const manyRoutes = `
a.sh GET /
a.sh GET /nodes
a.sh GET /nodes/{name}
b.sh POST /nodes/{other}
b.sh DELETE /nodes/n1
b.sh GET /nodes/{name}/pods
c.sh GET /{kind}/all/{x}
c.sh GET /nodes/{name}/{x}
c.sh HEAD /nodes/{name}
c.sh HEAD /{kind}/{name}
c.sh GET /pods:restart
`

// TestFind runs testdata/routes.txt: below the dashes is the route of a request. It does not depend on the order of hooks.
func TestFind(t *testing.T) {
	hooks := parseHooks(t, manyRoutes)
	for range 20 {
		rand.Shuffle(len(hooks), func(i, j int) { hooks[i], hooks[j] = hooks[j], hooks[i] })
		routes, err := newTable(hooks)
		if err != nil {
			t.Fatal(err)
		}
		golden.Scripts(t, "testdata/routes.txt", func(t *testing.T, script string) string {
			var outcome string
			return golden.Blocks(script, func(words []string) { outcome = found(t, routes, words[0], words[1]) + "\n" }, func() string {
				defer func() { outcome = "" }()
				return outcome
			})
		})
	}
}

func found(t *testing.T, routes table, method, path string) string {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil {
		t.Fatal(err)
	}
	segments, err := segmentsOf(u)
	if err != nil {
		return err.Error()
	}
	if segments == nil {
		return "no segments"
	}
	r, allowed := routes.find(method, segments)
	if r == nil {
		return strings.TrimSpace("allowed: " + strings.Join(allowed, " "))
	}
	return fmt.Sprint(r.binding.Name, " ", r.values(segments))
}

func TestSameRequests(t *testing.T) {
	_, err := newTable(parseHooks(t, "a.sh GET /x/{a}\nb.sh GET /x/{b}\nb.sh POST /x/{b}\nc.sh GET /\nd.sh GET /"))
	want := []string{
		`hook "c.sh" (/) and hook "d.sh" (/) match the same requests, GET: use another method or path for one of them`,
		`hook "a.sh" (/x/{a}) and hook "b.sh" (/x/{b}) match the same requests, GET: use another method or path for one of them`,
	}
	if err == nil || !slices.Equal(strings.Split(err.Error(), "\n"), want) {
		t.Errorf("got %v", err)
	}
}
