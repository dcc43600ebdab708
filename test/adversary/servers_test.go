package adversary

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/shell-operator/shell-operator/internal/test"
)

// startServers starts what the hooks of a workload call.
func (w *world) startServers() {
	w.t.Helper()
	if w.load.Shop {
		w.shop = &shop{requests: map[string]int{}}
		server := httptest.NewServer(w.shop)
		w.t.Cleanup(server.Close)
		w.env = append(w.env, "SHOP_URL="+server.URL)
	}
	if w.load.Mysql {
		w.mysql = test.NewMysqlServer(w.t, "secret")
		w.env = append(w.env, w.mysql.Env()...)
	}
}

// shop is what the example external-orders calls: it has shipped an order when it is asked for it a second time.
type shop struct {
	mu       sync.Mutex
	requests map[string]int
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[r.URL.Path]++; s.requests[r.URL.Path] > 1 {
		fmt.Fprint(w, "shipped")
		return
	}
	fmt.Fprint(w, "accepted")
}

// external adds what the hooks have made outside of the cluster.
func (w *world) external(s state) {
	if w.mysql != nil {
		s["databases"] = strings.Join(w.mysql.Databases(), " ")
	}
}
