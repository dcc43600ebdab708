package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// tokenLasts is how long an address can be opened.
const tokenLasts = time.Minute

// policy is the Content-Security-Policy of all answers: no attribute is evaluated, and none is "style".
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// access decides which requests are answered: the browser that was opened with a token sends them.
type access struct {
	// host is the address that is listened on, with its port. base is the random path of all pages.
	host, base string
	now        func() time.Time
	crossSite  *http.CrossOriginProtection
	formLimit  time.Duration

	mu     sync.Mutex
	tokens map[string]*token
	// sessions are the browsers that were opened, by their cookies.
	sessions map[string]session
	// reused is called when a token was used twice.
	reused func()
}

// token opens a page once.
type token struct {
	end  time.Time
	used bool
	// dir has the page that takes the browser to the address; empty if there is none.
	dir string
}

// session ends with its context: streams, too.
type session struct {
	ctx context.Context
	end context.CancelFunc
}

// newAccess returns the access to a console that listens on an address.
func newAccess(address string, now func() time.Time) *access {
	return &access{host: address, base: "/" + strings.ToLower(rand.Text()), now: now, crossSite: http.NewCrossOriginProtection(),
		formLimit: formLimit, tokens: map[string]*token{}, sessions: map[string]session{}, reused: func() {}}
}

// listen takes a loopback address: all others are errors, because every client that reaches the console could try to open it.
func listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--listen %q: write it as host:port, for instance 127.0.0.1:8080", address)
	}
	if host == "localhost" || host == "" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("--listen %q: the console listens on loopback addresses only: use for instance 127.0.0.1:8080, and from another "+
			"machine a tunnel such as ssh -L", address)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--listen %q: %w: choose another port, 0 is a free one", address, err)
	}
	return l, nil
}

// address makes an address that opens a page once, within a minute.
func (a *access) address(page string) string {
	address, _ := a.newToken(page)
	return address
}

func (a *access) newToken(page string) (address string, t *token) {
	name := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	t = &token{end: a.now().Add(tokenLasts)}
	a.tokens[name] = t
	to := ""
	if page != "" && page != "/" {
		to = "?" + url.Values{"to": {page}}.Encode()
	}
	return "http://" + a.host + a.base + "/open" + to + "#" + name, t
}

// file writes a page that takes a browser to an address, until that is used: all users of the machine can read the arguments of processes,
// and no other user the file.
func (a *access) file(page string) (path string, err error) {
	address, t := a.newToken(page)
	dir, err := os.MkdirTemp("", "shell-operator-console-") // mode 0700
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	t.dir = dir
	a.mu.Unlock()
	path = filepath.Join(dir, "open.html")
	text := `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=` + html.EscapeString(address) + `">`
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// redeem uses a token, and makes a session. A token that is used again was read by another program: all sessions end.
func (a *access) redeem(name string) (cookie string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tokens[name]
	switch {
	case t == nil:
		return ""
	case t.used:
		for cookie, s := range a.sessions {
			s.end()
			delete(a.sessions, cookie)
		}
		a.reused()
		return ""
	}
	t.used = true
	t.remove()
	if !a.now().Before(t.end) {
		return ""
	}
	cookie = rand.Text()
	ctx, end := context.WithCancel(context.Background())
	a.sessions[cookie] = session{ctx, end}
	return cookie
}

// remove removes the file.
func (t *token) remove() {
	if t.dir != "" {
		_ = os.RemoveAll(t.dir) // it is in the system's directory for temporary files
	}
}

// close removes the files of addresses that were not used.
func (a *access) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.tokens {
		t.remove()
	}
}

// Bounds of the form of a request.
const (
	formLimit = 10 * time.Second
	formBytes = 1 << 20
)

// parseForm reads the form of a request that changes something, from a client that sends it in time.
func (a *access) parseForm(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(a.formLimit)) // tests have writers without one
	r.Body = http.MaxBytesReader(w, r.Body, formBytes)
	if err := r.ParseForm(); err != nil {
		return err // with the deadline: the server reads the rest of the body
	}
	_ = connection.SetReadDeadline(time.Time{})
	return nil
}

// guard rejects requests of all but the browser that was opened.
func (a *access) guard(pages http.Handler) http.Handler {
	inside := http.StripPrefix(a.base, a.signedIn(pages))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		site := r.Header.Get("Sec-Fetch-Site")
		switch {
		case !a.own(r.Host):
			http.Error(w, "another name than that of the address", http.StatusForbidden)
		case site != "" && site != "same-origin" && site != "none" && !a.opening(r):
			http.Error(w, "requests of other pages are rejected", http.StatusForbidden)
		case a.crossSite.Check(r) != nil:
			http.Error(w, "changes that other pages request are rejected", http.StatusForbidden)
		case !strings.HasPrefix(r.URL.Path, a.base+"/"):
			http.NotFound(w, r)
		case a.parseForm(w, r) != nil:
			w.Header().Set("Connection", "close")
			http.Error(w, "the form is not sent in time, too large, or no form", http.StatusBadRequest)
		default:
			inside.ServeHTTP(w, r)
		}
	})
}

// opening reports whether a browser goes to the page that redeems a token: from the file, which is no page of this site. The page shows
// nothing, and what follows is of its own site.
func (a *access) opening(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == a.base+"/open" && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// own reports whether a Host is the address, or localhost with its port: another name that resolves to a loopback address belongs to
// another page.
func (a *access) own(host string) bool {
	_, port, _ := net.SplitHostPort(a.host)
	return host == a.host || host == net.JoinHostPort("localhost", port)
}

// cookie is the name of the cookie of a session.
const cookie = "shell-operator-console"

// signedIn answers requests with the cookie, and the page that gets it, with its files.
func (a *access) signedIn(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, known := a.session(r.CookiesNamed(cookie)) // another server on this host may have set one of the name for all paths
		switch {
		case r.URL.Path == "/open" && r.Method == http.MethodPost:
			a.open(w, r)
		case r.URL.Path == "/open" || strings.HasPrefix(r.URL.Path, "/assets/"):
			pages.ServeHTTP(w, r)
		case !known:
			http.Error(w, "this browser has not been opened with an address of the console: press Enter in its terminal for another one",
				http.StatusForbidden)
		default:
			ctx, end := context.WithCancel(r.Context())
			defer end()
			defer context.AfterFunc(s.ctx, end)()
			pages.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// session returns the session of a cookie.
func (a *access) session(cookies []*http.Cookie) (found session, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sent := range cookies {
		for cookie, s := range a.sessions {
			if subtle.ConstantTimeCompare([]byte(sent.Value), []byte(cookie)) == 1 {
				found, ok = s, true
			}
		}
	}
	return found, ok
}

// open exchanges a token for the cookie.
func (a *access) open(w http.ResponseWriter, r *http.Request) {
	value := a.redeem(r.PostForm.Get("token"))
	if value == "" {
		http.Error(w, "the address has been used, or is older than a minute: press Enter in the terminal for another one", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: value, Path: a.base + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.WriteHeader(http.StatusNoContent)
}
