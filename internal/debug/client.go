package debug

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Client calls the debug API of a running operator, each time on a connection of its own.
type Client struct {
	http *http.Client
	// where is what a request that gets no answer was sent to.
	where string
}

// Problem is an error with the next step: of the operator, as it travels to the client, or of the connection.
type Problem struct {
	Text string `json:"error"`
	// Next is the next step.
	Next string `json:"hint,omitempty"`
	// Code is empty if no operator has answered.
	Code   code `json:"code"`
	status int
	cause  error
}

func (p *Problem) Error() string { return p.Text }

// Hint is the next step.
func (p *Problem) Hint() string { return p.Next }

func (p *Problem) Unwrap() error { return p.cause }

// Answered reports that an operator has answered: the connection works.
func (p *Problem) Answered() bool { return p.Code != "" }

// NewClient returns a Client with a time limit for the connection and for the beginning of an answer.
func NewClient(place Place, timeout time.Duration) *Client {
	return &Client{where: place.where(), http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return place.Dial(ctx)
		},
		DisableKeepAlives: true, ResponseHeaderTimeout: timeout,
	}}}
}

func (p Place) where() string { return "the debug socket " + p.sockets()[0] }

// Dial connects to the first socket with a listener. Without one, it returns the most specific error.
func (p Place) Dial(ctx context.Context) (net.Conn, error) {
	var worst *Problem
	sockets := p.sockets()
	for i, path := range sockets {
		var err error
		if i > 0 { // a socket in a directory that another user could have created is not trusted
			err = checkPrivate(filepath.Dir(path))
		}
		if err == nil || errors.Is(err, os.ErrNotExist) {
			var conn net.Conn
			if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
				if err = checkListener(conn, path); err == nil {
					return conn, nil
				}
				conn.Close()
			}
		}
		if worst == nil || isMissing(worst) {
			worst = problem(path, err)
		}
	}
	if isMissing(worst) {
		return nil, missing(sockets, worst)
	}
	return nil, worst
}

// errReplaced reports a socket that another process has put in the place of the operator's.
var errReplaced = errors.New("its listener is not the only one that has taken this path")

func missing(sockets []string, cause error) error {
	return &Problem{
		Text: fmt.Sprintf("no operator is listening: there is no socket at %s", strings.Join(sockets, " or ")),
		Next: "is the operator running, here and as this user? In a Pod use kubectl exec. For another path set --debug-unix-socket or " +
			"DEBUG_UNIX_SOCKET", cause: cause,
	}
}

func isMissing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func problem(path string, err error) *Problem {
	switch {
	case errors.Is(err, errReplaced):
		return &Problem{Text: "the debug socket " + path + " is not that of the operator: " + err.Error(),
			Next: "another process, such as a hook, listens in its place: restart the operator, and find that process", cause: err}
	case isMissing(err):
		return &Problem{Text: "there is no socket at " + path, cause: err}
	case errors.Is(err, os.ErrPermission):
		return &Problem{Text: "the debug socket " + path + " belongs to another user",
			Next: "run the command as the user of the operator, for instance with sudo -u", cause: err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Problem{Text: "nothing listens on the debug socket " + path + ": its operator has ended",
			Next: "start the operator, it replaces the old socket", cause: err}
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return busy("the debug socket "+path, err)
	}
	return &Problem{Text: fmt.Sprintf("cannot reach the operator by the debug socket %s: %v", path, err), cause: err}
}

func busy(where string, err error) *Problem {
	return &Problem{Text: "the operator does not answer on " + where,
		Next: "it is busy, or stopped: check its CPU time and its log, or wait longer with --timeout", cause: err}
}

// Get returns the body for a path, which may have a query. The caller closes it.
func (c *Client) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.do(ctx, http.MethodGet, path, nil)
}

// Post sends a form and returns the body of the answer. The caller closes it.
func (c *Client) Post(ctx context.Context, path string, form url.Values) (io.ReadCloser, error) {
	return c.do(ctx, http.MethodPost, path, form)
}

func (c *Client) do(ctx context.Context, method, path string, form url.Values) (io.ReadCloser, error) {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://operator"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, &Problem{Text: fmt.Sprintf("%q is not a path: %v", path, err), Next: "write it as /queue/main.yaml", cause: err}
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", contentTypes[jsonFormat]) // of errors; the format of answers is in the path
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return nil, refusalOf(res.StatusCode, text)
}

func (c *Client) failure(ctx context.Context, err error) error {
	var known *Problem
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		return known
	case errors.As(err, &timeout) && timeout.Timeout():
		return busy(c.where, err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &Problem{Text: "the operator closed the connection", Next: "it is shutting down, or another program listens on the socket",
			cause: err}
	}
	return &Problem{Text: "cannot call the operator: " + err.Error(), cause: err}
}

// refusalOf is the error in the answer of an operator. The text of another program is the problem.
func refusalOf(status int, answer []byte) error {
	var p Problem
	if json.Unmarshal(answer, &p) != nil || p.Text == "" {
		p = Problem{Text: cmp.Or(strings.TrimSpace(string(answer)), http.StatusText(status))}
	}
	return &p
}

// Name escapes a hook's name for a path: slashes stay.
func Name(hook string) string { return (&url.URL{Path: hook}).EscapedPath() }
