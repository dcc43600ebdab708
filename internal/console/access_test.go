package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRefusals: nothing is shown or changed for anybody but the browser that was opened.
func TestRefusals(t *testing.T) {
	b, f, _ := started(t)
	_, port, _ := strings.Cut(b.console.access.host, ":")
	form := url.Values{"id": {"4"}}
	f.set("/parked/retry.json", map[string]any{"count": 1, "message": "done"})
	site := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", value) }
	}
	for _, test := range []struct {
		name, method, path string
		edit               func(*http.Request)
		code               int
	}{
		{"a page", "GET", "/parked", nil, 200},
		{"by localhost", "GET", "/parked", func(r *http.Request) { r.Host = "localhost:" + port }, 200},
		{"typed into the browser", "GET", "/parked", site("none"), 200},
		{"a link of another page", "GET", "/parked", site("cross-site"), 403},
		{"the file, to the page for its token", "GET", "/open", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "document")
		}, 200},
		{"a script or frame of another page", "GET", "/open", site("cross-site"), 403},
		{"a page on another port of the host", "GET", "/parked", site("same-site"), 403},
		{"a name that resolves to 127.0.0.1", "GET", "/parked", func(r *http.Request) { r.Host = "rebound.example.com:" + port }, 403},
		{"another port in the name", "GET", "/parked", func(r *http.Request) { r.Host = "127.0.0.1:1" }, 403},
		{"another loopback address", "GET", "/parked", func(r *http.Request) { r.Host = "127.0.0.2:" + port }, 403},
		{"no cookie", "GET", "/parked", func(r *http.Request) { r.Header.Del("Cookie") }, 403},
		{"the cookie behind one of another server", "GET", "/parked", func(r *http.Request) {
			r.Header.Set("Cookie", cookie+"=AAAA; "+r.Header.Get("Cookie"))
		}, 200},
		{"another cookie", "GET", "/parked", func(r *http.Request) { r.Header.Set("Cookie", cookie+"=AAAA") }, 403},
		{"the cookie without the path", "GET", "/parked", func(r *http.Request) { r.URL.Path = "/parked" }, 404},
		{"the cookie with another path", "GET", "/parked", func(r *http.Request) { r.URL.Path = "/abcdefghijklmnop/parked" }, 404},
		{"a file that pages load", "GET", "/assets/console.css", func(r *http.Request) { r.Header.Del("Cookie") }, 200},
		{"the list of files", "GET", "/assets/", nil, 404},
		{"a stream without cookie", "GET", "/stream/live", func(r *http.Request) { r.Header.Del("Cookie") }, 403},
		{"an action", "POST", "/act/parked/retry", nil, 200},
		{"an action of a foreign origin", "POST", "/act/parked/retry", func(r *http.Request) {
			r.Header.Set("Origin", "https://example.com")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}, 403},
		{"of a foreign origin, by an old browser", "POST", "/act/parked/retry", func(r *http.Request) {
			r.Header.Set("Origin", "https://example.com")
			r.Header.Del("Sec-Fetch-Site")
		}, 403},
		{"of another port", "POST", "/act/parked/retry", func(r *http.Request) {
			r.Header.Set("Origin", "http://127.0.0.1:1")
			r.Header.Set("Sec-Fetch-Site", "same-site")
		}, 403},
		{"of a sandboxed page", "POST", "/act/parked/retry", func(r *http.Request) {
			r.Header.Set("Origin", "null")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}, 403},
		{"an action without cookie", "POST", "/act/parked/retry", func(r *http.Request) { r.Header.Del("Cookie") }, 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.set("/parked/list.json", []any{})
			f.mu.Lock()
			f.gets, f.posts = nil, nil
			f.mu.Unlock()
			sent := url.Values(nil)
			if test.method == "POST" {
				sent = form
			}
			w := b.request(test.method, test.path, sent, test.edit)
			if w.Code != test.code {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if w.Code != 200 && (len(f.gets)+len(f.posts) > 0 || w.Header().Get("Set-Cookie") != "") {
				t.Errorf("the operator was asked: %v %v", f.gets, f.posts)
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
					"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
				"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q", name, got)
				}
			}
		})
	}
}

// TestSlowForm: a client that does not send its form keeps no connection.
func TestSlowForm(t *testing.T) {
	b, _, _ := started(t)
	b.console.access.formLimit = 10 * time.Millisecond
	server := httptest.NewServer(b.handler)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s/open HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
		"Content-Length: 100\r\n\r\ntoken=", b.console.access.base, b.console.access.host); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "400 Bad Request") {
		t.Errorf("%s %v", answer, err)
	}
	if w := b.request("POST", "/act/parked/retry", url.Values{"id": {strings.Repeat("x", formBytes)}}, nil); w.Code != 400 {
		t.Errorf("a large form: %d", w.Code)
	}
}

// TestTokens: an address is valid once, and for a minute.
func TestTokens(t *testing.T) {
	b, _, at := started(t)
	b.cookie = nil
	open := func(token string) int { return b.request("POST", "/open", url.Values{"token": {token}}, nil).Code }
	token := tokenOf(t, b.console.Address("/runs/17-2"))
	if got := open("wrong"); got != 403 {
		t.Errorf("a wrong token: %d", got)
	}
	if got := open(""); got != 403 {
		t.Errorf("no token: %d", got)
	}
	w := b.request("POST", "/open", url.Values{"token": {token}}, nil)
	set := w.Header().Get("Set-Cookie")
	if want := "; Path=" + b.console.access.base + "/; HttpOnly; SameSite=Strict"; w.Code != 204 || !strings.HasSuffix(set, want) {
		t.Errorf("%d, %q, want %q", w.Code, set, want)
	}
	if got := open(token); got != 403 {
		t.Errorf("a used token: %d", got)
	}
	first, second := tokenOf(t, b.console.Address("")), ""
	at.add(59 * time.Second)
	if second = tokenOf(t, b.console.Address("")); open(first) != 204 {
		t.Error("a token of 59 s")
	}
	at.add(60 * time.Second)
	if got := open(second); got != 403 {
		t.Errorf("a token of a minute: %d", got)
	}
	if w := b.request("POST", "/open", url.Values{"token": {tokenOf(t, b.console.Address(""))}}, func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}); w.Code != 403 {
		t.Errorf("a token that another page sends: %d", w.Code)
	}
	// The query is not the token: it would be in the history of the browser.
	query := tokenOf(t, b.console.Address(""))
	if w := b.request("POST", "/open?token="+query, url.Values{}, nil); w.Code != 403 {
		t.Errorf("a token in the query: %d", w.Code)
	}
	if got := b.console.Address("/runs/17-2"); !strings.Contains(got, "/open?to=%2Fruns%2F17-2#") {
		t.Errorf("address %s", got)
	}
}

func TestListenAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:0": "", "localhost:0": "", "127.0.0.5:0": "", ":0": "",
		"0.0.0.0:0": "loopback addresses only", "10.0.0.1:0": "loopback addresses only", "[::]:0": "loopback addresses only",
		"example.com:0": "loopback addresses only", "8080": "write it as host:port",
	} {
		l, err := listen(address)
		if err == nil {
			if got := l.Addr().String(); !strings.HasPrefix(got, "127.0.0.") {
				t.Errorf("%s: %s", address, got)
			}
			_ = l.Close()
		}
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestAnnounce: Enter makes another address.
func TestAnnounce(t *testing.T) {
	b, _, _ := started(t)
	var out strings.Builder
	b.console.Announce(strings.NewReader("\n\n"), &out, "/parked", nil)
	if n := strings.Count(out.String(), "/open?to=%2Fparked#"); n != 3 {
		t.Errorf("%d addresses in\n%s", n, out.String())
	}
	out.Reset()
	file := ""
	b.console.Announce(strings.NewReader(""), &out, "", func(path string) error { file = path; return nil })
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	token, _, _ := strings.Cut(tokenOf(t, string(text)), `"`)
	if strings.Contains(out.String(), token) {
		t.Error("the address is on the terminal, too")
	}
	b.cookie = nil
	if w := b.request("POST", "/open", url.Values{"token": {token}}, nil); w.Code != 204 {
		t.Errorf("the token of the file: %d", w.Code)
	}
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("the file of a used token: %v", err)
	}
}

// TestReusedToken: a token that is used again ends all sessions, with their streams.
func TestReusedToken(t *testing.T) {
	b, f, _ := started(t)
	f.set("/parked/list.json", []any{})
	reported := 0
	b.console.access.reused = func() { reported++ }
	s, _ := b.console.access.session([]*http.Cookie{b.cookie})
	form := url.Values{"token": {tokenOf(t, b.console.Address(""))}}
	if first := b.request("POST", "/open", form, nil); first.Code != 204 || b.request("GET", "/parked", nil, nil).Code != 200 {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	if again := b.request("POST", "/open", form, nil); again.Code != 403 || reported != 1 || s.ctx.Err() == nil {
		t.Errorf("%d, reported %d times, the session: %v", again.Code, reported, s.ctx.Err())
	}
	if w := b.request("GET", "/parked", nil, nil); w.Code != 403 {
		t.Errorf("a page of the first session: %d", w.Code)
	}
}

// TestVendored: the files of htmx are as it was released.
func TestVendored(t *testing.T) {
	for name, want := range map[string]string{
		"htmx.min.js":   "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130", // htmx.org 4.0.1, dist/htmx.min.js
		"hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103", // dist/ext/hx-sse.min.js
	} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the checksum %x", name, sum)
		}
	}
}
