package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/app"
)

// fake is an operator at the edge of the console: answers by path, errors that are answers, and none at all.
type fake struct {
	mu      sync.Mutex
	answers map[string]any
	// down is the error of a connection.
	down  error
	posts []string
	gets  []string
	tails []*io.PipeWriter
	// next are answers after the first one.
	next map[string]any
	// hangs reports whether a path is not answered; nil for none.
	hangs func(path string) bool
}

// wait returns when the request has ended, if its path is not answered.
func (f *fake) wait(ctx context.Context, path string) error {
	f.mu.Lock()
	hangs := f.hangs != nil && f.hangs(path)
	f.mu.Unlock()
	if !hangs {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) hang(which func(path string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = which
}

// refusal is an error that the operator answers.
type refusal struct {
	text, hint string
	noRoute    bool
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Hint() string  { return r.hint }
func (*refusal) Answered() bool  { return true }
func (r *refusal) NoRoute() bool { return r.noRoute }

func (f *fake) set(path string, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = answer
}

// requests is how often a path has been requested.
func (f *fake) requests(path string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, got := range f.gets {
		if got == path {
			n++
		}
	}
	return n
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
	for _, t := range f.tails {
		_ = t.CloseWithError(io.ErrUnexpectedEOF)
	}
	f.tails = nil
}

func (f *fake) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := f.wait(ctx, path); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gets = append(f.gets, path)
	defer func() {
		if next, ok := f.next[path]; ok {
			f.answers[path] = next
		}
	}()
	if f.down != nil {
		return nil, f.down
	}
	if strings.Contains(path, "tail.json") {
		r, w := io.Pipe()
		f.tails = append(f.tails, w)
		context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
		return r, nil
	}
	return f.answer(path)
}

func (*fake) Close() {}

func (f *fake) Post(ctx context.Context, path string, form url.Values) (io.ReadCloser, error) {
	if form.Get("dryRun") != "true" {
		if err := f.wait(ctx, path); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posts = append(f.posts, path+"?"+form.Encode())
	if f.down != nil {
		return nil, f.down
	}
	if form.Get("dryRun") == "true" {
		return f.answer(path + " dry")
	}
	return f.answer(path)
}

// answer requires mu.
func (f *fake) answer(path string) (io.ReadCloser, error) {
	switch a := f.answers[path].(type) {
	case nil:
		return nil, &refusal{text: "there is no " + strings.TrimSuffix(path, ".json") + " here", noRoute: true}
	case error:
		return nil, a
	case string:
		return io.NopCloser(strings.NewReader(a)), nil
	default:
		text, err := json.Marshal(a)
		return io.NopCloser(strings.NewReader(string(text))), err
	}
}

// say writes an entry to all tails.
func (f *fake) say(t *testing.T, entry string) {
	t.Helper()
	f.mu.Lock()
	tails := append([]*io.PipeWriter(nil), f.tails...)
	f.mu.Unlock()
	for _, w := range tails {
		if _, err := io.WriteString(w, entry+"\n"); err != nil {
			t.Error(err)
		}
	}
}

// clock is a time that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// browser is a client with the cookie of a console, as a browser sends it.
type browser struct {
	t       *testing.T
	console *Console
	handler http.Handler
	cookie  *http.Cookie
}

// listening is a console that is not served, and a browser with its cookie, whose requests the test passes to the console.
func listening(t *testing.T) (*browser, *fake, *clock) {
	t.Helper()
	f := &fake{answers: map[string]any{"/status.json": map[string]any{"version": "v9"}}}
	at := &clock{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	c, err := Listen(Options{
		Connect: func(context.Context) (*Connection, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return &Connection{Operator: f, Pod: "operator-0", Flags: "--pod operator-0"}, f.down
		},
		Routes:  app.Routes(),
		Version: "v10", Program: "kubectl shell-operator", Flags: "-n shop", Listen: "127.0.0.1:0", now: at.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop(); _ = c.listener.Close() })
	b := &browser{t: t, console: c, handler: c.access.guard(c.routes())}
	res := b.request("POST", "/open", url.Values{"token": {tokenOf(t, c.Address(""))}}, nil)
	if len(res.Result().Cookies()) != 1 {
		t.Fatalf("no cookie: %d %s", res.Code, res.Body)
	}
	b.cookie = res.Result().Cookies()[0]
	return b, f, at
}

// started is listening, served.
func started(t *testing.T) (*browser, *fake, *clock) {
	t.Helper()
	b, f, at := listening(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.console.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b, f, at
}

func tokenOf(t *testing.T, address string) string {
	t.Helper()
	_, token, ok := strings.Cut(address, "#")
	if !ok {
		t.Fatalf("no token in %s", address)
	}
	return token
}

// request sends a request as the browser does; edit changes it.
func (b *browser) request(method, path string, form url.Values, edit func(*http.Request)) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, "http://"+b.console.access.host+b.console.access.base+path,
		strings.NewReader(form.Encode()))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+b.console.access.host)
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

// get returns a page.
func (b *browser) get(path string) string {
	b.t.Helper()
	w := b.request("GET", path, nil, nil)
	if w.Code != http.StatusOK {
		b.t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// poll returns what htmx gets.
func (b *browser) poll(path string) string {
	b.t.Helper()
	w := b.request("GET", path, nil, func(r *http.Request) { r.Header.Set("HX-Request", "true") })
	if w.Code != http.StatusOK {
		b.t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

func has(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func hasNot(t *testing.T, text string, unwanted ...string) {
	t.Helper()
	for _, never := range unwanted {
		if strings.Contains(text, never) {
			t.Errorf("%q is in\n%s", never, text)
		}
	}
}

// TestReconnection: pages keep what they show while the operator does not answer, and connect again with growing delay.
func TestReconnection(t *testing.T) {
	b, f, at := started(t)
	has(t, b.get("/"), "Overview", "operator v9 ·", "in Pod <strong>operator-0", "console v10",
		"<code class=\"copy\">kubectl shell-operator console / -n shop --pod operator-0</code>")
	f.fail(errors.New("the tunnel has ended"))
	has(t, b.poll("/"), "No answer from the operator since", "the tunnel has ended", `hx-target="#lost"`)
	hasNot(t, b.poll("/"), "<h1>") // the content stays
	count := func() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.gets) }
	before := count()
	for range 40 { // 20 s
		at.add(500 * time.Millisecond)
		b.poll("/")
	}
	if n := count() - before; n != 0 {
		t.Errorf("%d requests without a connection", n)
	}
	f.set("/status.json", map[string]any{"version": "v11"})
	f.fail(nil)
	at.add(maxDelay)
	text := b.poll("/")
	has(t, text, "<h1>Overview</h1>", "operator v11", "kubectl shell-operator console / -n shop --pod operator-0<")
	hasNot(t, text, "No answer")
}

// TestGrowingDelay: attempts to connect after 0.5 s, 1 s, 2 s, 4 s, 8 s, then every 10 s.
func TestGrowingDelay(t *testing.T) {
	at, attempts := &clock{now: time.Unix(0, 0)}, []string{}
	l := newLink(t.Context(), &Options{
		Connect: func(context.Context) (*Connection, error) {
			attempts = append(attempts, fmt.Sprint(at.now.Sub(time.Unix(0, 0)).Seconds()))
			return nil, errors.New("no Pod")
		}, now: at.Now,
	})
	for at.now.Before(time.Unix(40, 0)) {
		_, err := l.current(t.Context())
		if gone := new(lost); !errors.As(err, &gone) || !gone.since.Equal(time.Unix(0, 0)) {
			t.Fatalf("%v", err)
		}
		at.add(100 * time.Millisecond)
	}
	if got := strings.Join(attempts, " "); got != "0 0.5 1.5 3.5 7.5 15.5 25.5 35.5" {
		t.Errorf("attempts at %s", got)
	}
}

// TestCutAnswer: an operator that ends while it answers changes nothing of a page.
func TestCutAnswer(t *testing.T) {
	b, f, _ := started(t)
	b.get("/")
	for _, cut := range []string{`{"version":"v9","hooks":[`, ""} {
		f.set("/status.json", cut)
		text := b.poll("/")
		has(t, text, "No answer from the operator since", "its answer has no end")
		hasNot(t, text, "<h1>")
	}
	f.set("/status.json", `{"version":7}`)
	has(t, b.poll("/"), "does not show this", "cannot read the answer of the operator")
}

// TestBrowserLeaves: the connection outlives the request that makes it, and a request that waits for it in vain keeps its page.
func TestBrowserLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, release := &fake{answers: map[string]any{"/status.json": map[string]any{"version": "v9"}}}, make(chan struct{})
		l := newLink(t.Context(), &Options{Connect: func(context.Context) (*Connection, error) {
			<-release
			return &Connection{Operator: leaving{f}}, nil
		}, now: time.Now})
		browser, leave := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() { _, _ = l.current(browser) })
		synctest.Wait()
		var status struct{ Version string }
		if err := l.get(t.Context(), "/status.json", &status); !errors.As(err, new(*lost)) {
			t.Errorf("a request that waits gets %v", err)
		}
		leave()
		close(release)
		first.Wait()
		if err := l.get(t.Context(), "/status.json", &status); err != nil || status.Version != "v9" {
			t.Errorf("the next request gets %v", err)
		}
	})
}

// leaving is an operator whose requests end with their context.
type leaving struct{ *fake }

func (l leaving) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return l.fake.Get(ctx, path)
}

// TestSlowRoute: a route that takes longer than the limit is no lost connection. The page shows which it is, and requests it again; others
// show their parts.
func TestSlowRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _ := listening(t)
		everywhere(f, "4")
		f.hang(func(path string) bool { return path == "/sets/list.json" })
		const late = "the operator needs more than 10s for /sets/list, and answers other requests"
		page := b.get("/sets")
		has(t, page, "The operator is slow.", late, "with a longer --timeout", `hx-trigger="every 2s" hx-target="#content"`,
			"The page is requested again by itself")
		hasNot(t, page, "No answer from the operator", "shows what was known")
		has(t, b.poll("/sets"), late, "The page shows what was known then, and is requested again by itself")
		has(t, b.get("/"), "<h2 id=\"problems\">") // over the same connection
		f.hang(nil)
		has(t, b.poll("/sets"), `<hx-partial hx-target="#lost" hx-swap="innerHTML"></hx-partial>`, "<table class=")

		f.hang(func(path string) bool { return strings.HasSuffix(path, "/lanes.json") })
		has(t, b.get("/queues/4"), "Pause…", "the operator needs more than 10s for /queue/4/lanes")

		// An action may have been carried out.
		address := b.form("/act/parked/retry?id=4")
		f.hang(func(path string) bool { return path == "/parked/retry.json" })
		has(t, b.request("POST", address, url.Values{}, nil).Body.String(),
			"It is not known whether it was done", "the operator needs more than 10s for /parked/retry")

		f.hang(func(string) bool { return true })
		page = b.get("/sets")
		has(t, page, "No answer from the operator since", "it has not answered within 10s: it is stopped or busy",
			"The page connects again by itself")
		hasNot(t, page, "is slow")
	})
}
