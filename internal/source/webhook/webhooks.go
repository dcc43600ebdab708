package webhook

import (
	"context"
	"maps"
	"runtime"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// prepareWebhooks listens for the kinds that hooks need for the first time, and creates handlers.
func (w *Servers) prepareWebhooks(ctx context.Context, r *Renewal, hooks []*hook.Hook) error {
	if w.o.Webhooks.NoRegistration {
		if names := namesOf(hooks, hook.OnValidating, hook.OnMutating, hook.OnConversion); len(names) > 0 {
			w.o.Log.Info("No webhook is served or registered in this mode", "hooks", names)
		}
		return nil
	}
	admits, converts := len(namesOf(hooks, hook.OnValidating, hook.OnMutating)) > 0, len(namesOf(hooks, hook.OnConversion)) > 0
	if !admits && w.admission == nil && w.o.Cluster.Inside {
		r.registrars = append(r.registrars, part{webhooks, w.removeLeftovers})
	}
	if admits && converts {
		if err := w.o.Webhooks.checkURLs(); err != nil {
			return err
		}
	}
	if admits || w.admission != nil {
		if err := w.prepareAdmission(ctx, r, hooks); err != nil {
			return err
		}
	}
	if converts || w.conversion != nil {
		if err := w.prepareConversion(ctx, r, hooks); err != nil {
			return err
		}
	}
	return nil
}

// target is what leads to a server.
func (w *Servers) target(s *served) keep.Target {
	return keep.Target{
		Client: w.client, Service: s.service, URL: s.url, Leading: w.o.Leading, Ready: w.o.Ready, Stuck: w.o.Stuck,
		Bundle: s.certificates.Bundle, Token: s.paths.Token, CertManager: w.o.Webhooks.CertManager, Log: w.o.Log,
		Changes: []func() <-chan struct{}{s.certificates.Changed, s.paths.Changed, w.o.ReadyChanged},
		Seen: func(object string, paths []string, open bool) {
			if !open || w.pathFile == nil { // where paths have the secret of a file, none is served without it
				s.handler.registered.set(object, paths, open)
				kube.Wake(w.changed)
			}
		},
		Report: func(kind hook.Kind, hooks []string, object string, err error) {
			w.registrations.report(kind, hooks, object, s.unprotected(object, err))
		},
	}
}

// inFlight is how many requests an API server has in flight at most, by default: all of them may wait for a hook.
const inFlight = 600

func (w *Servers) prepareAdmission(ctx context.Context, r *Renewal, hooks []*hook.Hook) error {
	o := w.o
	handler := admission.New(admission.Options{
		Hooks: hooks, Ready: o.Ready, Runner: o.Reviews, Meter: o.Meter, Log: o.Log,
		Limits:               o.intake.Limits(16, inFlight),
		DefaultFailurePolicy: o.Webhooks.FailurePolicy,
	})
	s, err := w.serve(ctx, r, &w.admission, &w.admits, o.Webhooks.Admission, "admissionWebhook")
	if err != nil {
		return err
	}
	registrar := admission.NewRegistrar(admission.RegistrarOptions{
		Target: w.target(s), Inside: o.Cluster.Inside, Hooks: hooks, ConfigurationName: o.Webhooks.ConfigurationName,
		DefaultFailurePolicy: o.Webhooks.FailurePolicy, ExcludeNamespaces: o.Webhooks.ExcludeNamespaces,
		ExcludeUsers: o.Webhooks.ExcludeUsers, ExcludeGroups: o.Webhooks.ExcludeGroups, Left: &w.registrations.left,
	})
	if err := registrar.Check(ctx); err != nil {
		return err
	}
	r.handlers = append(r.handlers, placed{s.handler, &version{answerer: handler, hooks: hooks}})
	r.registrars = append(r.registrars, part{webhooks, registrar.Run})
	return nil
}

func (w *Servers) prepareConversion(ctx context.Context, r *Renewal, hooks []*hook.Hook) error {
	o := w.o
	handler := conversion.NewHandler(conversion.Options{
		Hooks: hooks, Ready: o.Ready, Runner: o.Reviews, Meter: o.Meter, Log: o.Log,
		Limits: o.intake.Limits(max(4, 2*runtime.GOMAXPROCS(0)), inFlight),
	})
	s, err := w.serve(ctx, r, &w.conversion, &w.converts, o.Webhooks.Conversion, "conversionWebhook")
	if err != nil {
		return err
	}
	registrar := conversion.NewRegistrar(conversion.RegistrarOptions{Target: w.target(s), Hooks: hooks, Converted: o.Converted,
		Earlier: slices.Collect(maps.Keys(w.converted))})
	registrar.Look(ctx)
	for _, h := range hooks {
		for _, c := range h.Conversions {
			w.converted[c.CRDName] = true
		}
	}
	r.handlers = append(r.handlers, placed{s.handler, &version{answerer: handler, hooks: hooks}})
	r.registrars = append(r.registrars, part{webhooks, registrar.Run})
	return nil
}
