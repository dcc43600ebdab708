package admission

import (
	"context"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// noted is a hook that allows everything; it keeps the reviews.
type noted struct{ reviews []Review }

func (n *noted) Admit(_ context.Context, r Review) (*effect.AdmissionAnswer, error) {
	n.reviews = append(n.reviews, r)
	return allow, nil
}

// Reviews of callers that are not known have no effects, and dry runs never have.
func TestEffectsOfReviews(t *testing.T) {
	const dry = `{"request":{"uid":"1","dryRun":true}}`
	known := httpserver.WithKnown(t.Context())
	for _, test := range []struct {
		name string
		ctx  context.Context
		all  bool
		body string
		none bool
	}{
		{"a known caller", known, false, minimal, false},
		{"an unknown caller", t.Context(), false, minimal, true},
		{"an unknown caller with --review-effects=all", t.Context(), true, minimal, false},
		{"a dry run", known, false, dry, true},
		{"a dry run with --review-effects=all", known, true, dry, true},
	} {
		hook := &noted{}
		handler, _ := newHandler(t, Options{Runner: hook, AllEffects: test.all}, "validating a.sh a.acme.dev")
		if status, text := postUnknown(test.ctx, handler, path, test.body); status != 200 || len(hook.reviews) != 1 ||
			hook.reviews[0].NoEffects != test.none {
			t.Errorf("%s: %d %s, %+v", test.name, status, text, hook.reviews)
		}
	}
}

// Registered paths end in the token, by Service and by URL; errors of the API server that quote it do not show it.
func TestRegisteredToken(t *testing.T) {
	secret := strings.Repeat("0a", 32)
	token := func(path string) string { return secret }
	for _, o := range []RegistrarOptions{{Service: Service{"svc", "ns"}}, {URL: "https://x"}} {
		o.Hooks, o.Token = full(), token
		r, _ := newRegistrar(t, o)
		for _, k := range r.keepers {
			for i, w := range k.desired(nil, nil).Webhooks {
				path := k.webhooks[i].path + "/" + secret
				if c := w.ClientConfig; c.Service != nil && *c.Service.Path != path || c.URL != nil && *c.URL != "https://x"+path {
					t.Errorf("registered as %+v", c)
				}
			}
		}
	}
	handler, log := newHandler(t, Options{Runner: &noted{}}, "validating a.sh a.acme.dev")
	if status, text := post(t.Context(), handler, "/hooks/other/"+secret, minimal); status != 404 ||
		strings.Contains(text+log.String(), secret) {
		t.Errorf("%d %s %s", status, text, log)
	}
}
