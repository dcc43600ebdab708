package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
)

// Operator is what the console asks of a running operator: the debug API. It connects by itself, again when it has to.
type Operator interface {
	// Get returns the body for a path, Post that for a form. The caller closes it.
	Get(ctx context.Context, path string) (io.ReadCloser, error)
	Post(ctx context.Context, path string, form url.Values) (io.ReadCloser, error)
}

// refused reports whether an error of an Operator is its answer: then the connection works.
func refused(err error) bool {
	var answer interface{ Answered() bool }
	return errors.As(err, &answer) && answer.Answered()
}

// Bounds of an answer: its time limit unless Options have another one, and its size.
const (
	answerLimit = 10 * time.Second
	answerBytes = 64 << 20
)

// link is the way to the operator. Without a page, nothing is requested.
type link struct {
	operator Operator
	now      func() time.Time
	// limit is the time limit of an answer.
	limit time.Duration

	mu sync.Mutex
	// since is when the operator did not answer any more; zero while it does.
	since time.Time
}

// lost is the error of a request without an operator.
type lost struct {
	since time.Time
	error
}

func (l *lost) Unwrap() error { return l.error }

func newLink(o *Options) *link {
	return &link{operator: o.Operator, now: o.now, limit: cmp.Or(o.Timeout, answerLimit)}
}

// problemOf is the error of a request for a path, nil for none.
func (l *link) problemOf(path string, err error) error {
	route, _, _ := strings.Cut(path, "?")
	route = strings.TrimSuffix(route, ".json")
	switch {
	case errors.Is(err, context.Canceled):
		return err // the browser has left
	case err == nil, refused(err), errors.Is(err, errAnswer):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.since = time.Time{}
		return err
	case errors.Is(err, context.DeadlineExceeded):
		err = &debug.Problem{Text: fmt.Sprintf("it has not answered %s within %s", route, l.limit),
			Next: "it is stopped or busy, or its API server is slow: check its CPU time and its log, or start the console with a longer --timeout"}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.since = l.now()
	}
	return &lost{l.since, err}
}

// get reads JSON.
func (l *link) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	return l.problemOf(path, read(into)(l.operator.Get(ctx, path)))
}

// post sends a form and reads JSON.
func (l *link) post(ctx context.Context, path string, form url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	return l.problemOf(path, read(into)(l.operator.Post(ctx, path, form)))
}

// stream returns an answer without end.
func (l *link) stream(ctx context.Context, path string) (io.ReadCloser, error) {
	body, err := l.operator.Get(ctx, path)
	return body, l.problemOf(path, err)
}

// errAnswer is the error of an answer that is none.
var errAnswer = errors.New("cannot read the answer of the operator")

// read decodes an answer in JSON.
func read(into any) func(io.ReadCloser, error) error {
	return func(body io.ReadCloser, err error) error {
		if err != nil {
			return err
		}
		defer body.Close()
		limited := &io.LimitedReader{R: body, N: answerBytes}
		err = json.NewDecoder(limited).Decode(into)
		switch {
		case err == nil:
			return nil
		case limited.N <= 0:
			return fmt.Errorf("%w: it has more than %d MiB", errAnswer, answerBytes>>20)
		case errors.As(err, new(*json.SyntaxError)), errors.As(err, new(*json.UnmarshalTypeError)):
			return fmt.Errorf("%w: %w", errAnswer, err)
		}
		return fmt.Errorf("its answer has no end: %w", err) // such as the answer of an operator that ends
	}
}
