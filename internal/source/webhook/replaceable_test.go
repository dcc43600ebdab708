package webhook

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestVersions runs the files in testdata/versions. Commands are:
//
//	put VERSION HOOK=PATH,PATH...   a reload replaces the hooks
//	ready [VERSION]:HOOK...         a hook can answer
//	stuck VERSION:HOOK              a hook does not become ready by itself
//	registered PATH...              these paths are in the cluster
//	hang PATH, end                  a request begins, and all end
//	ask PATH...                     requests
//	wait 5m                         let time pass
//
// Below the dashes are the answers of requests: the version and its hook, or why there is none; then the hooks of each earlier version that
// answer, the earlier hooks that have not ended, and troubles. The time is not real.
func TestVersions(t *testing.T) {
	golden.Scripts(t, "testdata/versions/*.txt", func(t *testing.T, script string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			s := &versions{t: t, ready: map[*hook.Hook]bool{}, stuck: map[*hook.Hook]bool{}, hooks: map[string]*hook.Hook{},
				names: map[*hook.Hook]string{}}
			s.r.lingers = true
			got = golden.Blocks(script, s.do, s.happened)
		})
		return got
	})
}

type versions struct {
	t            *testing.T
	r            replaceable
	ready, stuck map[*hook.Hook]bool
	// hooks are by version and name, names the other way round.
	hooks   map[string]*hook.Hook
	names   map[*hook.Hook]string
	hanging []*version
	log     strings.Builder
}

// routes are a handler of conversions: its paths are names of CRDs.
type routes struct {
	*versions
	hooks []*hook.Hook
}

func (h *routes) Answers(r *http.Request) ([]*hook.Hook, bool) {
	for _, one := range h.hooks {
		if slices.ContainsFunc(one.Conversions, func(c hook.Conversion) bool { return "/"+c.CRDName == r.URL.Path }) {
			return []*hook.Hook{one}, h.ready[one]
		}
	}
	return nil, false
}

func (h *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := "no hook"
	if hooks, ready := h.Answers(r); ready {
		text = h.names[hooks[0]]
	} else if hooks != nil {
		text = h.names[hooks[0]] + " is not ready"
	}
	_, _ = io.WriteString(w, text)
}

func (s *versions) do(words []string) {
	switch words[0] {
	case "put":
		var hooks []*hook.Hook
		for _, text := range words[2:] {
			name, paths, _ := strings.Cut(text, "=")
			h := &hook.Hook{Name: name}
			for path := range strings.SplitSeq(paths, ",") {
				h.Conversions = append(h.Conversions, hook.Conversion{CRDName: strings.TrimPrefix(path, "/")})
			}
			hooks = append(hooks, h)
			s.hooks[words[1]+":"+name], s.names[h] = h, words[1]+":"+name
		}
		s.r.put(&version{answerer: &routes{s, hooks}, hooks: hooks})
	case "ready", "stuck":
		for _, name := range words[1:] {
			map[string]map[*hook.Hook]bool{"ready": s.ready, "stuck": s.stuck}[words[0]][s.hooks[name]] = true
		}
	case "registered":
		s.r.registered.set("v", words[1:], false)
	case "hang":
		s.hanging = append(s.hanging, s.r.enter(httptest.NewRequest(http.MethodPost, words[1], nil)))
	case "end":
		for _, v := range s.hanging {
			v.requests.Done()
		}
		s.hanging = nil
	case "ask":
		for _, path := range words[1:] {
			w := httptest.NewRecorder()
			s.r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
			fmt.Fprintf(&s.log, "%s: %s\n", path, w.Body)
		}
	case "wait":
		d, _ := time.ParseDuration(words[1])
		time.Sleep(d)
	default:
		s.t.Fatalf("unknown command %q", words)
	}
}

func (s *versions) happened() string {
	for _, v := range s.r.prune() {
		go s.r.end(v)
	}
	synctest.Wait()
	for _, v := range s.r.versions[1:] {
		fmt.Fprintln(&s.log, "earlier:", s.list(v.hooks))
	}
	var held []*hook.Hook
	for h := range s.names {
		if s.r.holds(h) && !slices.Contains(s.r.versions[0].hooks, h) {
			held = append(held, h)
		}
	}
	if len(held) > 0 {
		fmt.Fprintln(&s.log, "held:", s.list(held))
	}
	for _, u := range s.r.overdue(func(h *hook.Hook) string {
		if s.stuck[h] && !s.ready[h] {
			return "its onStartup run fails"
		}
		return ""
	}) {
		fmt.Fprintf(&s.log, "trouble of %s: %s: %v\n", u.Subject, u.Left, u.Err)
	}
	defer s.log.Reset()
	return s.log.String()
}

func (s *versions) list(hooks []*hook.Hook) string {
	var names []string
	for _, h := range hooks {
		names = append(names, s.names[h])
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
