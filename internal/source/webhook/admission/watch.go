package admission

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// watch wakes the keeper whenever the object changes. The keeper reads the object itself, so the order of events does not
// matter. Without the permission to watch, it wakes the keeper once per recheck.
func (k *keeper) watch(ctx context.Context) {
	var logged logonce.Dedup
	one := kube.One{Client: k.opts.Client, Path: k.path(""), Name: k.name}
	kube.WatchOne(ctx, kube.Backoff{Forbidden: k.recheck}, func(ctx context.Context) error {
		return one.Watch(ctx, k.poke, func([]byte) { k.poke() })
	}, func(err error) {
		if apierrors.IsForbidden(err) {
			if _, due := logged.Due("forbidden", ""); due {
				k.log.Warn("No permission to watch: changes by others are noticed late", "error", k.explain(err).Error(), "recheck", k.recheck.String())
			}
		}
		k.poke()
	})
}
