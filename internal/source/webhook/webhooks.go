package webhook

import (
	"cmp"
	"context"
	"runtime"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
)

// prepareWebhooks listens for the kinds that hooks need for the first time, and creates handlers.
func (w *Servers) prepareWebhooks(ctx context.Context, r *Renewal, hooks []*hook.Hook) error {
	if w.o.Webhooks.NoRegistration {
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

// registers is closed when this replica registers. Only the leader registers the address of one replica, or replicas would overwrite each
// other forever.
func (w *Servers) registers(s *served) <-chan struct{} {
	if s.url == "" {
		return nil
	}
	return w.o.Leading
}

// seen receives the paths that are registered for a server. Where paths have the secret of a file, none is served without it.
func (w *Servers) seen(s *served, object string, paths []string, open bool) {
	if !open || w.pathFile == nil {
		s.registered.set(object, paths, open)
	}
}

func (w *Servers) prepareAdmission(ctx context.Context, r *Renewal, hooks []*hook.Hook) error {
	o := w.o
	handler, err := admission.New(admission.Options{
		Hooks: hooks, Ready: o.Ready, Runner: o.Reviews, Meter: o.Meter, Log: o.Log,
		Limits:               o.intake.Limits(cmp.Or(o.Webhooks.Parallel, 16), 256), // the API server has some 600 in flight at most
		DefaultFailurePolicy: o.Webhooks.FailurePolicy,
	})
	if err != nil {
		return err
	}
	s, err := w.serve(ctx, r, &w.admission, o.Webhooks.Admission, "admissionWebhook")
	if err != nil {
		return err
	}
	registrar, err := admission.NewRegistrar(admission.RegistrarOptions{
		Client: w.client, Hooks: hooks, Ready: o.Ready, Leading: w.registers(s),
		Seen:              func(object string, paths []string, open bool) { w.seen(s, object, paths, open) },
		ConfigurationName: o.Webhooks.ConfigurationName, Served: &w.registrations.served,
		Service: admission.Service{Name: s.service, Namespace: s.namespace}, URL: s.url, Inside: o.Cluster.Inside,
		Bundle: s.certificates.Bundle, Token: s.paths.Token,
		Changes:              []func() <-chan struct{}{s.certificates.Changed, s.paths.Changed, o.ReadyChanged},
		CertManager:          o.Webhooks.CertManager,
		DefaultFailurePolicy: o.Webhooks.FailurePolicy, ExcludeNamespaces: o.Webhooks.ExcludeNamespaces,
		ExcludeUsers: o.Webhooks.ExcludeUsers, ExcludeGroups: o.Webhooks.ExcludeGroups, Log: o.Log,
		Report: func(kind hook.Kind, hooks []string, configuration string, err error) {
			w.reportAdmission(kind, hooks, configuration, s.unprotected(configuration, err))
		},
	})
	if err != nil {
		return err
	}
	if err := registrar.Check(ctx); err != nil {
		return err
	}
	r.handlers = append(r.handlers, placed{&s.handler, handler})
	r.registrars = append(r.registrars, part{webhooks, registrar.Run})
	return nil
}

// reportAdmission records why a webhook configuration cannot be written.
func (w *Servers) reportAdmission(kind hook.Kind, hooks []string, configuration string, err error) {
	u := Unregistered{Kind: kind, Hooks: hooks, Subject: configuration, Err: err}
	if len(hooks) == 0 {
		u.Kind, u.Left = "", true // it is about no binding
	}
	w.registrations.report(u)
}

// crdSubject begins the names of registrations of conversion.
const crdSubject = "CustomResourceDefinition "

func (w *Servers) prepareConversion(ctx context.Context, r *Renewal, hooks []*hook.Hook) error {
	o := w.o
	handler := conversion.NewHandler(conversion.Options{
		Hooks: hooks, Ready: o.Ready, Runner: o.Reviews, Meter: o.Meter, Log: o.Log,
		Limits: o.intake.Limits(cmp.Or(o.Webhooks.Parallel, max(4, 2*runtime.GOMAXPROCS(0))), 100),
	})
	s, err := w.serve(ctx, r, &w.conversion, o.Webhooks.Conversion, "conversionWebhook")
	if err != nil {
		return err
	}
	registrar := conversion.NewRegistrar(conversion.RegistrarOptions{
		Client: w.client, Hooks: hooks, Ready: o.Ready, Leading: w.registers(s),
		Seen:    func(crd string, paths []string, open bool) { w.seen(s, crdSubject+crd, paths, open) },
		Service: conversion.Service{Name: s.service, Namespace: s.namespace}, URL: s.url,
		Bundle: s.certificates.Bundle, Token: s.paths.Token,
		Changes:     []func() <-chan struct{}{s.certificates.Changed, s.paths.Changed, o.ReadyChanged},
		CertManager: o.Webhooks.CertManager, Log: o.Log,
		Report: func(hooks []string, crd string, err error) {
			w.registrations.report(Unregistered{Kind: hook.OnConversion, Hooks: hooks, Subject: crdSubject + crd,
				Err: s.unprotected(crdSubject+crd, err)})
		},
	})
	registrar.Look(ctx)
	r.handlers = append(r.handlers, placed{&s.handler, handler})
	r.registrars = append(r.registrars, part{webhooks, registrar.Run})
	return nil
}
