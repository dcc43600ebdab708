package cert

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// store is an API server with one Secret; watching is forbidden.
type store struct {
	mu sync.Mutex
	// live is the Secret, or nil.
	live    *corev1.Secret
	version int
	writes  int
	// rejects are the statuses of the next writes, 0 accepts one.
	rejects []int
}

func (s *store) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, body := http.StatusOK, any(s.live)
	switch {
	case r.URL.Query().Get("watch") != "":
		status = http.StatusForbidden
	case r.Method == http.MethodGet && s.live == nil:
		status = http.StatusNotFound
	case r.Method != http.MethodGet:
		status = s.write(r)
		body = s.live
	}
	if status != http.StatusOK {
		reason := map[int]string{403: "Forbidden", 404: "NotFound", 409: "Conflict", 500: "InternalError"}[status]
		body = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
	}
	text, err := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, err
}

func (s *store) write(r *http.Request) (status int) {
	s.writes++
	if len(s.rejects) > 0 {
		status = s.rejects[0]
		if s.rejects = s.rejects[1:]; status != 0 {
			return status
		}
	}
	next := &corev1.Secret{}
	if err := json.NewDecoder(r.Body).Decode(next); err != nil {
		return http.StatusBadRequest
	}
	if (s.live == nil) != (r.Method == http.MethodPost) || s.live != nil && next.ResourceVersion != s.live.ResourceVersion {
		return http.StatusConflict
	}
	if s.live != nil {
		data := maps.Clone(s.live.Data)
		maps.Copy(data, next.Data)
		next.Data = data
	}
	s.put(next)
	return http.StatusOK
}

func (s *store) put(next *corev1.Secret) {
	s.version++
	if s.live = next; next != nil {
		next.ResourceVersion = strconv.Itoa(s.version)
	}
}

// edit changes the Secret, if there is one, as another client.
func (s *store) edit(change func(data map[string][]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return
	}
	next := s.live.DeepCopy()
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	change(next.Data)
	s.put(next)
}

// source is a Source whose state is in the store.
func (s *store) source(t *testing.T, names ...string) (*Source, *recorder) {
	t.Helper()
	client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: s, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	log, lines := record(t)
	source, err := Managed(t.Context(), ManagedOptions{Client: client, Namespace: "ns", SecretName: "tls", Names: names, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return source, lines
}

// A replica that cannot write takes what others wrote.
func TestCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		other, _ := s.source(t, "a")
		s.rejects = []int{403, 403}
		k, lines := s.source(t, "b")
		if !leaf(t, k).Equal(leaf(t, other)) {
			t.Error("it does not show what there is")
		}
		run(t, k)
		synctest.Wait()
		lines.says("cannot be kept fresh")
	})
}

// Replicas that want different names do not take the certificate from each other.
func TestDifferentNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		a, _ := s.source(t, "a", "10.0.0.1")
		b, _ := s.source(t, "b")
		run(t, a)
		run(t, b)
		time.Sleep(time.Hour)
		if got := strings.Join(namesOf(leaf(t, a)), " "); got != "a b 10.0.0.1" || s.writes != 2 {
			t.Errorf("names are %q after %d writes", got, s.writes)
		}
	})
}

// Another client deletes, damages and edits the Secret at any time, and the API server rejects writes: when that ceases the replicas agree
// with the Secret, which is complete.
func TestHostileWriter(t *testing.T) {
	edits := map[string]func(map[string][]byte){
		"nothing":      func(map[string][]byte) {},
		"empties":      func(data map[string][]byte) { clear(data) },
		"damages":      func(data map[string][]byte) { data[bundleKey] = []byte("garbage") },
		"removes key":  func(data map[string][]byte) { delete(data, authorityKeyKey) },
		"removes pair": func(data map[string][]byte) { delete(data, servingKey); delete(data, servingPrivateKey) },
		"moves secret": func(data map[string][]byte) { data[previousPathKey] = data[pathKey]; delete(data, pathKey) },
	}
	rapid.Check(t, func(rt *rapid.T) {
		type step struct {
			after time.Duration
			does  string
			code  int
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{time.Duration(rapid.IntRange(0, 600).Draw(rt, "after")) * time.Second,
				rapid.SampledFrom(append(slices.Sorted(maps.Keys(edits)), "deletes")).Draw(rt, "does"),
				rapid.SampledFrom([]int{0, 403, 409, 500}).Draw(rt, "code")}
		}), 0, 10).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			s := &store{}
			var sources []*Source
			for range 2 {
				source, _ := s.source(t, "a")
				run(t, source)
				sources = append(sources, source)
			}
			for _, step := range steps {
				time.Sleep(step.after)
				s.mu.Lock()
				s.rejects = append(s.rejects, step.code)
				if step.does == "deletes" {
					s.put(nil)
				}
				s.mu.Unlock()
				if edit := edits[step.does]; edit != nil {
					s.edit(edit)
				}
			}
			time.Sleep(time.Hour)
			there := decode(s.live.Data)
			for _, source := range sources {
				if there.serving == nil || !leaf(t, source).Equal(there.serving.Leaf) || !slices.Equal(source.Bundle(), there.bundle()) ||
					source.Token("/a") != token(there.secrets[0], "/a") {
					t.Fatalf("the Secret has %v", slices.Sorted(maps.Keys(s.live.Data)))
				}
			}
			trusts(t, there.bundle(), there.serving.Leaf, "a", time.Now())
			if most := 1 + 4*len(steps); s.writes > most {
				t.Errorf("%d writes, at most %d", s.writes, most)
			}
		})
		if t.Failed() {
			rt.Fatalf("%+v", steps)
		}
	})
}

// Replicas agree on tokens. They do not change with the certificate; after the secret was moved the last one's stay valid.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		one, _ := s.source(t, "a")
		two, _ := s.source(t, "a")
		first := one.Token("/a")
		if len(first) != 64 || first != two.Token("/a") || first == one.Token("/b") {
			t.Errorf("tokens of two replicas: %s %s, of another path: %s", first, two.Token("/a"), one.Token("/b"))
		}
		if !one.Valid("/a", first) || one.Valid("/b", first) || one.Valid("/a", "") {
			t.Error("a token is valid for its path only")
		}
		before := leaf(t, one)
		time.Sleep(46 * day)
		run(t, one)
		synctest.Wait()
		if leaf(t, one).Equal(before) || one.Token("/a") != first {
			t.Error("the token changes with the certificate, or that does not change")
		}
		for round := range 2 {
			changed, was := one.Changed(), one.Token("/a")
			s.edit(func(data map[string][]byte) { data[previousPathKey] = data[pathKey]; delete(data, pathKey) })
			<-changed // the registration has to follow
			if now := one.Token("/a"); now == was || !one.Valid("/a", now) || !one.Valid("/a", was) {
				t.Errorf("round %d: afterwards the token is %s, was %s", round, now, was)
			}
		}
		if one.Valid("/a", first) {
			t.Error("the token before the last one is valid")
		}
	})
}

// A process that lives for two years.
func TestInMemoryStaysFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := InMemory("localhost", "127.0.0.1", "0:0:0:0:0:0:0:1")
		if err != nil {
			t.Fatal(err)
		}
		run(t, s)
		if got := leaf(t, s).IPAddresses; len(got) != 2 || !got[1].Equal(net.IPv6loopback) {
			t.Errorf("IP addresses are %v", got)
		}
		first, certificates := s.Bundle(), map[string]bool{}
		for range 2 * 52 {
			time.Sleep(7 * day)
			trusts(t, first, leaf(t, s), "127.0.0.1", time.Now())
			certificates[leaf(t, s).SerialNumber.String()] = true
		}
		if !slices.Equal(first, s.Bundle()) || len(certificates) < 12 {
			t.Errorf("%d certificates in two years", len(certificates))
		}
	})
}

func TestOptions(t *testing.T) {
	for _, row := range []struct {
		o    ManagedOptions
		want string
	}{
		{ManagedOptions{}, "need the namespace"},
		{ManagedOptions{Names: []string{"a", ""}}, "none of them empty"},
		{ManagedOptions{Names: []string{"a"}, Namespace: "ns"}, "the name of a Secret"},
	} {
		if _, err := Managed(t.Context(), row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: error %v, want %q", row.o, err, row.want)
		}
	}
}
