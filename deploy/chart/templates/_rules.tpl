{{/* Rules of the operator in its namespace, then those of hooks; may be empty. */}}
{{- define "ownRules" -}}
{{- if include "leads" . }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "lease" . }}]
  verbs: [get, watch, update]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, list] # cannot be limited to a name; a leader checks that no shard has an owner
{{- end }}
{{- if include "shards" . }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: {{ include "leases" . }}
  verbs: [get, update, delete]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, list, watch] # cannot be limited to names
{{- end }}
{{- if include "answers" . }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "webhookSecret" . }}]
  verbs: [get, watch, patch]
{{- end }}
{{- include "recordRules" . }}
{{- if .Values.kubernetesEvents }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- with .Values.rbac.rules }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Rules for the record of finalizers. */}}
{{- define "recordRules" -}}
{{- if .Values.finalizers.enabled }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [shell-operator-finalizers]
  verbs: [get, watch, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create] # cannot be limited to a name
{{- end }}
{{- end -}}

{{/* The same for what has no namespace, or for all namespaces. */}}
{{- define "clusterRules" -}}
{{- range $kind := list "validating" "mutating" }}
{{- if get $.Values.webhooks $kind }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [{{ $kind }}webhookconfigurations]
  resourceNames: [{{ include "configuration" $ }}-hooks]
  verbs: [list, watch, update]
{{- end }}
{{- end }}
{{- if .Values.webhooks.conversion.enabled }}
{{- if not .Values.webhooks.conversion.crds }}
{{- fail "webhooks.conversion.crds is empty: name the CRDs that hooks convert, such as crontabs.example.com" }}
{{- end }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson .Values.webhooks.conversion.crds }}
  verbs: [list, watch, patch]
{{- end }}
{{- if .Values.http.enabled }}
# Authentication and authorization of clients of HTTP hooks.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- with .Values.rbac.clusterRules }}
{{ toYaml . }}
{{- end }}
{{- end -}}
