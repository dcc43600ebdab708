{{/* The name of everything that belongs to this release; the longest suffix has 12 characters. */}}
{{- define "name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- if contains $chart .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $chart | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of what has no namespace: releases of one name in two namespaces do not share it. */}}
{{- define "clusterName" -}}
{{ .Release.Namespace }}-{{ include "name" . }}
{{- end -}}

{{/* The prefix of the webhook configurations, which end in "-hooks". The chart creates them: those that earlier versions of the operator have created have
another name, because Helm does not adopt objects. */}}
{{- define "configuration" -}}
{{ include "clusterName" . }}-admission
{{- end -}}

{{/* The Secret of webhook paths, and of the CA of certificates that the operator issues. */}}
{{- define "webhookSecret" -}}
{{ include "name" . }}-webhook{{ if ne .Values.webhooks.certificates.from "Operator" }}-paths{{ end }}
{{- end -}}

{{- define "selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels and annotations of an object: (dict "at" $ "kind" "Service"), with "labels" and "annotations" of its own. Pods with a "role" are not those of the operator: no Service selects them. */}}
{{- define "meta" -}}
{{- $own := fromYaml (include "selector" .at) }}
{{- $_ := set $own "app.kubernetes.io/version" (regexReplaceAll "[^A-Za-z0-9_.-]" .at.Chart.AppVersion "_" | trunc 63) }}
{{- $_ := set $own "app.kubernetes.io/managed-by" .at.Release.Service }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .at.Chart.Name .at.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $labels := merge $own (default (dict) .labels) (default (dict) (get .at.Values.labels .kind)) .at.Values.commonLabels }}
{{- if .role }}
{{- $labels = set (unset $labels "app.kubernetes.io/name") "app.kubernetes.io/component" .role }}
{{- end -}}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with merge (dict) (default (dict) .annotations) (default (dict) (get .at.Values.annotations .kind)) .at.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "name" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name is empty and serviceAccount.create is false: name the ServiceAccount to use" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* The questions below are answered by "true" or by nothing. */}}

{{/* The number of Pods; nothing if the cluster decides. With shards, one more than there are is the default. */}}
{{- define "replicas" -}}
{{- $shards := int .Values.shards }}
{{- if kindIs "invalid" .Values.replicas -}}
{{- else if and (gt $shards 1) (eq (int .Values.replicas) 1) -}}
{{ add1 $shards }}
{{- else if and (gt $shards 1) (gt (int .Values.replicas) 0) (lt (int .Values.replicas) $shards) -}}
{{ fail (printf "replicas is %d, and each of the %d shards needs a Pod: leave replicas out, or set %d or more" (int .Values.replicas) $shards $shards) }}
{{- else -}}
{{ int .Values.replicas }}
{{- end -}}
{{- end -}}

{{- define "several" -}}
{{- if gt (int (include "replicas" .)) 1 }}true{{ end -}}
{{- end -}}

{{- define "shards" -}}
{{- if gt (int .Values.shards) 1 }}true{{ end -}}
{{- end -}}

{{- define "leads" -}}
{{- if include "shards" . }}{{ if eq .Values.leaderElection.mode "Always" }}{{ fail "leaderElection.mode is Always, and shards are set: choose one" }}{{ end }}
{{- else if or (eq .Values.leaderElection.mode "Always") (and (eq .Values.leaderElection.mode "Auto") (gt (int .Values.replicas) 1)) }}true{{ end -}}
{{- end -}}

{{- define "admits" -}}
{{- if or .Values.webhooks.validating .Values.webhooks.mutating }}true{{ end -}}
{{- end -}}

{{- define "answers" -}}
{{- if or (include "admits" .) .Values.webhooks.conversion.enabled }}true{{ end -}}
{{- end -}}

{{- define "lease" -}}
{{ default (include "name" .) .Values.leaderElection.lease }}
{{- end -}}

{{/* The Leases as a list: that of leader election, and with shards those of all numbers of shards that there can be. */}}
{{- define "leases" -}}
[{{ include "lease" . }}{{ if include "shards" . }}{{ range until 64 }}, {{ include "lease" $ }}-shard-{{ . }}{{ end }}{{ end }}]
{{- end -}}

{{/* The Secret with certificates that the operator does not manage. */}}
{{- define "certificates" -}}
{{- if eq .Values.webhooks.certificates.from "Secret" -}}
{{ required "webhooks.certificates.secretName is empty: name the Secret with tls.crt, tls.key and ca.crt" .Values.webhooks.certificates.secretName }}
{{- else -}}
{{ default (printf "%s-webhook-tls" (include "name" .)) .Values.webhooks.certificates.secretName }}
{{- end -}}
{{- end -}}

{{/* An image in the registry of a mirror, if there is one: (dict "at" $ "image" "…"). The first part of a path is a registry if it has a dot or a port. */}}
{{- define "mirrored" -}}
{{- with (default (dict) .at.Values.global).imageRegistry -}}
{{ trimSuffix "/" . }}/{{ regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $.image "" }}
{{- else -}}
{{ .image }}
{{- end -}}
{{- end -}}

{{/* The image of the operator. */}}
{{- define "image" -}}
{{- $repository := include "mirrored" (dict "at" . "image" .Values.image.repository) -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ with .Values.image.variant }}-{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* What all Pods of the release have in common: (dict "at" $), with more "tolerations". */}}
{{- define "placement" -}}
securityContext:
  {{- toYaml .at.Values.podSecurityContext | nindent 2 }}
{{- with concat (default (list) .at.Values.image.pullSecrets) (default (list) (default (dict) .at.Values.global).imagePullSecrets) | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .at.Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .at.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .at.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat (default (list) .at.Values.tolerations) (default (list) .tolerations) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .at.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The ports, by name. Those of the node must be free with hostNetwork, so they are settings. */}}
{{- define "ports" -}}
metrics: {{ default 9115 (get .Values.settings "listen-port") }}
{{- if include "admits" . }}
admission: {{ default 9680 (get .Values.settings "validating-webhook-listen-port") }}
{{- end }}
{{- if .Values.webhooks.conversion.enabled }}
conversion: {{ default 9681 (get .Values.settings "conversion-webhook-listen-port") }}
{{- end }}
{{- if .Values.http.enabled }}
http: {{ default 9690 (get .Values.settings "http-listen-port") }}
{{- end }}
{{- end -}}

{{/* Keys of a ConfigMap have no slashes: the file shop/watch.sh is under shop--watch.sh, and is mounted at its path. */}}
{{- define "hookKey" -}}
{{ replace "/" "--" . }}
{{- end -}}
