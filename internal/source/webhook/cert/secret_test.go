package cert

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
)

// store is an API server in memory, which rejects some writes; watching is forbidden, and the methods in forbids are.
type store struct {
	*memory.Server
	mu     sync.Mutex // guards what follows, and edits
	writes int
	// rejects are the statuses of the next writes, 0 accepts one.
	rejects []int
	forbids string
	// away is until when requests fail.
	away time.Time
}

func newStore() *store { return &store{Server: memory.New(memory.Options{Kinds: memory.BuiltIns()})} }

func (s *store) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := 0
	switch {
	case time.Now().Before(s.away):
		return nil, errors.New("the API server is away")
	case r.URL.Query().Get("watch") != "", strings.Contains(s.forbids, r.Method):
		status = http.StatusForbidden
	case r.Method != http.MethodGet:
		s.writes++
		if len(s.rejects) > 0 {
			status, s.rejects = s.rejects[0], s.rejects[1:]
		}
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	if status != 0 {
		memory.Reject(w, apierrors.NewGenericServerResponse(status, r.Method, schema.GroupResource{}, "", "", 0, false))
	} else {
		s.ServeHTTP(w, r)
	}
	return w.Result(), nil
}

// send sends a request of another client, and returns the Secret; nil if there is none.
func (s *store) send(method string, body *corev1.Secret) *corev1.Secret {
	text, _ := json.Marshal(body)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, "/api/v1/namespaces/ns/secrets/tls", bytes.NewReader(text)))
	o := &corev1.Secret{}
	if json.Unmarshal(w.Body.Bytes(), o) != nil || w.Code != http.StatusOK {
		return nil
	}
	return o
}

// edit changes the Secret, if there is one, as another client.
func (s *store) edit(change func(data map[string][]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.send(http.MethodGet, nil); o != nil {
		o.Data = maps.Clone(o.Data)
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		change(o.Data)
		s.send(http.MethodPut, o)
	}
}

// create creates the Secret as another client.
func (s *store) create(data map[string][]byte) {
	text, _ := json.Marshal(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "tls", Namespace: "ns"}, Data: data})
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/ns/secrets", bytes.NewReader(text)))
}

// source is a Source whose state is in the store.
func (s *store) source(t *testing.T, names ...string) (*Source, *recorder) {
	t.Helper()
	source, lines, err := s.try(t, names...)
	if err != nil {
		t.Fatal(err)
	}
	return source, lines
}

func (s *store) try(t *testing.T, names ...string) (*Source, *recorder, error) {
	t.Helper()
	client, err := kube.NewClient(kube.Over(s))
	if err != nil {
		t.Fatal(err)
	}
	log, lines := record(t)
	source, err := InSecret(t.Context(), SecretOptions{Client: client, Namespace: "ns", SecretName: "tls", Names: names, Log: log})
	return source, lines, err
}

// Another client deletes, damages and edits the Secret at any time, and the API server rejects writes: when that ceases the replicas agree
// with the Secret, which is complete.
func TestHostileWriter(t *testing.T) {
	edits := map[string]func(map[string][]byte){
		"nothing":      func(map[string][]byte) {},
		"empties":      func(data map[string][]byte) { clear(data) },
		"damages":      func(data map[string][]byte) { data[caKey] = []byte("garbage") },
		"removes key":  func(data map[string][]byte) { delete(data, caPrivateKey) },
		"moves secret": func(data map[string][]byte) { data[previousPathKey] = data[pathKey]; delete(data, pathKey) },
	}
	if !test.Long() { // each life makes keys, which takes long with the race detector
		if err := flag.Set("rapid.checks", "25"); err != nil {
			t.Fatal(err)
		}
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
			s := newStore()
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
					s.send(http.MethodDelete, nil)
				}
				s.mu.Unlock()
				if edit := edits[step.does]; edit != nil {
					s.edit(edit)
				}
			}
			time.Sleep(time.Hour)
			live := s.send(http.MethodGet, nil)
			there := decode(live.Data)
			for _, source := range sources {
				if there.ca == nil || !slices.Equal(source.Bundle(), pemOf(there.ca.Leaf)) || source.Token("/a") != token(there.secrets[0], "/a") {
					t.Fatalf("the Secret has %v", slices.Sorted(maps.Keys(live.Data)))
				}
				trusts(t, source.Bundle(), leaf(t, source), "a", time.Now())
			}
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
		s := newStore()
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

// Without names there is the secret of paths only; certificates are added when a server needs them.
func TestSecretOfPathsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		paths, _ := s.source(t)
		if o := s.send(http.MethodGet, nil); len(o.Data[pathKey]) != 64 || paths.Bundle() != nil || len(o.Data[caKey]) > 0 {
			t.Errorf("the bundle is %q", paths.Bundle())
		}
		whole, _ := s.source(t, "a")
		if whole.Token("/a") != paths.Token("/a") || whole.Bundle() == nil {
			t.Error("the replicas differ, or there is no certificate")
		}
	})
}

// A Secret with another owner is left alone.
func TestForeignSecret(t *testing.T) {
	s := newStore()
	s.create(map[string][]byte{"password": []byte("x")})
	if _, _, err := s.try(t, "a"); err == nil || !strings.Contains(err.Error(),
		`Secret "tls" in namespace "ns" was not created by the operator and is not changed: choose another name`) || s.writes > 0 {
		t.Errorf("error %v", err)
	}
}

// Without permission to create Secrets, an empty one does. Without any permission each process creates certificates of its own. One warning
// names what is missing.
func TestFewPermissions(t *testing.T) {
	for forbids, want := range map[string]string{
		http.MethodPost: "No permission to watch", http.MethodPost + http.MethodGet: "correct for one replica only",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			s.create(nil)
			s.forbids = forbids
			source, lines := s.source(t, "a")
			run(t, source)
			time.Sleep(time.Hour)
			trusts(t, source.Bundle(), leaf(t, source), "a", time.Now())
			if rule := strings.ReplaceAll(rule("ns", "tls"), `"`, `\"`); lines.count(slog.LevelWarn) != 1 ||
				!strings.Contains(lines.String(), want) || !strings.Contains(lines.String(), rule) {
				t.Errorf("without %s there is not one warning with %q and the rule %s", forbids, want, rule)
			}
			if filled := slices.Equal(s.send(http.MethodGet, nil).Data[caKey], source.Bundle()); filled != (forbids == http.MethodPost) {
				t.Errorf("without %s the Secret is filled: %t", forbids, filled)
			}
		})
	}
}

// The API server is away at the start, and later while the Secret changes.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.away = time.Now().Add(time.Minute)
		source, lines := s.source(t, "a")
		lines.says("have to wait for the API server")
		run(t, source)
		synctest.Wait()
		before := source.Bundle()
		s.mu.Lock()
		s.away = time.Now().Add(2 * time.Minute)
		s.mu.Unlock()
		time.Sleep(90 * time.Second)
		lines.says("cannot be kept fresh")
		s.edit(func(data map[string][]byte) { delete(data, caPrivateKey) })
		becomes(t, source, func(bundle []byte) bool { return !slices.Equal(bundle, before) })
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
