package examples

import (
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// shop is the external service. It fails at random, and has shipped an order when it was asked for it twice.
type shop struct {
	*httptest.Server
	// release is closed to answer the order of a unicorn: until then its first request hangs.
	release chan struct{}

	mu                                 sync.Mutex
	random                             *rand.Rand
	requests                           map[string]int
	inFlight, most, unicorns, failures int
}

func newShop(t testing.TB) *shop {
	s := &shop{release: make(chan struct{}), random: rand.New(rand.NewSource(1)), requests: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	item := string(body)
	s.count(1)
	defer s.count(-1)
	switch {
	case strings.Contains(item, "unicorn"):
		s.mu.Lock()
		s.unicorns++
		s.mu.Unlock()
		<-s.release
		s.answer(w, r.URL.Path)
	case strings.Contains(item, "nothing"):
		http.Error(w, "there is nothing to ship", http.StatusUnprocessableEntity)
	default:
		s.answer(w, r.URL.Path)
	}
}

func (s *shop) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight += n
	s.most = max(s.most, s.inFlight)
}

func (s *shop) answer(w http.ResponseWriter, order string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random.Intn(4) == 0 {
		s.failures++
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	if s.requests[order]++; s.requests[order] > 1 {
		fmt.Fprint(w, "shipped")
		return
	}
	fmt.Fprint(w, "accepted")
}

// One order hangs and one is rejected. The others are pushed and polled meanwhile, eight at a time at most, whatever fails.
func TestExternalOrders(t *testing.T) { externalOrders(prepare(t, "external-orders")) }

func externalOrders(e *example) {
	t := e.t
	s := newShop(t)
	order := func(name, item string) string {
		return fmt.Sprintf("---\napiVersion: example.com/v1\nkind: Order\nmetadata: {name: %s}\nspec: {item: %s}\n", name, item)
	}
	e.input(order("a-unicorn", "unicorn")+order("b-nothing", "nothing"), "create", "-f", "-")
	e.start("SHOP_URL="+s.URL, "POLL_INTERVAL=1s")
	e.operator.UntilLog("Hook failed. No attempt is left, its contexts are parked.") // the shop rejects nothing: there is no second attempt
	var orders strings.Builder
	for i := range 20 {
		orders.WriteString(order(fmt.Sprintf("order-%02d", i), "tea"))
	}
	e.input(orders.String(), "create", "-f", "-")
	e.until("all but two orders are shipped", func() bool {
		return strings.Count(e.kubectl("get", "orders.example.com", "-o", "jsonpath={.items[*].status.state}"), "shipped") == 20
	})
	s.mu.Lock()
	if s.unicorns != 1 || s.most > 8 || s.most < 2 || s.failures == 0 {
		t.Errorf("%d requests for a unicorn, at most %d requests in flight, %d failures", s.unicorns, s.most, s.failures)
	}
	s.mu.Unlock()
	e.kubectl("wait", "--for=jsonpath={.status.conditions[0].status}=True", "orders.example.com/order-00", "--timeout=60s") // after the state
	condition := func(name string) string {
		return e.kubectl("get", "orders.example.com", name, "-o", `jsonpath={.status.conditions[0]['status', 'reason', 'message']}`)
	}
	if a, b := condition("order-00"), condition("b-nothing"); a != "True Succeeded the shop answers 200: shipped" ||
		!strings.HasPrefix(b, "False Failed attempt 1 of 8: exit status 1: the shop rejects") {
		t.Errorf("the conditions are %q and %q", a, b)
	}
	close(s.release)
	e.until("the order of a unicorn is shipped, too", func() bool {
		return strings.HasPrefix(e.kubectl("get", "orders.example.com", "-o", "jsonpath={.items[*].status.state}"),
			strings.Repeat("shipped ", 20)+"shipped")
	})
}
