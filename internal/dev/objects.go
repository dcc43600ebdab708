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
}

// connect writes files to private.
func connect(o kube.Options, private string) (l loader, err error) {
	cl, err := kube.Connect(o, private)
	if err != nil {
		return l, err
	}
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return l, fmt.Errorf("cannot make a client for the cluster: %w", err)
	}
	return loader{client, kube.NewResolver(client)}, nil
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
	l, err := connect(o, private)
	if err != nil {
		return 0, err
	}
	for _, m := range inOrder(all) {
		if err := l.create(ctx, m.Text); err != nil {
			return n, fmt.Errorf("%s: %w", m.Path, err)
		}
		n++
	}
	return n, nil
}

// LoadExamples creates the objects that init writes for tests, in the directory fixtures of the hooks and in manifests beside it, as far as
// that is possible: a fixture may be the next version of another one, or no object.
func LoadExamples(ctx context.Context, o kube.Options, dir, private string) (n int, from []string, err error) {
	l, err := connect(o, private)
	if err != nil {
		return 0, nil, err
	}
	var all []testfile.Manifest
	for _, below := range []string{filepath.Join(dir, "..", "manifests"), filepath.Join(dir, "fixtures")} {
		files, _ := filepath.Glob(filepath.Join(below, "*.yaml")) // the pattern is valid, unless the directory's name is strange
		for _, file := range files {
			if read, err := testfile.ReadManifests([]string{file}); err == nil {
				all = append(all, read...)
			}
		}
		if len(files) > 0 {
			from = append(from, below)
		}
	}
	for _, m := range inOrder(all) {
		if l.create(ctx, m.Text) == nil {
			n++
		}
	}
	return n, from, ctx.Err()
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

// create creates an object, and its status.
func (l *loader) create(ctx context.Context, text []byte) error {
	h, err := testfile.HeadOf(text)
	if err != nil {
		return err
	}
	res, err := l.resolver.Resolve(ctx, h.APIVersion, h.Kind)
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
	post := func(body any, path ...string) error {
		_, err := kube.SendJSON(ctx, l.client.Post().AbsPath(path...), body)
		return err
	}
	err = post(tree, res.Path(namespace)...)
	if apierrors.IsNotFound(err) && namespace != "" && post(map[string]any{"metadata": map[string]any{"name": namespace}},
		"/api/v1/namespaces") == nil { // one that no manifest creates
		err = post(tree, res.Path(namespace)...)
	}
	if err != nil && (!apierrors.IsAlreadyExists(err) || h.Kind != "Namespace") { // such as default
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
