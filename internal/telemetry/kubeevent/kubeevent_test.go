package kubeevent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	events    = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	forbidden = apierrors.NewForbidden(events,
		"", errors.New(`user "u" cannot create resource "events" in API group "events.k8s.io" in the namespace "n"`))
)

// desk is an API server that takes Events.
type desk struct {
	*Recorder
	started time.Time

	own sync.Mutex // guards what follows
	// written are the writes: time, what, count.
	written []string
	// refuse is the answer to the next writes.
	refuse error
	log    strings.Builder
	// lost counts dropped Events. The Recorder's lock guards it.
	lost int
}

func newDesk(t *testing.T) *desk {
	d := &desk{started: time.Now()}
	d.Recorder = newRecorder(Options{
		Log: slog.New(slog.NewTextHandler(&d.log, nil)), Pod: Reference{Namespace: "n", Name: "operator-0"}, Dropped: func(string) { d.lost++ },
	})
	d.send = func(_ context.Context, l *line) error {
		d.own.Lock()
		defer d.own.Unlock()
		if d.refuse != nil {
			return d.refuse
		}
		what := "update"
		if !l.exists {
			what, l.exists = "create", true
		}
		d.written = append(d.written, fmt.Sprintf("%s %s %s ×%d %s", time.Since(d.started), what, l.Reason, l.count, l.Note))
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return d
}

// refusing sets the answer to the next writes.
func (d *desk) refusing(err error) {
	d.own.Lock()
	defer d.own.Unlock()
	d.refuse = err
}

func (d *desk) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	d.own.Lock()
	defer d.own.Unlock()
	if !slices.Equal(d.written, want) {
		t.Errorf("written were\n%s\nwant\n%s", strings.Join(d.written, "\n"), strings.Join(want, "\n"))
	}
	d.written = nil
}

func nowhere() bool { return false }

// A hook that fails every seven seconds makes one Event, which counts.
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for n := range 20 {
			d.Failed("a.sh", "main", fmt.Sprint("attempt ", n+1))
			time.Sleep(7 * time.Second)
		}
		d.expect(t, "0s create HookFailed ×1 attempt 1", "1m0s update HookFailed ×9 attempt 1", "2m0s update HookFailed ×18 attempt 1")
		d.Succeeded("a.sh", "main", nowhere)
		d.expect(t, `2m20s create HookRecovered ×1 Hook "a.sh" runs well again`)
		time.Sleep(70 * time.Second)
		d.expect(t, "3m0s update HookFailed ×20 attempt 1")

		// It happens again soon: still the same Events.
		d.Failed("a.sh", "main", "again")
		d.Succeeded("a.sh", "main", nowhere)
		time.Sleep(70 * time.Second)
		d.expect(t, `3m30s update HookRecovered ×2 Hook "a.sh" runs well again`, "4m0s update HookFailed ×21 attempt 1")

		// And later, new ones. Nothing is kept of hooks that are well.
		time.Sleep(time.Hour)
		d.Failed("a.sh", "main", "much later")
		d.expect(t, "1h4m40s create HookFailed ×1 much later")
	})
}

// A hook has recovered when it fails in no queue any more; one that never failed is not worth a word.
func TestQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.Succeeded("b.sh", "main", nowhere)
		d.Failed("a.sh", "main", "x")
		d.expect(t, "0s create HookFailed ×1 x")
		d.Failed("a.sh", "other", "y")
		d.Succeeded("a.sh", "other", nowhere)
		d.Succeeded("a.sh", "main", func() bool { return true }) // another lane of the queue fails
		time.Sleep(time.Minute)
		d.expect(t, "1m0s update HookFailed ×2 x")
		d.Succeeded("a.sh", "main", nowhere)
		d.expect(t, `1m0s create HookRecovered ×1 Hook "a.sh" runs well again`)
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.refusing(errors.New("the server is on fire"))
		d.Failed("a.sh", "main", "x")
		synctest.Wait()
		d.refusing(nil)
		time.Sleep(retryDelay + time.Second)
		d.expect(t, "10s create HookFailed ×1 x")

		// An Event that has expired is made again.
		time.Sleep(5 * time.Minute)
		missing := true
		send := d.send
		d.mu.Lock()
		d.send = func(ctx context.Context, l *line) error {
			if l.exists && missing {
				missing = false
				return apierrors.NewNotFound(events, l.name)
			}
			return send(ctx, l)
		}
		d.mu.Unlock()
		d.Failed("a.sh", "main", "y")
		d.expect(t, "5m11s create HookFailed ×2 x")

		// Without permission there is one warning.
		d.refusing(forbidden)
		for _, hook := range []string{"b.sh", "c.sh"} {
			d.Failed(hook, "main", "x")
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		d.expect(t)
		if n := strings.Count(d.log.String(), "No permission to write Events"); n != 1 || !strings.Contains(d.log.String(), "events.k8s.io") {
			t.Errorf("%d warnings: %s", n, d.log.String())
		}
	})
}

// Of the Events about one object ten are published, then one a minute. Equal ones are one Event.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		about := func(name, note string) Event {
			return Event{Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: name}, "Normal", "Done", "Do", note}
		}
		d.Record("a.sh", about("one", "0"))
		d.expect(t, "0s create Done ×1 0")
		for n := 1; n < 15; n++ {
			d.Record("a.sh", about("one", fmt.Sprint(n/9)))
		}
		d.Record("a.sh", about("two", "other"))
		d.expect(t, "0s create Done ×1 1", "0s create Done ×1 other")
		time.Sleep(61 * time.Second)
		for range 2 {
			d.Record("a.sh", about("one", "late"))
		}
		d.expect(t, "1m0s update Done ×9 0", "1m1s create Done ×1 late")
		if d.lost != 5+1 {
			t.Errorf("%d dropped", d.lost)
		}
		// What is rejected is dropped, and a namespace without permission is not tried again.
		d.refusing(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"))
		d.Record("a.sh", about("three", ""))
		synctest.Wait()
		d.refusing(forbidden)
		d.Record("a.sh", about("four", ""))
		synctest.Wait()
		d.refusing(nil)
		d.Record("a.sh", about("five", ""))
		d.expect(t)
		if n := strings.Count(d.log.String(), "No permission to write Events"); d.lost != 9 || n != 1 {
			t.Errorf("%d dropped, log %s", d.lost, d.log.String())
		}
		d.Failed("a.sh", "main", "x")
		d.expect(t, "1m1s create HookFailed ×1 x")
	})
}

func TestEventName(t *testing.T) {
	at := time.Unix(0, 0x1234)
	if a, b := eventName("web", "Pod", at), eventName("system:node", "ClusterRole", at); a != "web.1234" || b != "clusterrole.1234" {
		t.Error(a, b)
	}
}
