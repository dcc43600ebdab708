package testenv

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

// Address returns the address of the operator's own pages, as "http://host:port".
func (op *Operator) Address() string {
	op.t.Helper()
	at := op.UntilLog("base http server started")
	return "http://" + net.JoinHostPort(at.Fields["address"], at.Fields["port"])
}

// Page is one of the operator's own pages, whatever its status.
func (op *Operator) Page(path string) string {
	op.t.Helper()
	_, text := Get(op.t, op.Address()+path)
	return text
}

// Get requests an address over a connection of its own.
func Get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: test.Patience}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
