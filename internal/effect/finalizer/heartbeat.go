package finalizer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Heartbeats are annotations, which earlier versions keep and do not read.
const heartbeatPrefix = "shell-operator/operator-"

const (
	// maxHeartbeats bounds those of an installation: a process that is killed leaves its own behind.
	maxHeartbeats = 10
	// responseTime is how long operators that are running have to renew their heartbeats for one that has started.
	responseTime = 10 * time.Second
	// responseInterval bounds the rate of such renewals.
	responseInterval = 5 * time.Second
	// withdrawal bounds the requests at the end.
	withdrawal = 2 * time.Second
)

// Heartbeat is what an operator writes into the record, so that others with its instance name notice it.
type Heartbeat struct {
	Instance string `json:"instance"`
	// Operator is the Lease of all its replicas, or a process.
	Operator string `json:"operator"`
	// Renewed is a time of that operator's clock. It is shown, and otherwise compared for equality only.
	Renewed time.Time `json:"renewed"`
}

func (h *Heartbeat) key() string {
	hash := sha256.Sum256([]byte(h.Instance + "\x00" + h.Operator))
	return heartbeatPrefix + hex.EncodeToString(hash[:8])
}

// heartbeats are those in the record, by annotation.
func (c *configMap) heartbeats() map[string]Heartbeat {
	all := map[string]Heartbeat{}
	for key, text := range c.Metadata.Annotations {
		var h Heartbeat
		if strings.HasPrefix(key, heartbeatPrefix) && json.Unmarshal([]byte(text), &h) == nil && h.key() == key {
			all[key] = h
		}
	}
	return all
}

// observe remembers the heartbeats of a state of the record; nil is its absence.
func (r *Record) observe(now *configMap) {
	r.mu.Lock()
	before := r.others.present()
	seen, version := map[string]string{}, r.others.version
	if now != nil {
		version, _ = strconv.ParseUint(now.Metadata.ResourceVersion, 10, 64)
		for key, h := range now.heartbeats() {
			if h.Instance == r.o.Instance && h.Operator != r.o.Operator {
				seen[h.Operator] = now.Metadata.Annotations[key]
			}
		}
	}
	appeared := r.others.observe(time.Now(), version, seen)
	after := r.others.present()
	changed := !slices.Equal(before, after)
	if changed {
		close(r.changed)
		r.changed = make(chan struct{})
	}
	r.mu.Unlock()
	if appeared {
		kube.Wake(r.respond)
	}
	if changed {
		r.o.Changed()
	}
}

// Others are the other operators with this instance name that are not known to be gone.
func (r *Record) Others() []Other {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.others.present()
}

// Alive are the names of those that certainly run.
func (r *Record) Alive() (names []string) {
	for _, o := range r.Others() {
		if o.Alive {
			names = append(names, o.Name)
		}
	}
	return names
}

// AwaitOthers returns the others when each has been seen alive or has had the time to respond.
func (r *Record) AwaitOthers(ctx context.Context) []Other {
	late := time.NewTimer(responseTime)
	defer late.Stop()
	for {
		r.mu.Lock()
		all, changed, waits := r.others.present(), r.changed, r.others.unheard(time.Now())
		r.mu.Unlock()
		if !waits {
			return all
		}
		select {
		case <-changed:
		case <-late.C:
			return all
		case <-ctx.Done():
			return all
		}
	}
}

// Announce makes Run renew the heartbeat of this operator, without a Claim. Create allows that the record is created for it.
func (r *Record) Announce(create bool) {
	r.mu.Lock()
	r.creates = r.creates || create
	r.mu.Unlock()
	r.following.Do(func() { close(r.follow) })
}

// renew keeps the heartbeat until ctx ends, and then removes it: an operator that starts again waits for nothing. Without the permission
// to write, it only observes the others.
func (r *Record) renew(ctx context.Context, namespace string) {
	if r.o.Operator == "" {
		return
	}
	for {
		beats := r.o.Beats == nil || r.o.Beats()
		var err error
		if beats {
			err = r.beat(ctx, namespace)
		}
		next := renewal
		if !beats || kube.IsPermissionMissing(err) {
			_, err = r.read(ctx, namespace)
		}
		if err != nil && ctx.Err() == nil {
			r.mu.Lock()
			r.others.missed = true
			r.mu.Unlock()
			next = retryRenewal
			r.o.Log.Debug("Cannot renew the heartbeat in the record of finalizers", "error", err.Error())
		}
		if !r.pause(ctx, next) {
			break
		}
	}
	if r.o.Lease { // the other replicas have the same
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawal)
	defer cancel()
	_ = r.withdraw(last, namespace) // a kill leaves it, too
}

// pause waits for the next renewal. It is early when another operator has appeared, which may wait for a response.
func (r *Record) pause(ctx context.Context, next time.Duration) bool {
	timer, pace := time.NewTimer(next), time.NewTimer(responseInterval)
	defer timer.Stop()
	defer pace.Stop()
	var respond chan struct{}
	for {
		select {
		case <-pace.C:
			respond = r.respond
		case <-respond:
			return true
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// beat writes the heartbeat, and removes those of operators that are gone.
func (r *Record) beat(ctx context.Context, namespace string) error {
	return r.edit(ctx, namespace, func(now *configMap) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.halted || !now.exists() && (r.written || !r.creates) {
			return nil
		}
		if _, err := now.entries(); err != nil {
			return err
		}
		own := []Heartbeat{}
		for key, h := range now.heartbeats() {
			if h.Instance != r.o.Instance || h.Operator == r.o.Operator {
				continue
			}
			if is := r.others.known[h.Operator]; is != nil && r.others.gone(is) {
				delete(now.Metadata.Annotations, key)
			} else {
				own = append(own, h)
			}
		}
		slices.SortFunc(own, func(a, b Heartbeat) int { return a.Renewed.Compare(b.Renewed) })
		for _, h := range own[:max(0, len(own)-maxHeartbeats)] {
			delete(now.Metadata.Annotations, h.key())
		}
		r.head(now)
		return nil
	})
}

// head sets what each record has, and the heartbeat of this operator.
func (r *Record) head(c *configMap) {
	c.Metadata.Labels[managedLabel], c.Metadata.Annotations[formatAnnotation] = "shell-operator", format
	if r.o.Operator != "" {
		h := Heartbeat{Instance: r.o.Instance, Operator: r.o.Operator, Renewed: time.Now().UTC()}
		text, _ := json.Marshal(h) // strings and a time
		c.Metadata.Annotations[h.key()] = string(text)
	}
}

// withdraw removes the heartbeat, and the record if nothing else is in it.
func (r *Record) withdraw(ctx context.Context, namespace string) error {
	own := Heartbeat{Instance: r.o.Instance, Operator: r.o.Operator}
	return r.edit(ctx, namespace, func(now *configMap) error {
		all := now.heartbeats()
		if _, there := all[own.key()]; !there {
			return nil
		}
		if _, err := now.entries(); err != nil {
			return err
		}
		if delete(now.Metadata.Annotations, own.key()); len(all) == 1 && len(now.Data) == 0 && len(now.marked()) == 0 {
			now.empty()
		}
		return nil
	})
}

// Presence is a heartbeat, and what this process knows of its operator.
type Presence struct {
	Heartbeat
	// Self is this operator; Alive and Gone are known of others with its instance name.
	Self, Alive, Gone bool
}

// Presences are the heartbeats in the record, of all installations.
func (r *Record) Presences(ctx context.Context) (all []Presence, err error) {
	namespace, err := r.o.Namespace()
	if err != nil {
		return nil, err
	}
	now, err := r.read(ctx, namespace)
	if err != nil || now == nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range now.heartbeats() {
		p := Presence{Heartbeat: h, Self: h.Instance == r.o.Instance && h.Operator == r.o.Operator}
		if is := r.others.known[h.Operator]; is != nil && h.Instance == r.o.Instance {
			p.Gone = r.others.gone(is)
			p.Alive = is.alive && !p.Gone
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Presence) int {
		return cmp.Or(strings.Compare(a.Instance, b.Instance), strings.Compare(a.Operator, b.Operator))
	})
	return all, nil
}

// ElsewhereError is the error of a change that would concern another operator with the same instance name.
type ElsewhereError struct {
	Instance string
	Others   []Other
}

func (e *ElsewhereError) Error() string {
	var names []string
	for _, o := range e.Others {
		names = append(names, o.Name)
	}
	return fmt.Sprintf("another operator may use the instance name %q: %s", e.Instance, strings.Join(names, ", "))
}
