package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

const (
	// reviewInterval is the time between two reviews of a binding that is allowed. One that is not is reviewed each deniedSoon, for
	// deniedSoonFor, and then each deniedLater.
	reviewInterval          = 10 * time.Minute
	deniedSoon, deniedLater = time.Second, 30 * time.Second
	deniedSoonFor           = time.Minute
	// reviewTimeout is that of a request. A binding may need thousands, which wait for the rate limit of their client.
	reviewTimeout = 10 * time.Second
	// admissionTimeout is that of the review of a namespace that appears: its stream waits, which others share.
	admissionTimeout         = time.Second
	reviewsInFlight          = 8
	shownDenials             = 3
	listVerb, watchVerb      = "list", "watch"
	selectedNamespacesOfPage = 500
)

// guard decides whether a binding of a tenant has objects: if the account of the tenant may list and watch what the binding declares,
// whatever the streams have that serve it. A nil guard allows everything.
type guard struct {
	address
	watcher *Watcher
	stuck   func(error)
	account kube.Account
	// ctx ends with the binding, ended is closed when its goroutine has ended.
	ctx   context.Context
	end   func()
	ended chan struct{}
	// recheck has a token when a review has to be made now. Its capacity is 1.
	recheck chan struct{}

	mu       sync.Mutex // guards what follows
	allowed  bool
	resource kube.Resource
	// wide: all namespaces are allowed. Otherwise namespaces are those that are.
	wide       bool
	namespaces map[string]bool
	// lacking are the namespaces that the last review has denied.
	lacking []string
	// refused: a namespace was not admitted when it appeared.
	refused bool
}

// deniedError is a missing permission of a tenant's account.
type deniedError struct{ text string }

func (e *deniedError) Error() string { return e.text }

// guardOf returns the guard of a binding; nil if it has none.
func (w *Watcher) guardOf(a address) *guard {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guards[a]
}

// Denied reports that the account of a hook may not read the objects of a binding, which therefore has none.
func (w *Watcher) Denied(h *hook.Hook, index int) bool {
	g := w.guardOf(address{h, index})
	return g != nil && !g.isAllowed()
}

// Review has the permissions of bindings reviewed that are denied.
func (w *Watcher) Review() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.guards {
		if !g.isAllowed() {
			g.review()
		}
	}
}

func (g *guard) review() {
	select {
	case g.recheck <- struct{}{}:
	default:
	}
}

// enableGuarded enables a binding if the account may read its objects. Otherwise it is denied, which is no error: it is enabled when that
// has changed.
func (w *Watcher) enableGuarded(ctx context.Context, h *hook.Hook, index int, stuck func(error)) error {
	a := address{h, index}
	g := &guard{address: a, watcher: w, stuck: stuck, account: w.opts.Account(h), ended: make(chan struct{}), recheck: make(chan struct{}, 1)}
	g.ctx, g.end = context.WithCancel(ctx)
	w.mu.Lock()
	w.guards[a] = g
	w.mu.Unlock()
	err := w.retry(ctx, a, stuck, func() (err error) {
		g.resource, err = w.resolver.Resolve(ctx, h.Kubernetes[index].APIVersion, h.Kubernetes[index].Kind, listVerb, watchVerb)
		return err
	})
	if err == nil {
		err = g.decide(true)
	}
	if err == nil && w.spawn(g.run) {
		return nil
	}
	g.end()
	close(g.ended)
	return err
}

// run reviews the permissions again and again, until the binding or the Watcher ends.
func (g *guard) run(ctx context.Context) {
	defer close(g.ended)
	defer g.end()
	defer context.AfterFunc(ctx, g.end)()
	clock := g.watcher.opts.Clock
	since := clock.Now()
	for {
		wait := reviewInterval
		if !g.isSettled() {
			if wait = deniedLater; clock.Since(since) < deniedSoonFor {
				wait = deniedSoon
			}
		}
		timer := clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-g.recheck:
		case <-g.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		settled, was := g.isSettled(), g.isAllowed()
		if g.decide(false) != nil {
			return
		}
		if settled && !g.isSettled() || was && !g.isAllowed() {
			since = clock.Now()
		}
	}
}

// isSettled reports whether the last review has allowed the binding.
func (g *guard) isSettled() bool {
	g.watcher.mu.Lock()
	trouble := g.watcher.unresolved[g.address]
	g.watcher.mu.Unlock()
	return g.isAllowed() && trouble == ""
}

// decide reviews the permissions, and enables or ends the binding if they have changed. Without an answer it stays as it is; at the first
// time that is denied. An error is that of the end of the binding.
func (g *guard) decide(first bool) error {
	err := g.ask()
	if g.ctx.Err() != nil {
		return g.ctx.Err()
	}
	was := g.isAllowed()
	denied := errors.As(err, new(*deniedError))
	switch {
	case err == nil && !was:
		g.watcher.note(g.address, "")
		g.forgetRefused()
		// Until the initial list is complete, runs that include the binding wait.
		if err := g.watcher.enable(g.ctx, g.hook, g.index, g.stuck); err != nil {
			return err
		}
		g.set(true)
		if !first {
			g.watcher.opts.Log.Info("The account of the tenant may read the objects of the binding now", "hook", g.hook.Name,
				"binding", g.hook.Kubernetes[g.index].Name)
			g.watcher.opts.Granted(g.hook, g.index)
		}
	case err == nil:
		g.watcher.note(g.address, "")
		g.subscribeAdmitted()
	case denied && was:
		g.set(false)
		g.watcher.note(g.address, err.Error())
		if m := g.watcher.monitor(g.hook, g.index); m != nil {
			m.mute()
		}
		g.watcher.disable(g.address)
		g.watcher.opts.Log.Error("The account of the tenant may not read the objects of the binding any more: it ends", "hook", g.hook.Name,
			"binding", g.hook.Kubernetes[g.index].Name, "error", err.Error())
		g.watcher.opts.Denied(g.hook, g.index)
	case first:
		g.watcher.note(g.address, err.Error())
		g.stuck(err)
		g.watcher.opts.Denied(g.hook, g.index)
	default:
		g.watcher.note(g.address, err.Error())
	}
	return nil
}

func (g *guard) isAllowed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.allowed
}

// set stores the decision.
func (g *guard) set(allowed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allowed = allowed
}

// ask reviews the permissions for what the binding declares: for all namespaces, or for each. An error is a *deniedError, or there is no
// answer.
func (g *guard) ask() error {
	wide, err := g.mayRead("", reviewTimeout)
	if err != nil {
		return err
	}
	allowed := map[string]bool{}
	b := &g.hook.Kubernetes[g.index]
	if !wide {
		namespaces := b.Namespaces.Names
		if b.Namespaces.ByLabels && g.resource.Namespaced {
			if namespaces, err = g.selected(); err != nil {
				return err
			}
		} else if len(namespaces) == 0 || !g.resource.Namespaced {
			return g.denial([]string{""})
		}
		// Those that were denied are first: while one of them is, a denied binding that is asked often asks for no others.
		lacking := slices.DeleteFunc(slices.Clone(g.lacking), func(name string) bool { return !slices.Contains(namespaces, name) })
		for _, some := range [][]string{lacking, namespaces} {
			var denied []string
			if allowed, denied, err = g.each(some); err != nil {
				return err
			}
			if g.lacking = denied; len(denied) > 0 {
				return g.denial(denied)
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wide, g.namespaces = wide, allowed
	return nil
}

// each reviews namespaces one by one. It ends with the first error: each of the others could take as long.
func (g *guard) each(namespaces []string) (allowed map[string]bool, denied []string, err error) {
	may, errs := make([]bool, len(namespaces)), make([]error, len(namespaces))
	var failed atomic.Bool
	kube.Concurrently(len(namespaces), reviewsInFlight, func(i int) {
		if failed.Load() {
			return
		}
		if may[i], errs[i] = g.mayRead(namespaces[i], reviewTimeout); errs[i] != nil {
			failed.Store(true)
		}
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, nil, err
	}
	allowed = map[string]bool{}
	for i, namespace := range namespaces {
		if allowed[namespace] = may[i]; !may[i] {
			denied = append(denied, namespace)
		}
	}
	return allowed, denied, nil
}

// denial names the rules that the account lacks.
func (g *guard) denial(namespaces []string) error {
	rule := kube.Rule{Group: g.resource.Group, Resource: g.resource.Resource, Names: g.hook.Kubernetes[g.index].Names,
		Verbs: []string{listVerb, watchVerb}}
	text := ""
	for i, namespace := range namespaces {
		if i == shownDenials {
			text += fmt.Sprintf("; and in %d more namespaces", len(namespaces)-i)
			break
		}
		text += "; " + g.account.Grant(namespace, rule)
	}
	return &deniedError{fmt.Sprintf("the account of tenant %q may not list and watch %s: %s", g.hook.Tenant.Name,
		g.resource.Resource, text[2:])}
}

// mayRead reviews the permissions for a namespace; empty means all of them. With names, each of them has to be allowed.
func (g *guard) mayRead(namespace string, timeout time.Duration) (bool, error) {
	for _, name := range orAll(g.hook.Kubernetes[g.index].Names) {
		for _, verb := range []string{listVerb, watchVerb} {
			ctx, cancel := context.WithTimeout(g.ctx, timeout)
			ok, err := allowed(ctx, g.account.Client, authorization.ResourceAttributes{
				Namespace: namespace, Name: name, Verb: verb, Group: g.resource.Group, Version: g.resource.Version, Resource: g.resource.Resource,
			})
			cancel()
			if !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// selected lists the namespaces that the labels of the binding select, as the operator.
func (g *guard) selected() (names []string, err error) {
	ctx, cancel := context.WithTimeout(g.ctx, reviewTimeout)
	defer cancel()
	next := ""
	for {
		options := &metav1.ListOptions{LabelSelector: g.hook.Kubernetes[g.index].Namespaces.Labels, Limit: selectedNamespacesOfPage,
			Continue: next}
		text, err := kube.Send(ctx, g.watcher.client.Get().AbsPath("/api/v1/namespaces").
			SpecificallyVersionedParams(options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}))
		if err != nil {
			return nil, fmt.Errorf("cannot list the namespaces of the binding: %w", err)
		}
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []struct {
				Metadata struct{ Name string } `json:"metadata"`
			} `json:"items"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("cannot list the namespaces of the binding: %w", err)
		}
		for _, n := range page.Items {
			names = append(names, n.Metadata.Name)
		}
		if next = page.Metadata.Continue; next == "" {
			slices.Sort(names)
			return names, nil
		}
	}
}

// admit reports whether the binding may have the objects of a namespace that its labels select. For one that has not been reviewed it asks
// once. If that is denied, or there is no answer, the binding is reviewed as a whole; until then, others that appear do not ask.
func (g *guard) admit(namespace string) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	known, refused := g.wide || g.namespaces[namespace], g.refused
	g.mu.Unlock()
	if known {
		return true
	}
	if !refused {
		if ok, err := g.mayRead(namespace, admissionTimeout); ok && err == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.namespaces[namespace] = true
			return true
		}
	}
	g.mu.Lock()
	g.refused = true
	g.mu.Unlock()
	g.review()
	return false
}

// subscribeAdmitted subscribes the binding again after a namespace was not admitted when it appeared, and is allowed now.
func (g *guard) subscribeAdmitted() {
	m := g.watcher.monitor(g.hook, g.index)
	if refused := g.forgetRefused(); m != nil && refused {
		p := g.watcher.narrowPlan(m, g.resource)
		g.watcher.follow(m, &p)
	}
}

// forgetRefused lets namespaces that appear be asked about again, and reports whether one was refused.
func (g *guard) forgetRefused() (was bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was, g.refused = g.refused, false
	return was
}
