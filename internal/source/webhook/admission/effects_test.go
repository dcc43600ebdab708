package admission

import (
	"context"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// noted is a hook that allows everything; it keeps the reviews.
type noted struct{ reviews []Review }

func (n *noted) Admit(_ context.Context, r Review) (*effect.AdmissionAnswer, error) {
	n.reviews = append(n.reviews, r)
	return allow, nil
}

// Dry runs have no effects.
func TestEffectsOfReviews(t *testing.T) {
	for body, none := range map[string]bool{minimal: false, `{"request":{"uid":"1","dryRun":true}}`: true} {
		hook := &noted{}
		handler, _ := newHandler(t, Options{Runner: hook}, "validating a.sh a.acme.dev")
		if status, text := post(t.Context(), handler, path, body); status != 200 || len(hook.reviews) != 1 || hook.reviews[0].NoEffects != none {
			t.Errorf("%s: %d %s, %+v", body, status, text, hook.reviews)
		}
	}
}

// Registered paths end in the token, by Service and by URL; errors of the API server that quote it do not show it.
func TestRegisteredToken(t *testing.T) {
	secret := strings.Repeat("0a", 32)
	token := func(path string) string { return secret }
	for _, target := range []keep.Target{{Service: svc}, {URL: "https://x"}} {
		target.Token = token
		r, _ := newRegistrar(t, RegistrarOptions{Hooks: full(), Target: target})
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
	if status, text := post(t.Context(), handler, "/hooks/other/"+secret, minimal); status != 503 ||
		strings.Contains(text+log.String(), secret) {
		t.Errorf("%d %s %s", status, text, log)
	}
}
