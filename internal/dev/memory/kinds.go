package memory

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/kube"
)

const (
	// withScale are built-in resources with this subresource.
	withScale = " deployments statefulsets replicasets replicationcontrollers "
	// withoutGeneration have a status, and no generation.
	withoutGeneration = " namespaces nodes services persistentvolumes persistentvolumeclaims resourcequotas horizontalpodautoscalers " +
		"volumeattachments apiservices certificatesigningrequests "
)

// selectable are the fields of built-in resources that field selectors may name.
var selectable = map[schema.GroupResource][]string{
	{Resource: "pods"}: {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
		"status.phase", "status.podIP", "status.nominatedNodeName"},
	{Resource: "events"}: {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
		"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent",
		"source", "type"},
	{Resource: "namespaces"}:                 {"status.phase", "name"},
	{Resource: "nodes"}:                      {"spec.unschedulable"},
	{Resource: "secrets"}:                    {"type"},
	{Resource: "replicationcontrollers"}:     {"status.replicas"},
	{Group: "apps", Resource: "replicasets"}: {"status.replicas"},
	{Group: "batch", Resource: "jobs"}:       {"status.successful"},
	{Group: "events.k8s.io", Resource: "events"}: {"regarding.kind", "regarding.namespace",
		"regarding.name", "regarding.uid", "reason", "type"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {"spec.signerName"},
}

// generated reports whether objects of a kind have a generation.
func (k *Kind) generated() bool {
	return k.Custom || k.Status && !strings.Contains(withoutGeneration, " "+k.GroupVersionResource.Resource+" ")
}

// BuiltIns are the kinds that every API server has.
func BuiltIns() []Kind {
	var kinds []Kind
	for _, b := range rbac.BuiltIns() {
		k := Kind{Resource: b, Scale: strings.Contains(withScale, " "+b.Resource+" "), Selectable: selectable[b.GroupResource()]}
		t, known := builtIn(k)
		_, hasStatus := patchMeta(t).field("status")
		k.Status = hasStatus || !known // those without a schema are CRDs and APIServices
		kinds = append(kinds, k)
	}
	return kinds
}

// CRDKinds are the kinds that a manifest defines, if it is a CRD.
func CRDKinds(text []byte) (kinds []Kind) {
	var crd struct {
		Kind string
		Spec struct {
			Group, Scope string
			Names        struct {
				Plural, Kind string
				ShortNames   []string
			}
			Versions []struct {
				Name               string
				Served             *bool
				DeprecationWarning string
				Subresources       struct{ Status, Scale *struct{} }
				SelectableFields   []struct{ JSONPath string }
				Schema             struct{ OpenAPIV3Schema json.RawMessage }
			}
		}
	}
	if json.Unmarshal(text, &crd) != nil || crd.Kind != "CustomResourceDefinition" {
		return nil
	}
	for _, v := range crd.Spec.Versions {
		if v.Served != nil && !*v.Served {
			continue
		}
		gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Version: v.Name, Resource: crd.Spec.Names.Plural}
		k := Kind{
			Resource: kube.Resource{GroupVersionResource: gvr, Kind: crd.Spec.Names.Kind, Namespaced: crd.Spec.Scope != "Cluster",
				ShortNames: strings.Join(crd.Spec.Names.ShortNames, ",")},
			Status: v.Subresources.Status != nil, Scale: v.Subresources.Scale != nil, Custom: true,
			schema: customType(v.Schema.OpenAPIV3Schema), Warning: v.DeprecationWarning,
		}
		for _, field := range v.SelectableFields {
			k.Selectable = append(k.Selectable, strings.TrimPrefix(field.JSONPath, "."))
		}
		kinds = append(kinds, k)
	}
	return kinds
}
