package replica

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Uninstall deletes the Leases without a holder, and after the end of all replicas those that are not renewed any more.
func TestUninstall(t *testing.T) {
	for _, test := range []struct {
		name          string
		ended, dryRun bool
		takes         time.Duration
		// left are the Leases, log what is logged.
		left, log string
	}{
		{"beside replicas", false, false, 0, "lease-shard-1 lease-shard-2 other other-shard-0", "may be running"},
		{"after their end", true, false, 15 * time.Second, "lease-shard-2 other other-shard-0", "have run out"},
		{"dry run", true, true, 0, "lease lease-shard-0 lease-shard-1 lease-shard-2 other other-shard-0", "would be deleted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				add := func(name, of, holder string) {
					lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
					if of != "" {
						lease.Labels = map[string]string{ShardsLabel: of}
					}
					if holder != "" {
						lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, ptr.To[int32](15)
					}
					s.set(name, lease)
				}
				add("lease", "", "")
				add("lease-shard-0", "lease", "")
				add("lease-shard-1", "lease", "killed")
				add("lease-shard-2", "lease", "lives")
				add("other", "", "")
				add("other-shard-0", "other", "")
				ticker := time.NewTicker(2 * time.Second)
				defer ticker.Stop()
				go func() {
					for range 10 {
						<-ticker.C
						s.change("lease-shard-2", func(l *coordinationv1.Lease) *coordinationv1.Lease { return l })
					}
				}()
				var log bytes.Buffer
				u := uninstall{Uninstalling{Namespace: "n", Name: "lease", Ended: test.ended, DryRun: test.dryRun,
					Log: slog.New(slog.NewTextHandler(&log, nil))}, newLine(s)}
				began := time.Now()
				if err := u.run(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(began).Truncate(time.Second); took != test.takes {
					t.Errorf("it took %s, want %s", took, test.takes)
				}
				s.mu.Lock()
				left := strings.Join(slices.Sorted(maps.Keys(s.leases)), " ")
				s.mu.Unlock()
				if left != test.left || !strings.Contains(log.String(), test.log) {
					t.Errorf("left are %s, want %s; the log is\n%s", left, test.left, &log)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
