package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/spelling"
)

// builtIn are the kinds that every API server has and hooks watch: group, plural, kind, short names. Those in a group
// come in the order in which the API server would find them.
var builtIn = strings.Fields(`
	/pods/Pod/po /services/Service/svc /configmaps/ConfigMap/cm /secrets/Secret/ /serviceaccounts/ServiceAccount/sa
	/endpoints/Endpoints/ep /events/Event/ev /limitranges/LimitRange/limits /persistentvolumeclaims/PersistentVolumeClaim/pvc
	/podtemplates/PodTemplate/ /replicationcontrollers/ReplicationController/rc /resourcequotas/ResourceQuota/quota
	!/namespaces/Namespace/ns !/nodes/Node/no !/persistentvolumes/PersistentVolume/pv
	apps/deployments/Deployment/deploy apps/statefulsets/StatefulSet/sts apps/daemonsets/DaemonSet/ds
	apps/replicasets/ReplicaSet/rs apps/controllerrevisions/ControllerRevision/
	batch/jobs/Job/ batch/cronjobs/CronJob/cj
	autoscaling/horizontalpodautoscalers/HorizontalPodAutoscaler/hpa
	coordination.k8s.io/leases/Lease/ discovery.k8s.io/endpointslices/EndpointSlice/
	events.k8s.io/events/Event/ev
	networking.k8s.io/ingresses/Ingress/ing networking.k8s.io/networkpolicies/NetworkPolicy/netpol
	!networking.k8s.io/ingressclasses/IngressClass/
	policy/poddisruptionbudgets/PodDisruptionBudget/pdb
	rbac.authorization.k8s.io/roles/Role/ rbac.authorization.k8s.io/rolebindings/RoleBinding/
	!rbac.authorization.k8s.io/clusterroles/ClusterRole/ !rbac.authorization.k8s.io/clusterrolebindings/ClusterRoleBinding/
	storage.k8s.io/csistoragecapacities/CSIStorageCapacity/ !storage.k8s.io/storageclasses/StorageClass/sc
	!storage.k8s.io/volumeattachments/VolumeAttachment/ !storage.k8s.io/csidrivers/CSIDriver/ !storage.k8s.io/csinodes/CSINode/
	!scheduling.k8s.io/priorityclasses/PriorityClass/pc !node.k8s.io/runtimeclasses/RuntimeClass/
	!admissionregistration.k8s.io/validatingwebhookconfigurations/ValidatingWebhookConfiguration/
	!admissionregistration.k8s.io/mutatingwebhookconfigurations/MutatingWebhookConfiguration/
	!admissionregistration.k8s.io/validatingadmissionpolicies/ValidatingAdmissionPolicy/
	!admissionregistration.k8s.io/validatingadmissionpolicybindings/ValidatingAdmissionPolicyBinding/
	!apiextensions.k8s.io/customresourcedefinitions/CustomResourceDefinition/crd,crds
	!apiregistration.k8s.io/apiservices/APIService/
	!certificates.k8s.io/certificatesigningrequests/CertificateSigningRequest/csr
	!flowcontrol.apiserver.k8s.io/flowschemas/FlowSchema/ !flowcontrol.apiserver.k8s.io/prioritylevelconfigurations/PriorityLevelConfiguration/
`)

// Advice is the probable mistake in a kind, by the table of built-in kinds: its group, or a letter of its name. It is empty
// for everything that may be a custom resource.
func Advice(apiVersion, kind string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	groups, nearest := []string{}, ""
	builtInGroup := apiVersion == "" || gv.Group == "extensions"
	for _, b := range BuiltIns() {
		builtInGroup = builtInGroup || b.Group == gv.Group
		switch fits := b.Called(kind); {
		case fits && (apiVersion == "" || b.Group == gv.Group):
			return ""
		case fits:
			groups = append(groups, strings.TrimPrefix(b.Group+"/v1", "/"))
		case nearest == "" && spelling.Distance(strings.ToLower(kind), strings.ToLower(b.Kind)) == 1:
			nearest = b.Kind
		}
	}
	switch {
	case !builtInGroup:
		return ""
	case len(groups) > 0:
		return fmt.Sprintf("%s is not in %s: it is served as %s", kind, apiVersion, groups[0])
	case nearest != "":
		return fmt.Sprintf("%q is not built into Kubernetes: did you mean %s?", kind, nearest)
	}
	return ""
}

// Known is a Lookup without a cluster: it finds built-in kinds in a table, others by the rule that a resource is the plural of its kind.
func Known(apiVersion, kind string) (found kube.Resource, guessed bool, err error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return found, false, err
	}
	for _, b := range BuiltIns() {
		if (apiVersion == "" || gv.Group == b.Group) && b.Called(kind) {
			b.Version = cmp.Or(gv.Version, b.Version)
			return b, false, nil
		}
	}
	if gv.Group == "" {
		return found, false, fmt.Errorf("the kind %q is not built into Kubernetes, and its group is unknown: add apiVersion to the binding, "+
			"or use a cluster that serves this kind (--kube-config)", kind)
	}
	resource := gv.WithResource(kind) // a plural is written in lower case
	if kind != strings.ToLower(kind) || !strings.HasSuffix(kind, "s") {
		resource, _ = meta.UnsafeGuessKindToResource(gv.WithKind(kind))
	}
	return kube.Resource{GroupVersionResource: resource, Kind: kind, Namespaced: true}, true, nil
}

// BuiltIns returns the table of built-in kinds.
func BuiltIns() []kube.Resource {
	all := make([]kube.Resource, len(builtIn))
	for i, row := range builtIn {
		row, clusterWide := strings.CutPrefix(row, "!")
		parts := strings.Split(row, "/")
		gvr := schema.GroupVersionResource{Group: parts[0], Version: "v1", Resource: parts[1]}
		if gvr.Group == "autoscaling" {
			gvr.Version = "v2"
		}
		all[i] = kube.Resource{GroupVersionResource: gvr, Kind: parts[2], Namespaced: !clusterWide, ShortNames: parts[3]}
	}
	return all
}

// Plural returns the resource of a built-in kind of one of the groups, if text is the kind and not its resource, in any case.
func Plural(groups []string, text string) string {
	for _, b := range BuiltIns() {
		in := slices.Contains(groups, b.Group) || slices.Contains(groups, "*")
		if in && strings.EqualFold(text, b.Kind) && !strings.EqualFold(text, b.Resource) {
			return b.Resource
		}
	}
	return ""
}
