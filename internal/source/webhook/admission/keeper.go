package admission

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// leaveFor is how long an object is left to an operator that started later, which may have ended since, and how long a webhook that was
// removed stays for hooks that start.
const leaveFor = 5 * time.Minute

// keeper keeps one object. The goroutine that runs it owns its fields.
type keeper struct {
	keep.Object
	opts     *RegistrarOptions
	kind     kind
	webhooks []*webhook
	// version identifies what its hooks want.
	version string
	// began is when this operator began to register. Number is one more than the object had then, and raised reports that this operator has
	// written it first, with the resource version as precondition: it started later than the operators with lower numbers.
	began  time.Time
	number int
	raised bool

	// last are the webhooks that the object had when it was as desired.
	last []admissionregistration.MutatingWebhook
	// restored is when a change of another client was overwritten, later when the webhooks of an operator that started later were found.
	restored, later time.Time
	// disputed reports that what another client has written stays for now.
	disputed bool
}

func newKeeper(o *RegistrarOptions, kind kind, all []*webhook) *keeper {
	k := &keeper{opts: o, kind: kind}
	var hooks []string
	for _, w := range all {
		if w.typ == kind.typ {
			k.webhooks, hooks = append(k.webhooks, w), append(hooks, w.hook.Name)
		}
	}
	failed := "Cannot register webhooks. Will retry after delay."
	if len(k.webhooks) == 0 {
		failed = "Cannot remove webhooks that no hook has any more: with failure policy Fail they block requests. Will retry after delay."
	}
	one := kube.One{Path: []string{"/apis", group, "v1", kind.resource}, Name: o.ConfigurationName + "-hooks"}
	k.Object = o.Keep(keep.Object{One: one, Kind: kind.name, Reconcile: k.reconcile, Explain: k.explain, Failed: failed,
		Log: o.Log.With("kind", kind.name, "name", one.Name)}, kind.typ.Kind(), slices.Compact(hooks))
	k.version = k.hash()
	return k
}

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
			paths = append(paths, keep.PathOf(w.ClientConfig))
		}
	}
	k.opts.Seen(k.Subject(), paths, err != nil && len(paths) > 0)
	return live, err
}

// sharedName asks for the cause of a dispute.
const sharedName = "does another installation use the same configuration name?"

// reconcile makes the object as desired.
func (k *keeper) reconcile(ctx context.Context) error {
	live, err := k.look(ctx)
	switch {
	case apierrors.IsForbidden(err) && len(k.webhooks) == 0 && !k.left():
		k.Log.Debug("No permission to remove a configuration without bindings, if there is one", "error", k.explain(err).Error())
		return keep.ErrDone
	case err != nil:
		return k.explain(err)
	case !k.opts.Registers():
		return nil
	}
	k.begin(live)
	k.note(live)
	want := k.desired(live, k.bundle(live))
	if k.Again = 0; slices.ContainsFunc(want.Webhooks, func(w registration) bool { return k.isOurs(&w, "") && !k.names(&w) }) {
		k.Again = max(0, leaveFor-time.Since(k.began)) // then a removed one is taken out
	}
	do := k.decide(live, want)
	if do == leave {
		k.adopt(live)
		return nil
	}
	if again := k.pause(do, live); again > 0 {
		return k.dispute(live, again)
	}
	overwrites := do != register || changed(k.last, live)
	if err := k.write(ctx, do, live, k.written(live, want)); err != nil {
		return k.explain(err)
	}
	k.raised = k.raised || numberOf(live) < k.number
	k.adopt(want)
	if overwrites {
		k.restored = time.Now()
	}
	return nil
}

// begin notes the object when this operator begins to register.
func (k *keeper) begin(live *configuration) {
	if k.began.IsZero() {
		k.began, k.number = time.Now(), numberOf(live)+1
	}
}

// adopt notes that an object is as desired.
func (k *keeper) adopt(now *configuration) {
	k.note(now)
	k.later, k.last, k.disputed = time.Time{}, nil, false
	if now != nil {
		k.last = now.Webhooks
	}
}

// note notes whether an object has webhooks of this operator, and left reports what was noted last.
func (k *keeper) note(now *configuration) {
	k.opts.Left.Store(k.kind.typ, now != nil && len(now.Webhooks) > 0 && k.ours(now))
}

func (k *keeper) left() bool { left, _ := k.opts.Left.Load(k.kind.typ); return left == true }

// dispute leaves what another client has written for now. It logs that once.
func (k *keeper) dispute(live *configuration, again time.Duration) error {
	if !k.disputed {
		k.Log.Warn("Another client changes the webhook configuration: "+sharedName, "writer", writer(live), "delay", again.String())
	}
	k.disputed = true
	return &keep.Pending{Again: again, Reason: fmt.Sprintf(
		"%s has changed the webhook configuration, the next write of this operator follows in %s: %s",
		writer(live), again.Round(time.Second), sharedName)}
}

// pause returns the delay before a write over what another client has written. Who removes webhooks that return does not do it forever
// without one: perhaps another installation shares the configuration, and its webhooks would hardly ever be there.
func (k *keeper) pause(do action, live *configuration) time.Duration {
	if k.writtenLater(live) {
		if k.later.IsZero() {
			k.later = time.Now()
		}
		return time.Until(k.later.Add(leaveFor))
	}
	if do == register && !changed(k.last, live) || do == remove && len(live.Webhooks) == 0 {
		return 0
	}
	return time.Until(k.restored.Add(keep.RestoreEvery))
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
	for _, w := range live.Webhooks {
		if s := w.ClientConfig.Service; s != nil {
			return text + fmt.Sprintf(" with the Service %s/%s", s.Namespace, s.Name)
		}
	}
	return text
}

func (k *keeper) write(ctx context.Context, do action, live, want *configuration) error {
	switch do {
	case register:
		again := live != nil && len(live.Webhooks) > 0
		if again && !k.ours(live) {
			k.Log.Warn("The webhook configuration points to another operator and is taken over: " + sharedName)
		}
		if err := k.put(ctx, live, want); err != nil {
			return err
		}
		done := "Webhooks are registered"
		if again {
			done = "Webhooks are registered again, the configuration had changed"
		}
		k.Log.Info(done, "count", len(want.Webhooks))
	case remove:
		err := k.delete(ctx, live)
		switch {
		case apierrors.IsForbidden(err) && len(live.Webhooks) == 0: // it does no harm
			return nil
		case apierrors.IsForbidden(err):
			return k.write(ctx, empty, live, nil)
		case err != nil:
			return err
		}
		k.Log.Info("The webhook configuration is removed")
	case empty:
		bare := live.DeepCopy()
		bare.Webhooks = nil
		if err := k.put(ctx, live, k.written(live, bare)); err != nil {
			return err
		}
		k.Log.Info("The webhook configuration is emptied")
	}
	return nil
}

// remove deletes the object, or empties it, if it points to this operator.
func (k *keeper) remove(ctx context.Context) error {
	live, err := k.read(ctx)
	if apierrors.IsForbidden(err) || err == nil && live == nil {
		return nil
	}
	if err == nil {
		k.begin(live)
		do := k.decide(live, nil)
		done, ends := map[action]string{remove: "removed", empty: "emptied"}[do]
		switch {
		case !ends:
			return nil
		case k.opts.DryRun:
			k.Log.Info("Dry run: the webhook configuration would be " + done)
			return nil
		}
		err = k.write(ctx, do, live, nil)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q stays behind: %w", k.kind.name, k.Name, k.explain(err))
	}
	return nil
}
