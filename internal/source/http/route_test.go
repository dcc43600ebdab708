package http

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
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

// Which route is found does not depend on the order of hooks.
func TestFind(t *testing.T) {
	hooks := parseHooks(t, manyRoutes)
	for range 20 {
		rand.Shuffle(len(hooks), func(i, j int) { hooks[i], hooks[j] = hooks[j], hooks[i] })
		routes, err := newTable(hooks)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct{ method, path, want string }{
			{"GET", "/", "GET / map[]"},
			{"HEAD", "/", "GET / map[]"},
			{"POST", "/", "allowed: GET HEAD OPTIONS"},
			{"GET", "/nodes", "GET /nodes map[]"},
			{"GET", "/Nodes", "allowed:"},
			{"GET", "/nodes/n1", "GET /nodes/{name} map[name:n1]"},
			{"GET", "/nodes/a%20b+c", "GET /nodes/{name} map[name:a b+c]"},
			{"POST", "/nodes/n1", "POST /nodes/{other} map[other:n1]"},
			{"DELETE", "/nodes/n1", "DELETE /nodes/n1 map[]"},
			{"DELETE", "/nodes/n2", "allowed: GET HEAD OPTIONS POST"},
			{"PUT", "/nodes/n1", "allowed: DELETE GET HEAD OPTIONS POST"},
			{"HEAD", "/nodes/n1", "HEAD /nodes/{name} map[name:n1]"},
			{"HEAD", "/other/n1", "HEAD /{kind}/{name} map[kind:other name:n1]"},
			{"GET", "/other/n1", "allowed: HEAD OPTIONS"},
			{"GET", "/nodes/n1/pods", "GET /nodes/{name}/pods map[name:n1]"},
			{"GET", "/nodes/all/pods", "GET /nodes/{name}/pods map[name:all]"},
			{"GET", "/nodes/all/x", "GET /nodes/{name}/{x} map[name:all x:x]"},
			{"GET", "/else/all/x", "GET /{kind}/all/{x} map[kind:else x:x]"},
			{"HEAD", "/nodes/n1/pods", "GET /nodes/{name}/pods map[name:n1]"},
			{"GET", "/pods:restart", "GET /pods:restart map[]"},
			{"GET", "/nodes/", "no segments"},
			{"GET", "//nodes", "no segments"},
			{"GET", "/nodes/..", "no segments"},
			{"GET", "/nodes/%2e%2e", "no segments"},
			{"GET", "/nodes/./x", "no segments"},
			{"GET", "/nodes/a%2fb", "the path has an encoded slash"},
			{"GET", "/nodes/a%2Fb", "the path has an encoded slash"},
			{"GET", "/nodes/a%00", "the path is not text"},
			{"GET", "/nodes/%ff", "the path is not text"},
			{"GET", "/nodes/a%0ab", "the path is not text"},
		} {
			if got := found(t, routes, tt.method, tt.path); got != tt.want {
				t.Errorf("%s %s: got %s, want %s", tt.method, tt.path, got, tt.want)
			}
		}
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
