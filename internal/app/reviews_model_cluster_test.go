package app

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Over random reloads, restarts, and replicas that replace others, with and without leader election, with files that are renamed, bindings
// that are moved and removed, starts that fail or change what a policy of the same operator reviews, lists that fail, and a hook that
// converts a CRD and reviews it with a snapshot of it: no request of a policy that is in the files before and after is admitted without a
// review; none is refused, except at the restart of a single replica until its hook is ready; each step ends registered and ready.
func TestReviewsModel(t *testing.T) {
	first, count := uint64(1), uint64(2)
	if test.Long() {
		count = 30
	}
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		first, count = n, 1
	}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("SEED=", seed), func(t *testing.T) {
			m := &reviewsModel{T: t, d: newDeployment(t), random: rand.New(rand.NewPCG(seed, 0)), elects: seed%2 == 0}
			m.run(seed)
		})
	}
}

type reviewsModel struct {
	*testing.T
	d          *deployment
	random     *rand.Rand
	elects     bool
	kubeconfig string
	// listsFail makes lists of Secrets fail.
	listsFail atomic.Bool

	set      testenv.Policies
	replicas []*behindBalancer
	link     string // to the hooks of the last replica
}

// until waits until done returns an empty string.
func (m *reviewsModel) until(what string, done func() string) {
	m.Helper()
	tick, late := time.NewTicker(50*time.Millisecond), time.Now().Add(time.Minute)
	defer tick.Stop()
	for problem := done(); problem != ""; problem = done() {
		if <-tick.C; time.Now().After(late) {
			m.Fatalf("%s, %v: %s", what, m.set, problem)
		}
	}
}

var startedPages = regexp.MustCompile(`msg="base http server started" address=(\S+) port=(\S+)`)

// unready returns the text of a replica that is not ready, or has a hook that waits.
func (m *reviewsModel) unready(r *behindBalancer, waits bool) string {
	at := startedPages.FindStringSubmatch(r.log.String())
	status, text := testenv.Get(m, "http://"+at[1]+":"+at[2]+"/readyz")
	if status != http.StatusOK || waits && strings.Contains(text, " waits: ") {
		return text
	}
	return ""
}

// begin starts a replica, and returns when a Service would lead to it.
func (m *reviewsModel) begin(step int) *behindBalancer {
	m.link = filepath.Join(m.d.files, fmt.Sprint("hooks-", step))
	m.set.Write(m, m.d.Things, m.link, 10+step)
	r := m.d.begin(m.T, Options{HooksDir: m.link, WatchHooks: true, Pod: fmt.Sprint("pod-", step),
		Cluster:  kube.Options{Kubeconfig: m.kubeconfig},
		Election: ElectionOptions{Enabled: m.elects, Lease: "model", Duration: 15 * time.Second}})
	m.Cleanup(func() {
		if m.Failed() {
			m.Log(r.log)
		}
	})
	m.replicas = append(m.replicas, r)
	r.addresses(m.T)
	m.until("readiness", func() string { return m.unready(r, false) })
	return r
}

// policies are the names that are reviewed.
func (m *reviewsModel) policies() []string {
	return append(slices.Sorted(maps.Keys(m.set.Files)), "things", "converted")
}

// settle waits until the set is registered and answers, nothing else is, and no hook waits unless lists fail.
func (m *reviewsModel) settle() {
	m.Helper()
	m.until("the end of a step", func() string {
		registered := strings.Fields(strings.ReplaceAll(m.d.c.Kubectl(m, "get", "validatingwebhookconfiguration", "--ignore-not-found",
			m.d.Namespace+"-hooks", "-o", "jsonpath={.webhooks[*].name}"), "."+m.d.Group, ""))
		slices.Sort(registered)
		if all := m.policies(); !slices.Equal(registered, all[:len(all)-1]) {
			return fmt.Sprintf("registered are %q, not %q", registered, all)
		}
		for _, r := range m.replicas {
			if why := m.unready(r, !m.listsFail.Load()); why != "" {
				return why
			}
		}
		for _, name := range m.policies() {
			if err := m.d.Send(m.Context(), name); err != nil {
				return fmt.Sprintf("%s: %v", name, err)
			}
		}
		return ""
	})
}

// do does a step.
func (m *reviewsModel) do(kind string, step int) {
	switch last := len(m.replicas) - 1; kind {
	case "start":
		m.d.lead(m.begin(step))
	case "reload":
		reloads := strings.Count(m.replicas[last].log.String(), "Hooks are reloaded")
		m.set.Write(m, m.d.Things, m.link, 10+step)
		m.replicas[last].log.Until(m, "Hooks are reloaded", reloads+1)
	case "restart":
		m.d.cut()
		m.replicas[last].end(m.T)
		m.replicas = nil
		if m.random.IntN(2) == 0 { // the API server's cache of the kind is made again
			m.d.c.Kubectl(m, "patch", "crd", m.d.CRD, "--type=json", "-p", fmt.Sprintf(
				`[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "%d"}]`, step))
		}
		m.d.lead(m.begin(step))
	case "rollout":
		m.d.lead(m.replicas[last], m.begin(step))
		for range 10 { // requests for both
			for _, name := range testenv.PolicyNames {
				_ = m.d.Send(m.Context(), name)
			}
		}
		m.d.lead(m.replicas[last+1])
		m.replicas[last].end(m.T)
		m.replicas = m.replicas[last+1:]
	}
}

func (m *reviewsModel) run(seed uint64) {
	var gateway *testenv.Gateway
	gateway, m.kubeconfig = testenv.NewGateway(m, m.d.c.Kubeconfig, seed)
	gateway.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if m.listsFail.Load() && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/secrets") {
			http.Error(w, "the list fails", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	end := m.d.Start(m)
	defer end()
	for step := 0; step < 6 && !m.Failed(); step++ {
		kind := []string{"reload", "restart", "rollout"}[m.random.IntN(3)]
		if step == 0 {
			kind = "start"
		}
		m.set = testenv.DrawPolicies(m.random, m.set, kind == "restart")
		m.d.Guard(m.policies(), false)
		// A replica whose onStartup run fails is ready for its Service, but its policies are not.
		excused := kind == "restart" || kind == "rollout" && !m.elects && len(m.set.Starts) > 0
		if excused {
			m.d.Excuse()
		}
		began, fail := time.Now(), m.random.IntN(4) == 0
		m.listsFail.Store(fail)
		m.do(kind, step)
		m.settle()
		if fail {
			m.listsFail.Store(false)
			m.settle()
		}
		if excused {
			m.d.Excuse()
		}
		m.d.Guard(m.policies(), true)
		m.Logf("%s, lists fail: %t, %v: %s", kind, fail, m.set, time.Since(began).Round(time.Millisecond))
	}
	end()
	for _, r := range m.replicas {
		r.end(m.T)
	}
}
