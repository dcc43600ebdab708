package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// loader creates objects in an empty cluster.
type loader struct {
	client   kube.Client
	resolver *kube.Resolver
}

// LoadObjects creates the objects of the YAML files in a directory, except test files, in an empty cluster, and the namespaces that they
// name. Then it creates the objects that init writes for tests, in the directory fixtures below and in manifests beside it, as far as that
// is possible: a fixture may be the next version of another one, or no object. It writes files to private.
func LoadObjects(ctx context.Context, o kube.Options, dir, private string) (n int, from []string, err error) {
	cl, err := kube.Connect(o, private)
	if err != nil {
		return 0, nil, err
	}
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot make a client for the cluster: %w", err)
	}
	l := loader{client, kube.NewResolver(client)}
	isTest := func(path string) bool { return strings.HasSuffix(path, testfile.Suffix) }
	all, err := testfile.ReadManifests(slices.DeleteFunc(yamlFiles(dir), isTest))
	if err != nil {
		return 0, nil, err
	}
	for _, m := range inOrder(all) {
		if err := l.create(ctx, m.Text); err != nil {
			return n, nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		n++
	}
	var examples []testfile.Manifest
	for _, below := range []string{filepath.Join(dir, "..", "manifests"), filepath.Join(dir, "fixtures")} {
		files := yamlFiles(below)
		for _, file := range files {
			if read, err := testfile.ReadManifests([]string{file}); err == nil {
				examples = append(examples, read...)
			}
		}
		if len(files) > 0 {
			from = append(from, below)
		}
	}
	for _, m := range inOrder(examples) {
		if l.create(ctx, m.Text) == nil {
			n++
		}
	}
	return n, from, ctx.Err()
}

func yamlFiles(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.yaml")) // the pattern is valid, unless the directory's name is strange
	return files
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
	return l.status(ctx, &h, append(res.Path(namespace), h.Metadata.Name), tree["status"])
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
