package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Reviews sends requests that Policies review or convert, and checks the answers.
type Reviews struct {
	Things
	Client rest.Interface
	// guarded has the number of the call of Guard since which it has been given a name; excused is odd while requests may be refused.
	guarded        sync.Map
	calls, excused atomic.Int64
}

var errUnreviewed = errors.New("admitted without a review")

// PolicyNames name all policies. The requests of "converted" read an object that has to be converted.
var PolicyNames = []string{"a", "b", "c", "things", "converted"}

// Send returns nil for a request that its policy denied, or for an object that was converted.
func (v *Reviews) Send(ctx context.Context, name string) error {
	things := []string{"/apis", v.Group, "v2/namespaces", v.Namespace, "things"}
	create, body := v.Client.Post().AbsPath(things...), `{"apiVersion": "`+v.Group+`/v2", "kind": "Thing", "metadata": {"name": "b"}}`
	switch name {
	case "converted":
		text, err := kube.Send(ctx, v.Client.Get().AbsPath(append(things, "a")...).MaxRetries(0))
		if err != nil || !strings.Contains(string(text), v.Group+"/v2") {
			return fmt.Errorf("an object was not converted: %s, %w", text, err)
		}
		return nil
	case "a", "b", "c":
		create = v.Client.Post().AbsPath("/api/v1/namespaces", v.Namespace, "configmaps")
		body = `{"metadata": {"name": "client", "labels": {"policy": "` + name + `"}}}`
	}
	create = create.Param("dryRun", "All").SetHeader("Content-Type", "application/json").Body([]byte(body)).MaxRetries(0)
	if _, err := kube.Send(ctx, create); err == nil {
		return errUnreviewed
	} else if !strings.Contains(err.Error(), "denied by "+name) {
		return err
	}
	return nil
}

// Guard makes requests with other names than these unchecked, and the rest checked from now on if add.
func (v *Reviews) Guard(names []string, add bool) {
	call := v.calls.Add(1)
	for _, name := range PolicyNames {
		if !slices.Contains(names, name) {
			v.guarded.Delete(name)
		} else if add {
			v.guarded.LoadOrStore(name, call)
		}
	}
}

// Excuse begins and ends a time in which requests may be refused, but not be admitted without a review.
func (v *Reviews) Excuse() { v.excused.Add(1) }

// Start sends requests of all policies until end is called. A request that is guarded from its begin to its end has to be reviewed.
func (v *Reviews) Start(t testing.TB) (end func()) {
	var clients sync.WaitGroup
	ended := make(chan struct{})
	ask := func(name string) {
		since, was := v.guarded.Load(name)
		began, excused := time.Now(), v.excused.Load()
		err := v.Send(t.Context(), name)
		still, is := v.guarded.Load(name)
		excuse := (excused%2 == 1 || v.excused.Load() != excused) && !errors.Is(err, errUnreviewed)
		if err != nil && was && is && since == still && !excuse {
			t.Errorf("a request of %s from %s to %s: %v", name, began.Format(time.StampMilli), time.Now().Format(time.StampMilli), err)
		}
	}
	for _, name := range PolicyNames {
		clients.Go(func() {
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ended:
					return
				case <-tick.C:
					ask(name)
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(ended); clients.Wait() })
}
