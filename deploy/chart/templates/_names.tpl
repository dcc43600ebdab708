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

{{- define "selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/version: {{ regexReplaceAll "[^A-Za-z0-9_.-]" .Chart.AppVersion "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "name" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name is empty and serviceAccount.create is false: name the ServiceAccount to use" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* The questions below are answered by "true" or by nothing. */}}

{{- define "leads" -}}
{{- if or (eq .Values.leaderElection.mode "Always") (and (eq .Values.leaderElection.mode "Auto") (gt (int .Values.replicas) 1)) }}true{{ end -}}
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

{{/* The Secret with certificates that the operator does not manage. */}}
{{- define "certificates" -}}
{{- if eq .Values.webhooks.certificates.from "Secret" -}}
{{ required "webhooks.certificates.secretName is empty: name the Secret with tls.crt, tls.key and ca.crt" .Values.webhooks.certificates.secretName }}
{{- else -}}
{{ default (printf "%s-webhook-tls" (include "name" .)) .Values.webhooks.certificates.secretName }}
{{- end -}}
{{- end -}}

{{/* Keys of a ConfigMap have no slashes: the file shop/watch.sh is under shop--watch.sh, and is mounted at its path. */}}
{{- define "hookKey" -}}
{{ replace "/" "--" . }}
{{- end -}}
