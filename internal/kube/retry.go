package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Delays returns the delays between attempts: from half a second, doubled up to the longest.
func Delays(longest time.Duration) wait.DelayFunc {
	return wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 10, Cap: longest}.DelayFunc()
}

// Retry calls try, with a back-off up to the longest, until it succeeds or ctx ends. Failed receives each new error.
func Retry(ctx context.Context, longest time.Duration, failed func(error), try func() error) error {
	last := ""
	return Delays(longest).Until(ctx, true, true, func(context.Context) (bool, error) {
		err := try()
		if err == nil || ctx.Err() != nil {
			return err == nil, ctx.Err()
		}
		if text := err.Error(); text != last {
			last = text
			failed(err)
		}
		return false, nil
	})
}
