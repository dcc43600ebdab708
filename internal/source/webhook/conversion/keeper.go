package conversion

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// keeper keeps one CRD registered. The goroutine that runs it owns its fields.
type keeper struct {
	keep.Object
	opts  *RegistrarOptions
	steps []step

	// applied is the last registration that the CRD had, nil if it did not exist since.
	applied []byte
	// absent reports that its absence has been logged.
	absent bool
	// restored is when a change of another client was overwritten, for the restores-th time without calm between them.
	restored time.Time
	restores int
}

// calm is how long no other client changes spec.conversion until such a change is restored immediately again.
const calm = 10 * time.Minute

func newKeeper(o *RegistrarOptions, crd string, steps []step) *keeper {
	k := &keeper{opts: o, steps: steps}
	var hooks []string
	for _, s := range steps {
		hooks = append(hooks, s.hook.Name)
	}
	k.Object = o.Keep(keep.Object{
		One: kube.One{Path: []string{crdPath}, Name: crd}, Kind: "CustomResourceDefinition", Reconcile: k.reconcile, Explain: k.explain,
		Log: o.Log.With("crd", crd), Failed: "Cannot point the CRD at the conversion hooks. Will retry after delay.",
	}, hook.OnConversion, slices.Compact(hooks))
	return k
}

// look returns the CRD, or nil if there is none, and reports its path.
func (k *keeper) look(ctx context.Context) (definition []byte, err error) {
	definition, err = k.read(ctx)
	var paths []string
	switch {
	case apierrors.IsForbidden(err):
		paths = []string{"/" + k.Name}
	case err != nil:
		return nil, err
	case definition != nil:
		paths = []string{keep.PathOf(clientOf(definition))}
	}
	k.opts.Seen(k.Subject(), paths, err != nil)
	return definition, err
}

// reconcile makes the CRD as registered.
func (k *keeper) reconcile(ctx context.Context) error {
	found, err := k.look(ctx)
	switch {
	case err != nil:
		return k.explain(err)
	case len(k.steps) == 0 && !leadsTo(&k.opts.Target, found, k.Name):
		return keep.ErrDone
	case len(k.steps) == 0:
		return &keep.Pending{Reason: "add the hook, or let the CRD serve only the stored version and set spec.conversion.strategy to None"}
	case !k.opts.Registers() || waiting(k.steps, k.opts.Ready) != nil:
		return nil
	case found == nil:
		if !k.absent {
			k.Log.Info("Waiting for the CRD of a conversion hook")
		}
		k.absent, k.applied = true, nil
		return &keep.Pending{Reason: "it does not exist: its objects are converted as soon as it does"}
	}
	patch, err := registration(&k.opts.Target, k.Name)
	if err != nil {
		return err
	}
	differs, err := changes(found, patch)
	if err != nil {
		return err
	}
	restores := bytes.Equal(k.applied, patch)
	if differs {
		if time.Since(k.restored) >= calm {
			k.restores = 0
		}
		if again := time.Until(k.restored.Add(keep.RetryDelay(max(k.restores, 1)))); restores && k.restores > 0 && again > 0 {
			return &keep.Pending{Again: again, Reason: fmt.Sprintf("another client has changed spec.conversion, the next write of this operator "+
				"follows in %s", again.Round(time.Second))}
		}
		if err := k.write(ctx, patch); err != nil {
			return k.explain(err)
		}
		k.opts.Converted(k.Name)
	}
	switch {
	case k.applied == nil:
		k.Log.Info("The CRD leads to the conversion hooks now")
	case differs && restores:
		k.restored, k.restores = time.Now(), k.restores+1
		k.Log.Warn("Another client changed spec.conversion of the CRD, which is restored")
	case differs:
		k.Log.Info("The CRD has the new certificates for the conversion hooks")
	}
	k.absent, k.applied = false, patch
	return nil
}

// explain adds the missing RBAC rule to an error.
func (k *keeper) explain(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("no permission for customresourcedefinitions: %s: %w", kube.Grant("", kube.Rule{Group: "apiextensions.k8s.io",
			Resource: "customresourcedefinitions", Names: []string{k.Name}, Verbs: []string{"list", "watch", "patch"}}), err)
	}
	return fmt.Errorf("cannot reconcile the CRD: %w", err)
}
