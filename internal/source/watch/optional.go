package watch

import (
	"context"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/installed"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// readEvery is the interval of reads while a kind is not installed.
const readEvery = 30 * time.Second

// following is the resource that a binding has streams of, and how. All its subscriptions descend from root, which has no stream.
type following struct {
	resource kube.Resource
	plan     plan
	root     *stream.Subscription
}

// attend lets the streams of an optional binding come and go with its kind, until the binding is disabled.
func (w *Watcher) attend(ctx context.Context, m *monitor) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	var has following // nothing without the kind
	kind := installed.Kind{APIVersion: m.binding.APIVersion, Kind: m.binding.Kind}
	failed := func(err error) { m.complain(m.at() == filling, err) }
	kube.Wake(m.doubted)
	for every, age := time.Duration(0), installed.Doubtful; kube.Wait(ctx, every, m.doubted); {
		var next following
		var is, same bool
		err := w.retry(ctx, m.address, failed, func() (err error) {
			oldest := age
			if m.wrote.Swap(false) {
				oldest = 0
			}
			next.resource, is, err = w.kinds.Find(ctx, kind, oldest)
			same = is && has.root != nil && next.resource.GroupVersionResource == has.resource.GroupVersionResource &&
				next.resource.Namespaced == has.resource.Namespaced
			if err == nil && is && !same {
				next.plan, err = w.plan(ctx, m, next.resource)
			}
			return err
		})
		log := m.log.With("kind", m.binding.Kind, "apiVersion", m.binding.APIVersion)
		switch {
		case err != nil:
			return
		case same:
		case is && has.root != nil && reflect.DeepEqual(next.plan, has.plan): // another scope with the same streams
			m.setResource(next.resource)
			has.resource = next.resource
		case is:
			if m.at() != filling {
				log.Info("The kind of an optional binding is installed now", "resource", next.resource.Resource)
			}
			next.root = w.follow(m, next.resource, next.plan, has.root)
			has = next
			w.warnOfMissing(m)
		case has.root != nil:
			log.Info("The kind of an optional binding is gone: its snapshot is empty until it is installed again")
			w.abandon(m, has.root)
			has = following{}
		case m.at() == filling:
			if next.resource.Version != "" {
				log = log.With("served", next.resource.Version, "hint", "change apiVersion of the binding")
			}
			log.Info("The kind of an optional binding is not installed: its snapshot is empty until it is")
			m.update(m.complete)
		}
		every, age = 0, installed.Doubtful
		if !m.watches() { // no request notices that the kind comes or goes
			every, age = readEvery, readEvery/2
		}
	}
}

// proves begins a read of a kind that counts as not installed if an answer is about an object of it.
func (m *monitor) proves(a effect.Answered) {
	if !m.binding.Optional {
		return
	}
	kind, gv := m.binding.Kind, schema.FromAPIVersionAndKind(m.binding.APIVersion, "")
	if gv.Group != a.Group || !strings.EqualFold(kind, a.Kind) && !strings.EqualFold(kind, a.Resource) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.subs) == 0 {
		m.wrote.Store(true)
		kube.Wake(m.doubted)
	}
}
