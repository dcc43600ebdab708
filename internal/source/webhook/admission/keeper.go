package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// retryDelays are those after failed attempts; the last one is repeated.
var retryDelays = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, time.Minute}

const (
	// recheck is the polling interval without the permission to watch, and how long an object is left to an operator that started later, which
	// may have ended since.
	recheck = 5 * time.Minute
	// restoreEvery is the time between two writes that restore what another client has changed.
	restoreEvery = time.Minute
)

// keeper reconciles one object. The goroutine of run owns its fields, except for wake.
type keeper struct {
	opts     *RegistrarOptions
	kind     kind
	name     string
	webhooks []*webhook
	// started is when this operator started: it identifies the newer of two operators.
	started time.Time
	log     *slog.Logger

	// disputed is why another client's webhooks stay in the object for now; nil if they do not.
	disputed error
	// last are the webhooks that the object had when it was as desired.
	last []admissionregistration.MutatingWebhook
	// restored is when a change of another client was overwritten, later when the webhooks of an operator that started later were found.
	restored, later time.Time
	// left reports that webhooks of this operator were in the object when it was read last.
	left bool
	// wake has a token when the object, or what is desired, may have changed.
	wake chan struct{}
	// recheck, restoreEvery and delays are constants except in tests.
	recheck, restoreEvery time.Duration
	delays                []time.Duration
}

func newKeeper(o *RegistrarOptions, k kind, all []*webhook, started time.Time) *keeper {
	keeper := &keeper{
		opts: o, kind: k, name: o.ConfigurationName + "-hooks", started: started,
		wake: make(chan struct{}, 1), recheck: recheck, restoreEvery: restoreEvery, delays: retryDelays,
	}
	keeper.log = o.Log.With("kind", k.name, "name", keeper.name)
	for _, w := range all {
		if w.typ == k.typ {
			keeper.webhooks = append(keeper.webhooks, w)
		}
	}
	return keeper
}

// run reconciles the object until ctx ends. What fails is reported and tried again.
func (k *keeper) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	defer k.report(nil)

	failures := 0
	watch := sync.OnceFunc(func() { watching.Go(func() { k.watch(ctx) }) })
	for {
		ready := k.anyReady()
		again, err := k.reconcile(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			k.report(k.disputed)
			if ready && k.opts.led() == nil {
				k.opts.Served.Store(k.kind.typ.Kind(), true)
			}
			failures = 0
			watch()
		case len(k.webhooks) == 0 && apierrors.IsForbidden(err) && !k.left && !k.served():
			k.log.Debug("No permission to remove a configuration without bindings, if there is one", "error", k.explain(err).Error())
			return
		default:
			problem := "Cannot register webhooks. Will retry after delay."
			if len(k.webhooks) == 0 {
				problem = cannotRemove
				watch()
			}
			again = k.delays[min(failures, len(k.delays)-1)]
			failures++
			k.report(k.explain(err))
			k.log.Warn(problem, "error", k.explain(err).Error(), "delay", again.String(), "failedCount", failures)
		}
		if !kube.Wait(ctx, again, k.wake) {
			return
		}
	}
}

// check sends the object with the webhooks of all hooks as a dry run, and returns why the API server rejects it. Without an answer, or the
// permission, it returns nil: run will report that.
func (k *keeper) check(ctx context.Context) error {
	live, err := k.look(ctx)
	if err != nil {
		return nil
	}
	all, options := *k, *k.opts
	options.Ready = func(*hook.Hook) bool { return true }
	all.opts = &options
	want := all.desired(live, k.bundle(live))
	if live == nil {
		_, err = kube.SendJSON(ctx, k.opts.Client.Post().AbsPath(k.path("")...).Param("dryRun", "All").MaxRetries(0), want)
	} else {
		_, err = kube.SendJSON(ctx, k.opts.Client.Put().AbsPath(k.path(k.name)...).Param("dryRun", "All").MaxRetries(0), want)
	}
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsRequestEntityTooLargeError(err) {
		return nil
	}
	return k.culprit(err, want)
}

var webhookField = regexp.MustCompile(`^webhooks\[(\d+)\]\.?(.*)`)

// expression quotes that of a condition: the text of the API server, which has it, too, may be dropped.
func expression(b *hook.Admission, field string) string {
	var index int
	if n, _ := fmt.Sscanf(field, "matchConditions[%d].expression", &index); n == 0 || index >= len(b.MatchConditions) {
		return ""
	}
	return " " + strconv.Quote(b.MatchConditions[index].Expression)
}

// culprit names the hooks whose webhooks the API server rejects.
func (k *keeper) culprit(err error, want *configuration) error {
	var errs []error
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			match := webhookField.FindStringSubmatch(cause.Field)
			if match == nil {
				continue
			}
			index, _ := strconv.Atoi(match[1])
			for _, w := range k.webhooks {
				if index < len(want.Webhooks) && w.binding.Name == want.Webhooks[index].Name {
					errs = append(errs, fmt.Errorf("the API server rejects the webhook %q of hook %q: %s%s: %s", w.binding.Name, w.hook.Name,
						match[2], expression(w.binding, match[2]), cmp.Or(cause.Message, string(cause.Type))))
				}
			}
		}
	}
	if len(errs) == 0 {
		return k.explain(err)
	}
	return errors.Join(errs...)
}

// anyReady reports whether a hook with webhooks of the kind can answer.
func (k *keeper) anyReady() bool {
	return slices.ContainsFunc(k.webhooks, func(w *webhook) bool { return k.opts.Ready(w.hook) })
}

// served reports whether this process has registered webhooks of the kind.
func (k *keeper) served() bool {
	_, served := k.opts.Served.Load(k.kind.typ.Kind())
	return served
}

// object names the object.
func (k *keeper) object() string { return k.kind.name + " " + k.name }

// look reads the object, and reports the paths that it has.
func (k *keeper) look(ctx context.Context) (*configuration, error) {
	live, err := k.read(ctx)
	var paths []string
	switch {
	case apierrors.IsForbidden(err):
		for _, w := range k.webhooks {
			paths = append(paths, w.path, legacyPath(w.binding.Name))
		}
	case err != nil:
		return nil, err
	case live != nil:
		for _, w := range live.Webhooks {
			if c := w.ClientConfig; c.URL != nil {
				paths = append(paths, *c.URL)
			} else if c.Service != nil && c.Service.Path != nil {
				paths = append(paths, *c.Service.Path)
			}
		}
	}
	k.opts.Seen(k.object(), paths, err != nil && len(paths) > 0)
	return live, err
}

func (k *keeper) report(err error) {
	var hooks []string
	for _, w := range k.webhooks {
		if !slices.Contains(hooks, w.hook.Name) {
			hooks = append(hooks, w.hook.Name)
		}
	}
	k.opts.Report(k.kind.typ.Kind(), hooks, k.object(), err)
}

// watch wakes the keeper whenever the object changes. Without the permission to watch, it wakes the keeper once per recheck.
func (k *keeper) watch(ctx context.Context) {
	var logged logonce.Dedup
	one := kube.One{Client: k.opts.Client, Path: k.path(""), Name: k.name}
	one.Follow(ctx, kube.Backoff{Forbidden: k.recheck}, k.wake, func(err error) {
		if !apierrors.IsForbidden(err) {
			return
		}
		if _, due := logged.Due("forbidden", ""); due {
			k.log.Warn("No permission to watch: changes by others are noticed late", "error", k.explain(err).Error(), "recheck", k.recheck.String())
		}
	})
}

// bundle returns the CAs of the desired object. With cert-manager they are those of the live one.
func (k *keeper) bundle(live *configuration) []byte {
	switch {
	case k.opts.CertManager != "" && live != nil:
		for _, w := range live.Webhooks {
			if len(w.ClientConfig.CABundle) > 0 {
				return w.ClientConfig.CABundle
			}
		}
	case k.opts.CertManager == "" && k.opts.Bundle != nil:
		return k.opts.Bundle()
	}
	return nil
}

// conflicts is how often in a row the object may change between reading and writing it.
const conflicts = 5

// reconcile makes the object as desired. It returns the time until the next reconciliation; 0 means none.
func (k *keeper) reconcile(ctx context.Context) (again time.Duration, err error) {
	for range conflicts {
		again, err = k.attempt(ctx)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	return again, err
}

// sharedName asks for the cause of a dispute.
const sharedName = "does another installation use the same configuration name?"

func (k *keeper) attempt(ctx context.Context) (again time.Duration, err error) {
	before := k.disputed
	k.disputed = nil
	live, err := k.look(ctx)
	if err != nil || k.opts.led() != nil {
		return 0, err
	}
	k.left = live != nil && len(live.Webhooks) > 0 && k.ours(live)
	want := k.desired(live, k.bundle(live))
	do := k.decide(live, want)
	if do == leave {
		k.later, k.last = time.Time{}, nil
		if live != nil {
			k.last = live.Webhooks
		}
		return 0, nil
	}
	if k.writtenLater(live) {
		if added := k.added(live, want); added != nil { // the object stays that of the other operator
			return 0, k.write(ctx, update, live, added)
		}
	}
	if again = k.pause(live); again > 0 {
		k.disputed = fmt.Errorf("%s has changed the webhook configuration, the next write of this operator follows in %s: %s", writer(live),
			again.Round(time.Second), sharedName)
		if before == nil {
			k.log.Warn("Another client changes the webhook configuration: "+sharedName, "writer", writer(live), "delay", again.String())
		}
		return again, nil
	}
	overwrites := changed(k.last, live)
	if err = k.write(ctx, do, live, k.written(want)); err == nil {
		k.later, k.last = time.Time{}, want.Webhooks
		if overwrites {
			k.restored = time.Now()
		}
	}
	return 0, err
}

// pause returns the delay before a write over what another client has written.
func (k *keeper) pause(live *configuration) time.Duration {
	now := time.Now()
	if k.writtenLater(live) {
		if k.later.IsZero() {
			k.later = now
		}
		return k.later.Add(k.recheck).Sub(now)
	}
	if !changed(k.last, live) {
		return 0
	}
	return k.restored.Add(k.restoreEvery).Sub(now)
}

// writer names the client that wrote an object last, as far as the object shows that.
func writer(live *configuration) string {
	if live == nil {
		return "another client"
	}
	var last metav1.ManagedFieldsEntry
	for _, f := range live.ManagedFields {
		if last.Time == nil || f.Time != nil && !f.Time.Before(last.Time) {
			last = f
		}
	}
	text := strconv.Quote(last.Manager)
	if started := live.Annotations[startedAnnotation]; started != "" && last.Manager == managedBy {
		text += " that started at " + started
	}
	for _, w := range live.Webhooks {
		switch c := w.ClientConfig; {
		case c.Service != nil:
			return text + fmt.Sprintf(" with the Service %s/%s", c.Service.Namespace, c.Service.Name)
		case c.URL != nil:
			if u, err := url.Parse(*c.URL); err == nil {
				return text + " at " + u.Host
			}
		}
	}
	return text
}

func (k *keeper) write(ctx context.Context, do action, live, want *configuration) error {
	switch do {
	case create:
		if err := k.create(ctx, want); err != nil {
			return &creationError{err}
		}
		k.log.Info("Webhooks are registered", "count", len(want.Webhooks))
	case update:
		if len(live.Webhooks) > 0 && !k.ours(live) {
			k.log.Warn("The webhook configuration points to another operator and is taken over: " + sharedName)
		}
		if err := k.update(ctx, want); err != nil {
			return err
		}
		done := "Webhooks are registered again, the configuration had changed"
		if len(live.Webhooks) == 0 {
			done = "Webhooks are registered"
		}
		k.log.Info(done, "count", len(want.Webhooks))
	case remove:
		err := k.delete(ctx, live)
		if apierrors.IsForbidden(err) { // without webhooks it does no harm
			return k.write(ctx, empty, live, nil)
		}
		if err != nil {
			return err
		}
		k.log.Info("The webhook configuration is removed")
	case empty:
		bare := live.DeepCopy()
		bare.Webhooks = nil
		if err := k.update(ctx, k.written(bare)); err != nil {
			return err
		}
		k.log.Info("The webhook configuration is emptied")
	}
	return nil
}

// clear removes the object as remove does, and retries until that succeeds.
func (k *keeper) clear(ctx context.Context) {
	defer k.report(nil)
	for failures := 0; ; failures++ {
		err := k.remove(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		delay := k.delays[min(failures, len(k.delays)-1)]
		k.report(err)
		k.log.Warn(cannotRemove, "error", err.Error(), "delay", delay.String(), "failedCount", failures+1)
		if !kube.Wait(ctx, delay, k.wake) {
			return
		}
	}
}

const cannotRemove = "Cannot remove webhooks that no hook has any more: with failure policy Fail they block requests. " +
	"Will retry after delay."

// remove deletes the object, or empties it, if it points to this operator.
func (k *keeper) remove(ctx context.Context) error {
	live, err := k.read(ctx)
	if apierrors.IsForbidden(err) || err == nil && live == nil {
		return nil
	}
	if err == nil {
		do := k.decide(live, nil)
		done, ends := map[action]string{remove: "removed", empty: "emptied"}[do]
		switch {
		case !ends:
			return nil
		case k.opts.DryRun:
			k.log.Info("Dry run: the webhook configuration would be " + done)
			return nil
		}
		err = k.write(ctx, do, live, nil)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q stays behind: %w", k.kind.name, k.name, k.explain(err))
	}
	return nil
}
