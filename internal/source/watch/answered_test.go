package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

var (
	pods = stream.Scope{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}

	errForbidden   = apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no"))
	errNotFound    = apierrors.NewNotFound(pods.GroupResource(), "")
	errUnreachable = &url.Error{Op: "Get", URL: "https://x/", Err: io.EOF}
	errExpired     = apierrors.NewResourceExpired("too old")
)

// answer is how the API server took a request.
type answer struct {
	verb string
	err  error
}

// TestAnswered shows where problems of requests are reported: to the caller of Enable until the initial list is
// complete, later in the log, and each once. They are in testdata/answered.golden.
func TestAnswered(t *testing.T) {
	var all strings.Builder
	for _, test := range []struct {
		name    string
		filling bool
		answers []answer
	}{
		{"all is well", false, []answer{{"watch", nil}, {"watch", nil}, {"list", nil}}},
		{"the end of a long watch", false, []answer{{"watch", nil}, {"watch", errExpired}, {"watch", nil}}},
		{"an outage", false, []answer{{"watch", nil}, {"watch", errUnreachable}, {"watch", errUnreachable}, {"watch",
			errUnreachable}, {"watch", nil}, {"watch", nil}}},
		{"two outages", false, []answer{{"watch", errUnreachable}, {"watch", nil}, {"watch", errUnreachable}, {"watch", nil}}},
		{"another trouble after the first", false, []answer{{"watch", errUnreachable}, {"watch", errForbidden}, {"watch",
			errExpired}, {"watch", errForbidden}}},
		{"watch is forbidden, list is not", false, []answer{{"watch", errForbidden}, {"list", nil}, {"watch", errForbidden},
			{"list", nil}}},
		{"a first set without permission", true, []answer{{"list", errForbidden}, {"list", errForbidden}}},
		{"a first set of something that is not served", true, []answer{{"list", errNotFound}, {"list", errNotFound}}},
		{"a first set in an outage", true, []answer{{"watch", errUnreachable}, {"watch", errUnreachable}, {"list", errUnreachable}}},
	} {
		fmt.Fprintf(&all, "# %s\n", test.name)
		for _, text := range said(test.filling, test.answers) {
			fmt.Fprintln(&all, text)
		}
		all.WriteString("\n")
	}
	golden.Compare(t, "testdata/answered.golden", all.String())
}

func said(isFilling bool, answers []answer) []string {
	var got []string
	log := slog.New(sayer{slog.DiscardHandler, func(r slog.Record) {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "error" {
				text = a.Value.String()
			}
			return true
		})
		got = append(got, r.Level.String()+" "+text)
	}})
	m := newMonitor(&hook.Hook{Kubernetes: make([]hook.Kubernetes, 1)}, 0, nil, nil, log)
	if !isFilling {
		m.phase = locked
	}
	m.stuck = func(err error) { got = append(got, "stuck: "+err.Error()) }
	sub := &stream.Subscription{Consumer: m, Scope: pods}
	m.expect(sub, source{})
	for _, a := range answers {
		m.Answered(sub, a.verb, a.err)
	}
	return got
}

// sayer hands records on.
type sayer struct {
	slog.Handler
	say func(slog.Record)
}

func (s sayer) Enabled(context.Context, slog.Level) bool { return true }
func (s sayer) Handle(_ context.Context, r slog.Record) error {
	s.say(r)
	return nil
}

// Namespaces come and go for years; what is remembered of their streams goes with them.
func TestTroublesAreForgotten(t *testing.T) {
	w := newStage(t)
	for _, command := range []string{"binding b", "join b home", "list home"} {
		w.do(strings.Fields(command))
	}
	m := w.bindings["b"].monitor
	for range 10 {
		w.do(strings.Fields("join b visitor"))
		sub := w.bindings["b"].subs["visitor"]
		m.Answered(sub, "watch", nil)
		m.Answered(sub, "list", errForbidden)
		w.do(strings.Fields("leave b visitor"))
		m.Answered(sub, "watch", errUnreachable) // a request that was still on its way
	}
	if len(m.subs) != 1 || len(m.subs.failing()) != 0 {
		t.Errorf("%d subscriptions and %q are remembered", len(m.subs), m.subs.failing())
	}
}
