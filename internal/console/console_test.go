package console

import (
	"context"
	"encoding/json"
	"errors"
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
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Hint() string  { return r.hint }
func (*refusal) Answered() bool  { return true }

func (f *fake) set(path string, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = answer
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
		return nil, &refusal{text: "there is no " + strings.TrimSuffix(path, ".json") + " here"}
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
		Operator: f, Routes: app.Routes(), Version: "v10", Flags: "--debug-unix-socket /s", Listen: "127.0.0.1:0", now: at.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.listener.Close() })
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

// TestReconnection: pages keep what they show while the operator does not answer, and show since when.
func TestReconnection(t *testing.T) {
	b, f, at := started(t)
	has(t, b.get("/"), "Overview", "operator v9 ·", "console v10",
		"<code class=\"copy\">shell-operator console / --debug-unix-socket /s</code>")
	lost := "No answer from the operator since " + at.Now().Local().Format("15:04:05")
	f.fail(errors.New("the operator has ended"))
	has(t, b.poll("/"), lost, "the operator has ended", `hx-target="#lost"`)
	hasNot(t, b.poll("/"), "<h1>") // the content stays
	at.add(time.Minute)
	has(t, b.poll("/"), lost)
	f.set("/status.json", map[string]any{"version": "v11"})
	f.fail(nil)
	text := b.poll("/")
	has(t, text, "<h1>Overview</h1>", "operator v11", "shell-operator console / --debug-unix-socket /s<")
	hasNot(t, text, "No answer")
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

// TestLateAnswer: a route that takes longer than the limit keeps the page, which requests it again; others are not affected.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _ := listening(t)
		everywhere(f, "4")
		f.hang(func(path string) bool { return path == "/sets/list.json" })
		const late = "it has not answered /sets/list within 10s: it is stopped or busy"
		page := b.get("/sets")
		has(t, page, "No answer from the operator since", late, "with a longer --timeout", `hx-trigger="every 2s" hx-target="#content"`,
			"The page connects again by itself")
		has(t, b.poll("/sets"), late, "The page shows what was known then")
		has(t, b.get("/"), "<h2 id=\"problems\">")
		f.hang(nil)
		has(t, b.poll("/sets"), `<hx-partial hx-target="#lost" hx-swap="innerHTML"></hx-partial>`, "<table class=")

		// An action may have been carried out.
		address := b.form("/act/parked/retry?id=4")
		f.hang(func(path string) bool { return path == "/parked/retry.json" })
		has(t, b.request("POST", address, url.Values{}, nil).Body.String(), "It is not known whether it was done",
			"it has not answered /parked/retry")
	})
}
