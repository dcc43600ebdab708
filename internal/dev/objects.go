package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// establishTimeout is the time that the API server has to serve a CRD.
const establishTimeout = time.Minute

// loader creates objects in an empty cluster.
type loader struct {
	client   kube.Client
	resolver *kube.Resolver
	// defined are the kinds of CRDs among the objects, by version and kind.
	defined map[string]kube.Resource
}

// LoadObjects creates the objects of the YAML files in a directory, except test files, in an empty cluster, and the namespaces that they
// name. It writes files to private.
func LoadObjects(ctx context.Context, o kube.Options, dir, private string) (n int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return 0, err
	}
	files = slices.DeleteFunc(files, func(path string) bool { return strings.HasSuffix(path, testfile.Suffix) })
	all, err := testfile.ReadManifests(files)
	if err != nil {
		return 0, err
	}
	cl, err := kube.Connect(o, private)
	if err != nil {
		return 0, err
	}
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return 0, fmt.Errorf("cannot make a client for the cluster: %w", err)
	}
	l := loader{client, kube.NewResolver(client), map[string]kube.Resource{}}
	namespaces, err := l.namespacesOf(ctx, all)
	if err != nil {
		return 0, err
	}
	for _, m := range append(namespaces, inOrder(all)...) {
		if err := l.create(ctx, m.Text); err != nil {
			return n, fmt.Errorf("%s: %w", m.Path, err)
		}
		n++
	}
	return n - len(namespaces), nil
}

// inOrder sorts objects: what others need comes first.
func inOrder(all []testfile.Manifest) []testfile.Manifest {
	rank := func(m testfile.Manifest) int {
		h, _ := testfile.HeadOf(m.Text)
		return map[string]int{"Namespace": -2, "CustomResourceDefinition": -1}[h.Kind]
	}
	slices.SortStableFunc(all, func(a, b testfile.Manifest) int { return rank(a) - rank(b) })
	return all
}

// namespacesOf are the namespaces that objects name, and that neither every cluster has nor a manifest creates.
func (l *loader) namespacesOf(ctx context.Context, all []testfile.Manifest) (missing []testfile.Manifest, err error) {
	exist := map[string]bool{"": true}
	for _, name := range initialNamespaces {
		exist[name] = true
	}
	heads := make([]testfile.Head, len(all))
	for i, m := range all {
		if heads[i], err = testfile.HeadOf(m.Text); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		if heads[i].Kind == "Namespace" {
			exist[heads[i].Metadata.Name] = true
		}
		for _, k := range memory.CRDKinds(m.Text) {
			l.defined[k.GroupVersion().String()+" "+k.Kind] = k.Resource
		}
	}
	for i, m := range all {
		res, err := l.resource(ctx, &heads[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		name := heads[i].Metadata.Namespace
		if !res.Namespaced || exist[name] {
			continue
		}
		exist[name] = true
		text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
		if err != nil {
			return nil, err
		}
		missing = append(missing, testfile.Manifest{Path: m.Path, Text: text})
	}
	return missing, nil
}

func (l *loader) resource(ctx context.Context, h *testfile.Head) (kube.Resource, error) {
	if res, ok := l.defined[h.APIVersion+" "+h.Kind]; ok {
		return res, nil
	}
	return l.resolver.Resolve(ctx, h.APIVersion, h.Kind)
}

// create creates an object, and its status.
func (l *loader) create(ctx context.Context, text []byte) error {
	h, err := testfile.HeadOf(text)
	if err != nil {
		return err
	}
	res, err := l.resource(ctx, &h)
	if err != nil {
		return err
	}
	namespace := ""
	if res.Namespaced {
		namespace = cmp.Or(h.Metadata.Namespace, "default")
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return err
	}
	metadata, _ := tree["metadata"].(map[string]any)
	for _, field := range setByServer {
		delete(metadata, field)
	}
	_, err = kube.SendJSON(ctx, l.client.Post().AbsPath(res.Path(namespace)...), tree)
	if err != nil && (!apierrors.IsAlreadyExists(err) || !isInitial(&h)) {
		return fmt.Errorf("cannot create %s: %w", h.Ref(), err)
	}
	path := append(res.Path(namespace), h.Metadata.Name)
	if len(memory.CRDKinds(text)) > 0 {
		return l.established(ctx, h.Metadata.Name, path)
	}
	return l.status(ctx, &h, path, tree["status"])
}

// setByServer are the fields of metadata that the API server sets.
var setByServer = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "selfLink"}

// initialNamespaces are those that every cluster has.
var initialNamespaces = []string{"default", "kube-system", "kube-public", "kube-node-lease"}

func isInitial(h *testfile.Head) bool {
	return h.Kind == "Namespace" && slices.Contains(initialNamespaces, h.Metadata.Name)
}

// status writes the status of an object, if it is a subresource.
func (l *loader) status(ctx context.Context, h *testfile.Head, path []string, status any) error {
	if status == nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = kube.Send(ctx, l.client.Patch(types.MergePatchType).AbsPath(append(path, "status")...).Body(patch))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot write the status of %s: %w", h.Ref(), err)
	}
	return nil
}

// established waits until a CRD is served.
func (l *loader) established(ctx context.Context, name string, path []string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
		text, err := kube.Send(ctx, l.client.Get().AbsPath(path...))
		if err != nil {
			return false, err
		}
		var crd struct {
			Status struct{ Conditions []metav1.Condition }
		}
		err = json.Unmarshal(text, &crd)
		return slices.ContainsFunc(crd.Status.Conditions,
			func(c metav1.Condition) bool { return c.Type == "Established" && c.Status == metav1.ConditionTrue }), err
	})
	if err != nil {
		return fmt.Errorf("the CRD %s is not established: %w", name, err)
	}
	return nil
}
