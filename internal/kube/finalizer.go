package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Finalized is an object whose finalizers are changed. The uid distinguishes it from another one of its name.
type Finalized struct {
	Resource             Resource
	Namespace, Name, UID string
	// Finalizers are those that the object had when it was read.
	Finalizers []string
	// Adders are the field managers that added the finalizer of a list by an update; nil for an object without managedFields. The API server
	// keeps none for one that was created with nothing but a name, and never applied.
	Adders []string
}

// unknownManagers are the field managers that the API server names where it no longer has the one that made a change: it merges the oldest
// of more than ten, and the first apply of an object without managedFields merges all before it.
var unknownManagers = []string{"ancient-changes", "before-first-apply"}

// AddedBy reports whether an installation, of which manager is the field manager, has added the finalizer to the object. Where the API
// server does not have the manager, it has if it adds the finalizer to objects of these namespaces; none means all.
func (o *Finalized) AddedBy(manager string, namespaces []string) bool {
	switch {
	case slices.Contains(o.Adders, manager):
		return true
	case slices.ContainsFunc(o.Adders, func(m string) bool { return strings.HasPrefix(m, FieldManager("")) }): // another installation
		return false
	case o.Adders != nil && !slices.ContainsFunc(unknownManagers, func(m string) bool { return slices.Contains(o.Adders, m) }):
		return false
	}
	return len(namespaces) == 0 || o.Namespace == "" || slices.Contains(namespaces, o.Namespace)
}

func (o *Finalized) path() []string { return append(o.Resource.Path(o.Namespace), o.Name) }

// AddFinalizer adds a finalizer, and returns the object as JSON. An object that is being deleted is returned as it is: no finalizer can be
// added to it. The error of an object that is gone, or has another uid, is IsNotFound.
func AddFinalizer(ctx context.Context, client rest.Interface, o Finalized, finalizer, manager string) ([]byte, error) {
	return changeFinalizers(ctx, client, o, manager, func(live *metav1.ObjectMeta) []string {
		if live.DeletionTimestamp != nil || slices.Contains(live.Finalizers, finalizer) {
			return live.Finalizers
		}
		return append(slices.Clone(live.Finalizers), finalizer)
	})
}

// RemoveFinalizer removes a finalizer, and returns the object as JSON. The error of an object that is gone, or has another uid, is
// IsNotFound.
func RemoveFinalizer(ctx context.Context, client rest.Interface, o Finalized, finalizer string) ([]byte, error) {
	return changeFinalizers(ctx, client, o, "shell-operator", func(live *metav1.ObjectMeta) []string {
		return slices.DeleteFunc(slices.Clone(live.Finalizers), func(f string) bool { return f == finalizer })
	})
}

// finalizerAttempts bounds how often an object is read again because other clients change its finalizers at the same time.
const finalizerAttempts = 8

// changeFinalizers sends a patch that succeeds only if uid and finalizers are as expected. Otherwise it reads the object and decides again.
func changeFinalizers(ctx context.Context, client rest.Interface, o Finalized, manager string,
	change func(*metav1.ObjectMeta) []string,
) ([]byte, error) {
	live := metav1.ObjectMeta{Finalizers: o.Finalizers}
	var text []byte // of the object as it was read last
	for attempt := 1; ; attempt++ {
		before, wanted := live.Finalizers, change(&live)
		if text != nil && slices.Equal(wanted, before) {
			return text, nil
		}
		var rejected error
		if !slices.Equal(wanted, before) {
			body, err := finalizersPatch(o.UID, before, wanted)
			if err != nil {
				return nil, err
			}
			patched, err := Send(ctx, client.Patch(types.JSONPatchType).AbsPath(o.path()...).Param("fieldManager", manager).Body(body))
			if err == nil || !isTestFailure(err) || attempt == finalizerAttempts {
				return patched, err
			}
			rejected = err
		}
		read := text != nil
		var err error
		if text, live, err = o.read(ctx, client); err != nil {
			return nil, err
		}
		if rejected != nil && read && slices.Equal(before, live.Finalizers) && live.DeletionTimestamp == nil {
			return nil, rejected // and not because of the tests
		}
	}
}

func (o *Finalized) read(ctx context.Context, client rest.Interface) (text []byte, live metav1.ObjectMeta, err error) {
	if text, err = Send(ctx, client.Get().AbsPath(o.path()...)); err != nil {
		return nil, live, err
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, live, fmt.Errorf("cannot read the metadata of %s: %w", o.Name, err)
	}
	if live = object.ObjectMeta; string(live.UID) != o.UID {
		return nil, live, apierrors.NewNotFound(schema.GroupResource{Group: o.Resource.Group, Resource: o.Resource.Resource}, o.Name)
	}
	return text, live, nil
}

// isTestFailure reports whether a test of a patch may have failed: an invalid object has the same status.
func isTestFailure(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Code == http.StatusUnprocessableEntity || apierrors.IsConflict(err))
}

type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func finalizersPatch(uid string, before, after []string) ([]byte, error) {
	const path = "/metadata/finalizers"
	patch := []patchOperation{{"test", "/metadata/uid", uid}, {"test", path, before}, {"replace", path, after}}
	switch {
	case len(before) == 0:
		patch[1].Value = nil // an absent member
		patch[2].Op = "add"
	case len(after) == 0:
		patch[2] = patchOperation{Op: "remove", Path: path}
	}
	return json.Marshal(patch)
}

// WithFinalizer lists the objects of a resource that have a finalizer, without their content: in all namespaces or, if that is forbidden,
// in the given ones, if there are any.
func WithFinalizer(ctx context.Context, client rest.Interface, res Resource, namespaces []string, finalizer string) ([]Finalized, error) {
	all, err := withFinalizer(ctx, client, res, "", finalizer)
	if !apierrors.IsForbidden(err) || len(namespaces) == 0 || !res.Namespaced {
		return all, err
	}
	for _, namespace := range namespaces {
		some, err := withFinalizer(ctx, client, res, namespace, finalizer)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func withFinalizer(ctx context.Context, client rest.Interface, res Resource, namespace, finalizer string) (all []Finalized, err error) {
	opts := metav1.ListOptions{Limit: 500}
	for {
		text, err := Send(ctx, client.Get().AbsPath(res.Path(namespace)...).
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json").
			SpecificallyVersionedParams(&opts, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}))
		if err != nil {
			return nil, err
		}
		var page metav1.PartialObjectMetadataList
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("cannot read a list of %s: %w", res.Resource, err)
		}
		for _, o := range page.Items {
			if slices.Contains(o.Finalizers, finalizer) {
				all = append(all, Finalized{Resource: res, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), Finalizers: o.Finalizers,
					Adders: adders(o.ManagedFields, finalizer)})
			}
		}
		if page.Continue == "" {
			return all, nil
		}
		opts.Continue = page.Continue
	}
}

// adders returns the field managers that own a finalizer by updates: an apply declares it.
func adders(managed []metav1.ManagedFieldsEntry, finalizer string) (managers []string) {
	if len(managed) > 0 {
		managers = []string{}
	}
	for _, m := range managed {
		var owned struct {
			Metadata struct {
				Finalizers map[string]json.RawMessage `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if m.Operation != metav1.ManagedFieldsOperationUpdate || m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &owned) != nil {
			continue
		}
		if _, owns := owned.Metadata.Finalizers[fmt.Sprintf("v:%q", finalizer)]; owns {
			managers = append(managers, m.Manager)
		}
	}
	return managers
}
