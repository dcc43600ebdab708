package http

import (
	"fmt"
	"math/rand/v2"
	"net/url"
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
		routes := newTable(hooks)
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
