// Package finalizer maintains the record of finalizers: which installation, hook and binding has which finalizer on which resource.
//
// Callers may rely on this:
//   - An entry is written before its finalizer is added to the first object. The search for orphans removes neither finalizers nor entries.
//   - A record of another format is neither changed nor followed.
//   - Entries of other installations are changed only by Remove, on request.
//   - Uninstall marks the record first. A running operator that reads the mark adds no finalizer from then on.
//
// The record is a ConfigMap in the operator's namespace, so that finalizers of hooks that are gone can be found and removed.
package finalizer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

const (
	// RecordName is the name of the ConfigMap.
	RecordName = "shell-operator-finalizers"

	formatAnnotation = "shell-operator/format"
	format           = "1"
	// markAnnotation has the installations whose finalizers are being removed, with commas.
	markAnnotation = "shell-operator/uninstalling"
	managedLabel   = "app.kubernetes.io/managed-by"
)

// Entry is a finalizer of a binding on a resource.
type Entry struct {
	Instance   string `json:"instance"`
	Finalizer  string `json:"finalizer"`
	APIVersion string `json:"apiVersion"`
	Resource   string `json:"resource"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced"`
	// Namespaces are the namespaces of the binding and of its earlier versions; empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	Hook       string   `json:"hook"`
	Binding    string   `json:"binding"`
}

// key returns the entry's key in the record. Neither a group nor a resource has an underscore, and the domain of a finalizer has none.
func (e *Entry) key() string {
	group, _, grouped := strings.Cut(e.APIVersion, "/")
	if !grouped {
		group = ""
	}
	return strings.Replace(e.Finalizer, "/", "_", 1) + "_" + strings.TrimSuffix(e.Resource+"."+group, ".")
}

func (e *Entry) resource() kube.Resource {
	group, version, grouped := strings.Cut(e.APIVersion, "/")
	if !grouped {
		group, version = "", e.APIVersion
	}
	res := kube.Resource{Kind: e.Kind, Namespaced: e.Namespaced}
	res.Group, res.Version, res.Resource = group, version, e.Resource
	return res
}

// Options of a Record. Client, Namespace, Instance and Log are required.
type Options struct {
	Client rest.Interface
	// Namespace returns the namespace of the operator.
	Namespace func() (string, error)
	// Instance is the installation.
	Instance string
	Log      *slog.Logger
	// Halted receives why no finalizer may be added any more. Objects with a larger version than the given one may have got it in vain.
	Halted func(reason string, than uint64)
}

// Record is the record of all installations in a namespace.
type Record struct {
	o Options
	// follow is closed when the record has to be followed.
	follow    chan struct{}
	following sync.Once
	// writing has room for one: a write does not decide by what another one of this process is about to change.
	writing chan struct{}

	mu sync.Mutex
	// owned are the bindings of this process, by key.
	owned map[string]owner
	// written is set once the record has an entry of this process.
	written bool
	halted  bool
	orphans []Orphan
}

type owner struct {
	hook  *hook.Hook
	index int
}

// New returns a Record. It sends no request.
func New(o Options) *Record {
	if o.Halted == nil {
		o.Halted = func(string, uint64) {}
	}
	return &Record{o: o, follow: make(chan struct{}), writing: make(chan struct{}, 1), owned: map[string]owner{}}
}

// Instance is the installation of this operator.
func (r *Record) Instance() string { return r.o.Instance }

// configMap is the record, with maps that are not nil. Its version is empty as long as there is none.
type configMap struct{ v1.ConfigMap }

func newConfigMap() *configMap {
	c := &configMap{}
	c.APIVersion, c.Kind, c.Name = "v1", "ConfigMap", RecordName
	c.Data, c.Labels, c.Annotations = map[string]string{}, map[string]string{}, map[string]string{}
	return c
}

func (c *configMap) exists() bool { return c.ResourceVersion != "" }

// marked are the installations that are being removed.
func (c *configMap) marked() []string {
	return strings.FieldsFunc(c.Annotations[markAnnotation], func(r rune) bool { return r == ',' })
}

func (c *configMap) mark(instances []string) {
	if c.Annotations[markAnnotation] = strings.Join(instances, ","); len(instances) == 0 {
		delete(c.Annotations, markAnnotation)
	}
}

// entries returns the entries, or why they cannot be read.
func (c *configMap) entries() ([]Entry, error) {
	if f := c.Annotations[formatAnnotation]; f != format && (f != "" || len(c.Data) > 0) {
		return nil, &FormatError{Found: f}
	}
	var all []Entry
	for key, text := range c.Data {
		var e Entry
		if json.Unmarshal([]byte(text), &e) != nil || e.key() != key {
			return nil, fmt.Errorf("the ConfigMap %s has an entry %q that cannot be read: remove it, and the finalizer that it names "+
				"from all objects", RecordName, key)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.key(), b.key()) })
	return all, nil
}

// FormatError is the error of a record that another version of the operator wrote.
type FormatError struct{ Found string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("the ConfigMap %s has the format %q, this version of the operator reads %q: use the version that wrote it", RecordName,
		e.Found, format)
}

func (r *Record) path(namespace string, name ...string) []string {
	return append([]string{"/api/v1/namespaces", namespace, "configmaps"}, name...)
}

// read returns nil if there is no record.
func (r *Record) read(ctx context.Context) (*configMap, error) {
	namespace, err := r.o.Namespace()
	if err != nil {
		return nil, err
	}
	text, err := kube.Send(ctx, r.o.Client.Get().AbsPath(r.path(namespace, RecordName)...))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(namespace, err)
	}
	return decode(text)
}

func decode(text []byte) (*configMap, error) {
	c := newConfigMap()
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("cannot read the ConfigMap %s: %w", RecordName, err)
	}
	return c, nil
}

// explain adds the rule that is missing.
func explain(namespace string, err error) error {
	return fmt.Errorf("cannot use the record of finalizers: %w", kube.Explain(err, namespace,
		kube.Rule{Resource: "configmaps", Names: []string{RecordName}, Verbs: []string{"get", "watch", "patch", "delete"}},
		kube.Rule{Resource: "configmaps", Verbs: []string{"create"}}))
}

// attempts bounds the retries of a write when other clients change the record at the same time.
const attempts = 5

// edit lets change change the record, or make it. A record without entries and annotations is deleted.
func (r *Record) edit(ctx context.Context, change func(*configMap) error) error {
	namespace, err := r.o.Namespace()
	if err != nil {
		return err
	}
	select {
	case r.writing <- struct{}{}:
		defer func() { <-r.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for attempt := 1; ; attempt++ {
		now, err := r.read(ctx)
		if err != nil {
			return err
		}
		if now == nil {
			now = newConfigMap()
		}
		next := &configMap{*now.DeepCopy()}
		if err := change(next); err != nil || reflect.DeepEqual(now, next) {
			return err
		}
		err = r.write(ctx, namespace, now, next)
		switch {
		case err == nil:
			return nil
		case (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) && attempt < attempts:
		default:
			return explain(namespace, err)
		}
	}
}

// write makes, changes or deletes the record, if it is as it was read.
func (r *Record) write(ctx context.Context, namespace string, now, next *configMap) error {
	if len(next.Data)+len(next.Annotations) == 0 {
		body := fmt.Appendf(nil, `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":%q}}`,
			now.ResourceVersion)
		return r.o.Client.Delete().AbsPath(r.path(namespace, RecordName)...).Body(body).Do(ctx).Error()
	}
	body, err := json.Marshal(next)
	req := r.o.Client.Post().AbsPath(r.path(namespace)...).SetHeader("Content-Type", "application/json")
	if err == nil && now.exists() {
		now.ResourceVersion = "" // so that the patch has it
		before, _ := json.Marshal(now)
		body, err = jsonpatch.CreateMergePatch(before, body)
		req = r.o.Client.Patch(types.MergePatchType).AbsPath(r.path(namespace, RecordName)...)
	}
	if err != nil {
		return err
	}
	return req.Param("fieldManager", "shell-operator").Body(body).Do(ctx).Error()
}

// Claim records that a binding has its finalizer on a resource.
func (r *Record) Claim(ctx context.Context, h *hook.Hook, index int, res kube.Resource) error {
	if _, err := r.o.Namespace(); err != nil {
		return fmt.Errorf("a finalizer needs the namespace of its record: %w", err)
	}
	b := &h.Kubernetes[index]
	e := Entry{
		Instance: r.o.Instance, Finalizer: b.Finalizer, APIVersion: res.GroupVersion().String(), Resource: res.Resource, Kind: res.Kind,
		Namespaced: res.Namespaced, Namespaces: b.Namespaces.Names, Hook: h.Name, Binding: b.Name,
	}
	if err := r.own(e.key(), owner{h, index}); err != nil {
		return err
	}
	r.following.Do(func() { close(r.follow) })
	err := r.edit(ctx, func(now *configMap) error { return r.claimed(now, e) })
	if err == nil {
		r.mu.Lock()
		r.written = true
		r.mu.Unlock()
	}
	return err
}

// own rejects a second binding of one hook for one resource, which the configuration names in another way.
func (r *Record) own(key string, by owner) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if has, ok := r.owned[key]; ok && has.hook == by.hook && has.index != by.index {
		return fmt.Errorf("the finalizer %s is that of binding %q, too, for the same resource: give each binding its own finalizer",
			by.hook.Kubernetes[by.index].Finalizer, has.hook.Kubernetes[has.index].Name)
	}
	r.owned[key] = by
	return nil
}

// claimed adds an entry to the record.
func (r *Record) claimed(now *configMap, e Entry) error {
	r.mu.Lock()
	written := r.written
	r.mu.Unlock()
	if !now.exists() && written {
		return errGone
	}
	all, err := now.entries()
	if err != nil {
		return err
	}
	if slices.Contains(now.marked(), e.Instance) {
		return errMarked
	}
	for _, other := range all {
		switch {
		case other.key() != e.key():
		case other.Instance != e.Instance:
			return fmt.Errorf("the finalizer %s of %s belongs to the installation %q (hook %q): use another name or, if that installation is "+
				"gone, run 'finalizers remove %s --instance %s --yes'",
				e.Finalizer, e.Resource, other.Instance, other.Hook, e.Finalizer, other.Instance)
		case len(other.Namespaces) > 0 && len(e.Namespaces) > 0:
			e.Namespaces = slices.Compact(slices.Sorted(slices.Values(append(other.Namespaces, e.Namespaces...))))
		default:
			e.Namespaces = nil
		}
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	now.Data[e.key()] = string(text)
	now.Labels[managedLabel], now.Annotations[formatAnnotation] = "shell-operator", format
	return nil
}

var (
	errMarked = errors.New("the finalizers of this installation are being removed by 'uninstall': run it again to complete that, " +
		"then start the operator again")
	errGone = errors.New("the ConfigMap " + RecordName + " was deleted while the operator was running: start the operator again")
)

// Run follows the record from the first Claim until ctx ends.
func (r *Record) Run(ctx context.Context) {
	select {
	case <-r.follow:
	case <-ctx.Done():
		return
	}
	namespace, err := r.o.Namespace()
	if err != nil {
		return
	}
	one := kube.One{Client: r.o.Client, Path: r.path(namespace), Name: RecordName}
	warned := false
	kube.WatchOne(ctx, kube.Backoff{}, func(ctx context.Context) error {
		return one.Watch(ctx, func() { r.verify(ctx) }, func(deleted bool, text []byte) {
			if deleted {
				r.verify(ctx)
			} else if now, err := decode(text); err == nil {
				r.seen(now)
			}
		})
	}, func(err error) {
		if err != nil && kube.IsPermissionMissing(err) && !warned {
			warned = true
			r.o.Log.Warn("Cannot follow the record of finalizers: 'uninstall' beside this operator is not noticed",
				"error", explain(namespace, err).Error())
		}
	})
}

// verify halts if the record is gone. What was gone before this process has written an entry does not count.
func (r *Record) verify(ctx context.Context) {
	r.mu.Lock()
	written := r.written
	r.mu.Unlock()
	if now, err := r.read(ctx); written && err == nil && now == nil {
		r.seen(nil)
	}
}

// seen halts when the record is marked, is gone, or has another format.
func (r *Record) seen(now *configMap) {
	r.mu.Lock()
	if r.halted || !r.written {
		r.mu.Unlock()
		return
	}
	reason, than := "", uint64(math.MaxUint64)
	switch {
	case now == nil:
		reason = errGone.Error()
	case slices.Contains(now.marked(), r.o.Instance):
		reason = errMarked.Error()
		if v, err := strconv.ParseUint(now.ResourceVersion, 10, 64); err == nil {
			than = v
		}
	default:
		var other *FormatError
		if _, err := now.entries(); errors.As(err, &other) {
			reason = other.Error()
		}
	}
	r.halted = reason != ""
	r.mu.Unlock()
	if reason != "" {
		r.o.Halted(reason, than) // first: the log reports what is so
		r.o.Log.Error("Bindings with a finalizer deliver nothing any more", "reason", reason)
	}
}

// List returns the entries of all installations.
func (r *Record) List(ctx context.Context) ([]Entry, error) {
	now, err := r.read(ctx)
	if err != nil || now == nil {
		return nil, err
	}
	return now.entries()
}
